// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goroutines are the files that start goroutines in a reconcile, with what makes them safe to simulate.
var goroutines = map[string]string{
	"internal/base/background/background.go": "each makes one request after the other, and later reconciles look after it",
	"internal/cluster/etcdclient/pool.go":    "each closes a connection that nothing uses any more; simulated members are asked without the pool",
	"internal/cluster/observe/ask.go":        "each makes one request, and the reconcile waits for all",
	"internal/cluster/observe/observer.go":   "each makes one request, and the reconcile waits for both",
	"tasks/maintenance/perform.go":           "each makes one request, and the reconcile waits for all",
	"tasks/rollout/perform.go":               "one makes one request, one polls, and the reconcile waits for both",
}

// What a reconcile does is done by one goroutine, or by some that only make requests: the order in which the runtime lets goroutines run is the
// one thing that no seed decides.
func TestGoroutinesOfReconciles(t *testing.T) {
	const root = "../.."
	found := map[string]bool{}
	for _, dir := range []string{"internal", "tasks"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
			if slices.ContainsFunc([]string{"internal/agent/", "internal/cli/"}, func(other string) bool { return strings.HasPrefix(name, other) }) {
				return nil // they are other processes
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err == nil && startsGoroutine(file) {
				found[name] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range found {
		if goroutines[name] == "" {
			t.Errorf("%s starts a goroutine: if it only makes requests that its reconcile waits for, add it to the list; otherwise simulations do not repeat", name)
		}
	}
	for name := range goroutines {
		if !found[name] {
			t.Errorf("%s starts no goroutine any more: remove it from the list", name)
		}
	}
}

// startsGoroutine looks for go statements, and for calls of a method Go with a function.
func startsGoroutine(file *ast.File) (starts bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
				_, literal := n.Args[0].(*ast.FuncLit)
				starts = starts || literal
			}
		}
		return true
	})
	return starts
}
