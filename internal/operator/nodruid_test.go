// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without internal/druid and druid.go, the operator builds: nodruid.go takes their place.
func TestOperatorWithoutDruid(t *testing.T) {
	// A file that is overlaid by none is deleted.
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	remove := func(path string) {
		absolute, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		overlay.Replace[absolute] = ""
	}
	remove("druid.go")
	err := filepath.WalkDir("../druid", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") {
			remove(path)
		}
		return err
	})
	if err != nil || len(overlay.Replace) < 10 {
		t.Fatalf("%d files of internal/druid were found: %v", len(overlay.Replace), err)
	}
	content, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", file, "-tags", "nodruid", "-o", filepath.Join(t.TempDir(), "etcd-foreman"), "../../cmd/etcd-foreman")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("something but internal/operator/druid.go needs internal/druid: %v\n%s", err, out)
	}
}
