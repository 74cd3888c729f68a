// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/report"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unpack returns the files of a report, by their names.
func (p *person) unpack(archive io.Reader) map[string]string {
	p.T.Helper()
	unzipped, err := gzip.NewReader(archive)
	p.Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for entries := tar.NewReader(unzipped); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		p.Expect(err).NotTo(HaveOccurred())
		data, err := io.ReadAll(entries)
		p.Expect(err).NotTo(HaveOccurred())
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(data)
	}
}

func TestReport(t *testing.T) {
	p := newPerson(t)
	p.members()
	p.make("a", v1alpha1.TaskStateFailed)
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	got := p.run("report", "etcd/main", "-f", file)
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(BeEmpty())
	p.Expect(got.err).To(ContainSubstring(file + " has "))
	written, err := os.Open(file)
	p.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = written.Close() }()
	files := p.unpack(written)
	for _, name := range []string{"etcd.yaml", "statefulset.yaml", "pods/main-0.yaml", "tasks/a.yaml", "leases/main-0.yaml", "events.yaml", "versions.yaml"} {
		p.Expect(files).To(HaveKey(name))
	}
	p.Expect(files["versions.yaml"]).To(ContainSubstring("kubernetes: v1."))
	revisions := 0
	for name := range files {
		if path.Dir(name) == "controllerrevisions" {
			revisions++
		}
	}
	p.Expect(revisions).To(Equal(1))
	p.Expect(files["missing.txt"]).To(ContainSubstring("logs/main-0-etcd.log: "), "there is no kubelet")

	got = p.run("report", "main", "-f", file)
	p.Expect(got.code).To(Equal(1), got.String())
	p.Expect(got.err).To(Equal("error: " + file + " exists already: choose another file with --file\n"))
	got = p.run("report", "main", "-f", filepath.Join(file, "x"))
	p.Expect(got.code).To(Equal(1), got.String())
	p.Expect(got.err).To(HavePrefix("error: the report cannot be written: "))
	got = p.run("report", "other")
	p.Expect(got.code).To(Equal(1), got.String())
	p.Expect(got.err).To(ContainSubstring(`there is no Etcd "other"`))
}

// What the user may not read is named in the report.
func TestReportWithFewPermissions(t *testing.T) {
	p := newPerson(t)
	p.make("a", v1alpha1.TaskStateFailed)
	p.allow("reporter", "get", "list")
	p.kubeconfig = p.impersonating("reporter")
	var got outcome
	p.Eventually(func() string { got = p.run("report", "main", "-f", "-"); return got.out }).ShouldNot(BeEmpty())
	p.Expect(got.code).To(BeZero(), got.err)
	p.Expect(got.err).To(MatchRegexp(`(?m)^\d+ parts could not be read: missing.txt in the report names them. The first: .*not permitted: `))
	files := p.unpack(strings.NewReader(got.out))
	p.Expect(files).To(And(HaveKey("etcd.yaml"), HaveKey("tasks/a.yaml")))
	p.Expect(files["missing.txt"]).To(And(ContainSubstring("pods: not permitted: "), ContainSubstring("statefulset.yaml: not permitted: ")))
}

func TestVersionVerb(t *testing.T) {
	p := newPerson(t)
	got := p.run("version")
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(And(ContainSubstring("In the cluster\nKubernetes: v1."), ContainSubstring("operator: ")))
	p.Expect(testEnv.Client.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "foreman", Labels: map[string]string{v1alpha1.LabelName: report.OperatorName}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: report.OperatorName, Image: "registry.example/foreman:v0.1.0"}}},
	})).To(Succeed())
	got = p.run("version")
	p.Expect(got.out).To(ContainSubstring("operator:   v0.1.0 in pod " + p.Namespace + "/foreman, not ready (registry.example/foreman:v0.1.0)\n"))
	var v report.Versions
	p.Expect(json.Unmarshal([]byte(p.run("version", "-o", "json").out), &v)).To(Succeed())
	p.Expect(v.Operator).To(ContainElement(HaveField("Version", "v0.1.0")))

	for args, code := range map[string]int{"version --client": 0, "version": 1, "version -o wide": 2, "version main": 2} {
		got = p.run(append(strings.Fields(args), "-s", "http://127.0.0.1:1")...)
		p.Expect(got.code).To(Equal(code), "%s: %s", args, got)
		if code < 2 {
			p.Expect(got.out).To(HavePrefix("kubectl etcdtask "))
			p.Expect(got.out).NotTo(ContainSubstring("In the cluster"))
		}
	}
	p.kubeconfig = p.impersonating("unprivileged")
	got = p.run("version")
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(ContainSubstring("the operator could not be found: not permitted: "))
}
