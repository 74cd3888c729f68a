// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// goPackage is what "go list" says of a package.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	TestGoFiles             []string
	XTestGoFiles            []string
	Module                  *struct{ Path, Dir string }
}

func (p goPackage) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

func list(ctx context.Context, args ...string) ([]goPackage, error) {
	out, err := goCommand(ctx, append([]string{"list", "-json=ImportPath,Dir,Export,GoFiles,TestGoFiles,XTestGoFiles,Module"}, args...)...)
	if err != nil {
		return nil, err
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the answer of go list: %w", err)
		}
		all = append(all, p)
	}
}

func goCommand(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, "go", args...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s%s", args[0], err, stderr.Bytes(), stdout.Bytes())
	}
	return stdout.Bytes(), nil
}

// mutation is what becomes of packages.
type mutation struct {
	mutants []mutant
	// overlay is the path of the compiler's overlay.
	overlay string
}

// mutate writes the packages with all of their mutants into a directory.
func mutate(ctx context.Context, packages []goPackage, dir string) (*mutation, error) {
	exports, err := exportsOf(ctx, packages)
	if err != nil {
		return nil, err
	}
	module := packages[0].Module
	replace := map[string]string{}
	write := func(path string, content []byte) error {
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		replace[path] = to
		return os.WriteFile(to, content, 0o600)
	}
	const supportPackage = "internal/mutant"
	if err := write(filepath.Join(module.Dir, supportPackage, "mutant.go"), []byte(support)); err != nil {
		return nil, err
	}
	m, id := &mutation{overlay: filepath.Join(dir, "overlay.json")}, 0
	for _, p := range packages {
		files, err := check(p, exports)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			f.next = &id
			f.walk(f.root)
			m.mutants = append(m.mutants, f.mutants...)
			path := f.name
			if err := write(path, f.mutated(f.root, module.Path+"/"+supportPackage)); err != nil {
				return nil, err
			}
		}
	}
	if err := name(m.mutants, module.Dir); err != nil {
		return nil, err
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	return m, os.WriteFile(m.overlay, content, 0o600)
}

// name makes the names of files relative to the module, and numbers the mutants of a function that look the same.
func name(mutants []mutant, root string) (err error) {
	seen := map[string]int{}
	for i := range mutants {
		m := &mutants[i]
		if m.file, err = filepath.Rel(root, m.file); err != nil {
			return err
		}
		key := m.key()
		if seen[key]++; seen[key] > 1 {
			m.change += fmt.Sprintf(" (%d)", seen[key])
		}
	}
	return nil
}

// exportsOf returns the files with what the packages and their dependencies export.
func exportsOf(ctx context.Context, packages []goPackage) (map[string]string, error) {
	args := []string{"-export", "-deps"}
	for _, p := range packages {
		args = append(args, p.ImportPath)
	}
	all, err := list(ctx, args...)
	exports := map[string]string{}
	for _, p := range all {
		exports[p.ImportPath] = p.Export
	}
	return exports, err
}

// parsed is a file with its syntax tree.
type parsed struct {
	file
	root *ast.File
}

// check parses a package and determines its types.
func check(p goPackage, exports map[string]string) ([]*parsed, error) {
	fset := token.NewFileSet()
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	var files []*parsed
	var roots []*ast.File
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		root, err := parser.ParseFile(fset, path, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		roots = append(roots, root)
		if !ast.IsGenerated(root) {
			files = append(files, &parsed{file{name: path, source: source, fset: fset, info: info}, root})
		}
	}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	if _, err := config.Check(p.ImportPath, fset, roots, info); err != nil {
		return nil, fmt.Errorf("checking the types of %s: %w", p.ImportPath, err)
	}
	return files, nil
}
