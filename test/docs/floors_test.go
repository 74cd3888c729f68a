// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/etcd-foreman/etcd-foreman/"

var (
	// floorRow is a row of the table of floors in docs/development.md, and wingName a wing in it.
	floorRow = regexp.MustCompile("(?m)^\\| (\\d+) \\| (`[a-z/`, ]+`) \\|")
	wingName = regexp.MustCompile("`([a-z/]+)`")
)

// TestImportsPointDown checks that each wing imports only itself and wings on lower floors, by the table in docs/development.md.
// Tests of a wing may also import what is beneath test.
func TestImportsPointDown(t *testing.T) {
	floors, root := floorsOfWings(t), filepath.Join("..", "..")
	for wing := range floors {
		files := 0
		err := filepath.WalkDir(filepath.Join(root, wing), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			files++
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, spec := range parsed.Imports {
				imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
				if !ours || strings.HasSuffix(path, "_test.go") && strings.HasPrefix(imported, "test/") {
					continue
				}
				other := wingOf(imported)
				if floor, known := floors[other]; other != wing && (!known || floor >= floors[wing]) {
					t.Errorf("%s imports %s: wing %s is on floor %d, and imports only what is below", path, imported, wing, floors[wing])
				}
			}
			return nil
		})
		if err != nil || files == 0 {
			t.Errorf("wing %s has %d files: %v", wing, files, err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, known := floors["internal/"+e.Name()]; !known {
			t.Errorf("docs/development.md has no floor for internal/%s", e.Name())
		}
	}
}

// wingOf returns the wing of a package.
func wingOf(path string) string {
	parts := strings.Split(path, "/")
	if parts[0] == "internal" && len(parts) > 1 {
		return "internal/" + parts[1]
	}
	return parts[0]
}

// floorsOfWings returns the floor of each wing.
func floorsOfWings(t *testing.T) map[string]int {
	t.Helper()
	content, err := os.ReadFile("../../docs/development.md")
	if err != nil {
		t.Fatal(err)
	}
	floors := map[string]int{}
	for _, row := range floorRow.FindAllStringSubmatch(string(content), -1) {
		floor, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, wing := range wingName.FindAllStringSubmatch(row[2], -1) {
			floors[wing[1]] = floor
		}
	}
	if len(floors) < 14 {
		t.Fatalf("found %d wings in docs/development.md", len(floors))
	}
	return floors
}
