// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestDescribe(t *testing.T) {
	of := func(module string, settings ...string) *debug.BuildInfo {
		build := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: module}}
		for _, s := range settings {
			key, value, _ := strings.Cut(s, "=")
			build.Settings = append(build.Settings, debug.BuildSetting{Key: key, Value: value})
		}
		return build
	}
	for name, c := range map[string]struct {
		release string
		build   *debug.BuildInfo
		want    Info
	}{
		"release":             {"v0.1.0", of("v0.0.0-2026", "vcs.revision=abc", "vcs.modified=false"), Info{"v0.1.0", "abc", "go1.26.8"}},
		"installed by go":     {"", of("v0.1.0"), Info{"v0.1.0", "unknown", "go1.26.8"}},
		"changed files":       {"", of("(devel)", "vcs.revision=abc", "vcs.modified=true"), Info{"(devel)", "abc-dirty", "go1.26.8"}},
		"without information": {"", &debug.BuildInfo{GoVersion: "go1.26.8"}, Info{"(devel)", "unknown", "go1.26.8"}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(describe(c.release, c.build)).To(Equal(c.want))
		})
	}
}

// The supported releases of Kubernetes are those that "make test" and "make matrix" run, as documented.
func TestSupportedKubernetesIsTested(t *testing.T) {
	g := NewWithT(t)
	folders, err := filepath.Glob("../../../test/tools/kubernetes/1.*")
	g.Expect(err).NotTo(HaveOccurred())
	var releases []string
	for _, folder := range folders {
		releases = append(releases, filepath.Base(folder))
	}
	tools, err := os.ReadFile("../../../test/tools/go.mod")
	g.Expect(err).NotTo(HaveOccurred())
	newest := regexp.MustCompile(`k8s.io/kubernetes v(1\.\d+)\.`).FindSubmatch(tools)
	g.Expect(newest).NotTo(BeNil())
	releases = append(releases, string(newest[1]))
	slices.Sort(releases)
	g.Expect(supportedKubernetes).To(Equal(releases[0] + " to " + releases[len(releases)-1]))
}

func TestText(t *testing.T) {
	NewWithT(t).Expect(Info{"v0.1.0", "abc", "go1.26.8"}.Text("etcd-agent")).To(Equal(`etcd-agent v0.1.0
commit:     abc
go:         go1.26.8
etcd:       3.5.11 or a newer 3.5, 3.6.0 or newer
Kubernetes: 1.33 to 1.37
`))
}
