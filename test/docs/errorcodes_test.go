// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestErrorCodesOfTasks checks that docs/tasks.md says what to do about every error code that a task can have: those that the task engine and the
// task types use.
func TestErrorCodesOfTasks(t *testing.T) {
	read := func(path string) string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	page, api := read("../../docs/tasks.md"), read("../../api/v1alpha1/conditions.go")
	codes := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t(Err\w+) +ErrorCode = "(ERR_\w+)"$`).FindAllStringSubmatch(api, -1) {
		codes[m[1]] = m[2]
	}
	if len(codes) < 40 {
		t.Fatalf("found %d error codes", len(codes))
	}
	for _, folder := range []string{"../../tasks", "../../internal/engine"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, m := range regexp.MustCompile(`v1alpha1\.(Err[A-Z]\w+)`).FindAllStringSubmatch(read(path), -1) {
				if code := codes[m[1]]; code != "" && !strings.Contains(page, "`"+code+"`") {
					t.Errorf("%s uses %s, which docs/tasks.md lacks", path, code)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
