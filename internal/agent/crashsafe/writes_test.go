// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package crashsafe

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The agent's code, from this folder.
const root = "../../.."

var agent = []string{"internal/agent", "cmd/etcd-agent"}

// changes are the functions that change files.
var changes = map[string]*regexp.Regexp{
	"os":        regexp.MustCompile(`^(Rename|Remove|RemoveAll|WriteFile|Mkdir|MkdirAll|MkdirTemp|Create|CreateTemp|OpenFile|Truncate|Chmod|Chown|Symlink|Link)$`),
	"crashsafe": regexp.MustCompile(`^`),
}

// The agent may be killed at each of its writes. testdata/writes lists them, as the code has them, each with the test that kills it there, or why
// it does no harm. A write that is not listed fails, and so does a test that does not exist.
func TestEveryWriteIsListed(t *testing.T) {
	listed, tests := readWrites(t), testsOf(t)
	found := map[string]bool{}
	for _, dir := range agent {
		for _, w := range writesIn(t, filepath.Join(root, dir)) {
			found[w] = true
			if listed[w] == "" {
				t.Errorf("%s is not listed in testdata/writes: kill the agent there in a test, and name the test", w)
			}
		}
	}
	for _, w := range slices.Sorted(maps.Keys(listed)) {
		if !found[w] {
			t.Errorf("%s is listed, and does not exist", w)
		}
		if name, ok := strings.CutPrefix(listed[w], "killed by "); ok && !tests[name] {
			t.Errorf("%s: there is no %s", w, name)
		} else if !ok && !strings.HasPrefix(listed[w], "harmless: ") {
			t.Errorf("%s: %q is neither a test nor a reason", w, listed[w])
		}
	}
}

// readWrites reads the list: a write on a line, and its test or reason on the next, indented.
func readWrites(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile("testdata/writes")
	if err != nil {
		t.Fatal(err)
	}
	all, last := map[string]string{}, ""
	for _, line := range strings.Split(string(content), "\n") {
		switch text := strings.TrimSpace(line); {
		case text == "" || strings.HasPrefix(line, "#"):
		case line == text:
			last = text
			all[last] = ""
		default:
			all[last] = text
		}
	}
	return all
}

// goFiles calls visit with the Go files beneath a folder.
func goFiles(t *testing.T, dir string, tests bool, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." && path != dir || strings.HasSuffix(d.Name(), "test") && d.Name() != "test"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && strings.HasSuffix(path, "_test.go") == tests:
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func writesIn(t *testing.T, dir string) (all []string) {
	t.Helper()
	goFiles(t, dir, false, func(path string) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			seen := map[string]int{}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if name := changeIn(call); name != "" {
					w := fmt.Sprintf("%s: %s: %s", filepath.ToSlash(strings.TrimPrefix(path, root+"/")), f.Name.Name, name)
					if seen[name]++; seen[name] > 1 {
						w += fmt.Sprintf(" (%d)", seen[name])
					}
					all = append(all, w)
				}
				return true
			})
		}
	})
	return all
}

// changeIn returns the name of a function that changes files; empty if the call is of another one.
func changeIn(call *ast.CallExpr) string {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	of, ok := s.X.(*ast.Ident)
	if !ok || changes[of.Name] == nil || !changes[of.Name].MatchString(s.Sel.Name) {
		return ""
	}
	return of.Name + "." + s.Sel.Name
}

// testsOf are the names of all tests.
func testsOf(t *testing.T) map[string]bool {
	t.Helper()
	named := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	all := map[string]bool{}
	for _, dir := range []string{"internal", "cmd", "test"} {
		goFiles(t, filepath.Join(root, dir), true, func(path string) {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range named.FindAllSubmatch(content, -1) {
				all[string(m[1])] = true
			}
		})
	}
	return all
}
