// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package chart tests what a user installs, with Helm or kustomize, against a real API server.
package chart

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	root = "../../../"
	path = root + "charts/etcd-foreman"
	// system is the namespace of the operator, as kustomize installs it.
	system = "etcd-foreman-system"
)

var testEnv *env.Env

func TestMain(m *testing.M) { os.Exit(env.Main(m, &testEnv, env.WithoutCRDs())) }

// helm runs Helm, and returns its output and its error, if it fails.
type helm struct {
	t   *testing.T
	env []string
}

func newHelm(t *testing.T) helm {
	t.Helper()
	home, kubeconfig := t.TempDir(), machine.WriteFile(t, "kubeconfig", testEnv.Kubeconfig())
	return helm{t, append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)}
}

func (h helm) try(args ...string) (string, error) {
	cmd := exec.CommandContext(h.t.Context(), machine.Program(h.t, "helm"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = h.env, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), errors.New(strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func (h helm) run(args ...string) string {
	h.t.Helper()
	out, err := h.try(args...)
	if err != nil {
		h.t.Fatalf("helm %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// render returns the objects of the chart with some values.
func render(t *testing.T, values ...string) []*unstructured.Unstructured {
	t.Helper()
	args := []string{"template", "etcd-foreman", path, "--namespace=" + system}
	for _, value := range values {
		args = append(args, "--set-json="+value)
	}
	return decode(t, newHelm(t).run(args...))
}

// kustomize returns the objects of a kustomization.
func kustomize(t *testing.T, kustomization string) []*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	dir, err := os.MkdirTemp(root+"config", "test-")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(os.RemoveAll(dir)).To(Succeed()) })
	g.Expect(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600)).To(Succeed())
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	g.Expect(err).NotTo(HaveOccurred())
	manifest, err := resources.AsYaml()
	g.Expect(err).NotTo(HaveOccurred())
	return decode(t, string(manifest))
}

func decode(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := env.Decode([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func key(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}
