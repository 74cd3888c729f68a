// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// A module in two versions is compiled twice, and so is every package that imports it: with k8s.io/utils, all of client-go.
func TestModulesAgreeOnLibraries(t *testing.T) {
	tools := versions(t, toolsModule)
	for module, shared := range map[string]func(path string) bool{
		mainModule:            func(string) bool { return true },
		etcdReleases + "/3.6": ofRPC,
		etcdReleases + "/3.5": ofRPC,
	} {
		for path, version := range versions(t, module) {
			if other := tools[path]; other != "" && other != version && shared(path) {
				t.Errorf("%s has %s %s, and %s has %s: upgrade both", filepath.Join(module, "go.mod"), path, version, filepath.Join(toolsModule, "go.mod"), other)
			}
		}
	}
}

// ofRPC reports whether every release of etcd can use the same version of a module: those that take longest to compile.
func ofRPC(path string) bool {
	return strings.HasPrefix(path, "google.golang.org/") || strings.HasPrefix(path, "golang.org/x/") && path != "golang.org/x/time"
}

// versions returns the version of each module that a go.mod names.
func versions(t *testing.T, module string) map[string]string {
	t.Helper()
	path := filepath.Join("..", "..", "..", "..", module, "go.mod")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(path, content, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, required := range file.Require {
		found[required.Mod.Path] = required.Mod.Version
	}
	for _, replace := range file.Replace {
		if found[replace.Old.Path] != "" {
			found[replace.Old.Path] = replace.New.Version
		}
	}
	return found
}
