// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

type workflow struct {
	Jobs map[string]struct {
		Steps []struct{ Uses, Run string }
	}
}

var (
	pinned   = regexp.MustCompile(`^[\w/-]+@[0-9a-f]{40}$`)
	makes    = regexp.MustCompile(`(?m)^make ([^&|;\n]+)`)
	makeWord = regexp.MustCompile(`^[a-z-]+$`)
)

// TestWorkflows checks that workflows pin actions by commit and run targets that exist, and that what is promised runs on the forge.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	run := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(content, &w); err != nil || len(w.Jobs) == 0 {
			t.Fatalf("%s has %d jobs: %v", file, len(w.Jobs), err)
		}
		for name, job := range w.Jobs {
			for _, step := range job.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s: job %s uses %s, which is not pinned by a commit", file, name, step.Uses)
				}
				for _, command := range makes.FindAllStringSubmatch(step.Run, -1) {
					for _, target := range strings.Fields(command[1]) {
						if !makeWord.MatchString(target) {
							continue
						}
						run[target] = true
						if !strings.Contains(string(makefile), "\n"+target+":") {
							t.Errorf("%s: job %s makes %s, which is no target", file, name, target)
						}
					}
				}
			}
		}
	}
	for _, target := range []string{"verify", "test", "fuzz", "vulncheck", "release"} {
		if !run[target] {
			t.Errorf("no workflow runs make %s", target)
		}
	}
}
