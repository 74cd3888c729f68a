// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

const operatorDigest, agentDigest = "sha256:aaaa", "sha256:bbbb"

func example(t *testing.T) *release {
	t.Helper()
	t.Chdir("../..")
	return &release{version: "v0.1.0", registry: "registry.example.com/a", out: t.TempDir(), digests: map[string]string{"etcd-foreman": operatorDigest, "etcd-agent": agentDigest}}
}

func (r *release) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestDigests(t *testing.T) {
	g := NewWithT(t)
	found, err := digests("localhost:5000/a/etcd-foreman:v0.1.0@sha256:aaaa\netcd-agent:v0.1.0@sha256:bbbb\n", "v0.1.0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(Equal(map[string]string{"etcd-foreman": operatorDigest, "etcd-agent": agentDigest}))
	for list, message := range map[string]string{
		"etcd-foreman:v0.1.0@sha256:aaaa\n": "image etcd-agent is missing",
		"etcd-foreman:v0.0.9@sha256:aaaa\n": "version v0.0.9 instead of v0.1.0",
		"etcd-foreman:v0.1.0\n":             "no image with tag and digest",
	} {
		_, err := digests(list, "v0.1.0")
		g.Expect(err).To(MatchError(ContainSubstring(message)), list)
	}
}

func TestNotes(t *testing.T) {
	g := NewWithT(t)
	const changelog = "# Changelog\n\n## Unreleased\n\n- new\n\n## v0.1.0\n\n### API\n\n- old\n\n## v0.0.1\n\n- oldest\n"
	g.Expect(notes(changelog, "v0.1.0")).To(Equal("# etcd-foreman v0.1.0\n\n### API\n\n- old\n"))
	g.Expect(notes(changelog, "v0.2.0")).To(Equal("# etcd-foreman v0.2.0\n\n- new\n"))
	_, err := notes("# Changelog\n\n## Unreleased\n\n## v0.1.0\n\n- old\n", "v0.2.0")
	g.Expect(err).To(MatchError(ContainSubstring("says nothing of v0.2.0")))
}

func TestVersionsOfReleases(t *testing.T) {
	for version, want := range map[string]bool{"v0.1.0": true, "v1.0.0-rc.1": true, "0.1.0": false, "v0.1": false, "latest": false, "v01.0.0": false, "": false} {
		NewWithT(t).Expect(versions.MatchString(version)).To(Equal(want), version)
	}
}

func TestManifestsNameTheImagesOfTheRelease(t *testing.T) {
	g := NewWithT(t)
	r := example(t)
	g.Expect(r.manifests()).To(Succeed())
	install := r.read(t, "install.yaml")
	g.Expect(install).To(ContainSubstring("image: registry.example.com/a/etcd-foreman:v0.1.0@" + operatorDigest + "\n"))
	g.Expect(install).To(ContainSubstring("etcdAgent: registry.example.com/a/etcd-agent:v0.1.0@" + agentDigest + "\n"))
	g.Expect(install).NotTo(Or(ContainSubstring(":latest"), ContainSubstring(developers)))
	_, err := r.pinned("image: " + developers + "/etcd-foreman:dev, " + developers + "/etcd-agent:dev, other:latest")
	g.Expect(err).To(MatchError(ContainSubstring(":latest")))
	_, err = r.pinned("image: " + developers + "/etcd-agent:dev")
	g.Expect(err).To(MatchError(ContainSubstring("etcd-foreman:dev is not named")))
}

func TestChartNamesTheImagesOfTheRelease(t *testing.T) {
	g := NewWithT(t)
	r := example(t)
	g.Expect(r.chart()).To(Succeed())
	first := r.read(t, "etcd-foreman-0.1.0.tgz")
	files := untar(t, first)
	var chart struct{ Version, AppVersion string }
	g.Expect(yaml.Unmarshal(files["etcd-foreman/Chart.yaml"], &chart)).To(Succeed())
	g.Expect(chart.Version).To(Equal("0.1.0"))
	g.Expect(chart.AppVersion).To(Equal("v0.1.0"))
	var values struct {
		Images map[string]any
	}
	g.Expect(yaml.Unmarshal(files["etcd-foreman/values.yaml"], &values)).To(Succeed())
	g.Expect(values.Images).To(HaveKeyWithValue("registry", "registry.example.com/a"))
	g.Expect(string(files["etcd-foreman/files/digests.yaml"])).To(Equal("etcd-foreman: " + operatorDigest + "\netcd-agent: " + agentDigest + "\n"))
	g.Expect(files).To(And(HaveKey("etcd-foreman/values.schema.json"), HaveKey("etcd-foreman/templates/_helpers.tpl"),
		HaveKey("etcd-foreman/files/crd/druid.gardener.cloud_etcds.yaml")))
	g.Expect(r.chart()).To(Succeed())
	g.Expect(r.read(t, "etcd-foreman-0.1.0.tgz")).To(Equal(first), "the same sources make the same archive")
}

func untar(t *testing.T, archive string) map[string][]byte {
	t.Helper()
	g := NewWithT(t)
	unpacked, err := gzip.NewReader(strings.NewReader(archive))
	g.Expect(err).NotTo(HaveOccurred())
	files := map[string][]byte{}
	for reader := tar.NewReader(unpacked); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		g.Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(reader)
		g.Expect(err).NotTo(HaveOccurred())
		files[fmt.Sprintf("%s%s", header.Name, map[bool]string{true: "*"}[header.Mode&0o111 != 0])] = content
	}
}

func TestArchivesOfThePlugin(t *testing.T) {
	g := NewWithT(t)
	example(t)
	name, archive, err := pack("darwin/arm64", []byte("binary"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(name).To(Equal("etcdtask_darwin_arm64.tar.gz"))
	files := untar(t, string(archive))
	g.Expect(files).To(And(HaveLen(3), HaveKeyWithValue("kubectl-etcdtask*", []byte("binary")), HaveKey("kubectl_complete-etcdtask*"), HaveKey("LICENSE")))

	name, archive, err = pack("windows/amd64", []byte("binary"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(name).To(Equal("etcdtask_windows_amd64.zip"))
	reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reader.File).To(HaveLen(3))
	g.Expect(reader.File[0].Name).To(Equal("kubectl-etcdtask.exe"))
	g.Expect(reader.File[1].Name).To(Equal("kubectl_complete-etcdtask.cmd"))
}

func TestKrewManifest(t *testing.T) {
	g := NewWithT(t)
	example(t)
	manifest, err := os.ReadFile("config/krew/etcdtask.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var plugin struct {
		Spec struct {
			Platforms []struct {
				Selector    struct{ MatchLabels map[string]string }
				URI, SHA256 string
				Bin         string
			}
		}
	}
	g.Expect(yaml.UnmarshalStrict(manifest, &map[string]any{})).To(Succeed())
	g.Expect(yaml.Unmarshal([]byte(string(manifest)+krewPlatform("windows/arm64", "https://example.com/a.zip", "abc")), &plugin)).To(Succeed())
	g.Expect(plugin.Spec.Platforms).To(HaveLen(1))
	p := plugin.Spec.Platforms[0]
	g.Expect(p.Selector.MatchLabels).To(Equal(map[string]string{"os": "windows", "arch": "arm64"}))
	g.Expect([]string{p.URI, p.SHA256, p.Bin}).To(Equal([]string{"https://example.com/a.zip", "abc", "kubectl-etcdtask.exe"}))
}

// The SBOM of this test names what is linked.
func TestSBOM(t *testing.T) {
	g := NewWithT(t)
	self, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	binary, err := os.ReadFile(self)
	g.Expect(err).NotTo(HaveOccurred())
	first, err := spdx(binary, "v0.1.0", "linux/amd64")
	g.Expect(err).NotTo(HaveOccurred())
	var d document
	g.Expect(json.Unmarshal(first, &d)).To(Succeed())
	ids := map[string]bool{d.ID: true}
	var names []string
	for _, p := range d.Packages {
		g.Expect(ids).NotTo(HaveKey(p.ID))
		ids[p.ID] = true
		names = append(names, p.Name)
	}
	g.Expect(names).To(ContainElements(plugin, "stdlib", "sigs.k8s.io/kustomize/api"))
	for _, r := range d.Relationships {
		g.Expect(ids).To(And(HaveKey(r.Element), HaveKey(r.Related)))
	}
	g.Expect(spdx(binary, "v0.1.0", "linux/amd64")).To(Equal(first))
}

func TestChecksums(t *testing.T) {
	g := NewWithT(t)
	r := &release{out: t.TempDir()}
	g.Expect(errors.Join(r.file("b", []byte("2")), r.file("a", []byte("1")))).To(Succeed())
	g.Expect(r.checksums()).To(Succeed())
	g.Expect(r.read(t, "SHA256SUMS")).To(Equal(sum([]byte("1")) + "  a\n" + sum([]byte("2")) + "  b\n"))
}
