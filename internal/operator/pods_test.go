// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// removers are the functions that may delete or evict pods, in the file with the right to do so.
var removers = []string{"tasks/remove.go:DeletePod", "tasks/remove.go:EvictPod"}

const podType = "*k8s.io/api/core/v1.Pod"

// Whether a pod goes is decided in one place, and carried out by two functions, which have the only markers for the right to do so. A deletion
// of an object whose type is not known where it is deleted counts as one of a pod.
func TestOnlyTwoFunctionsRemovePods(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	exports, packages := listed(t, root)
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s is not compiled", path)
		}
		return os.Open(exports[path])
	})
	var found, markers []string
	for _, p := range packages {
		sources := p.read(t)
		for _, file := range slices.Sorted(maps.Keys(sources)) {
			name, _ := filepath.Rel(root, file)
			if marker.Match(sources[file]) {
				markers = append(markers, name)
			}
		}
		if !removal.Match(bytes.Join(slices.Collect(maps.Values(sources)), nil)) {
			continue
		}
		found = append(found, p.removals(t, root, fset, imports, sources)...)
	}
	slices.Sort(found)
	if !slices.Equal(slices.Compact(found), removers) {
		t.Errorf("pods are removed by %v, and only %v may", found, removers)
	}
	if !slices.Equal(markers, []string{"tasks/remove.go"}) {
		t.Errorf("markers for the right to remove pods are in %v", markers)
	}
}

var (
	removal = regexp.MustCompile(`\.(Delete|DeleteAllOf|DeleteCollection|Evict\w*)\(|"eviction"|policyv1|policy/v1`)
	marker  = regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:.*resources=([a-z/]+;)*(pods(;[a-z/;]+)?,verbs=[a-z;]*(delete|\*)|pods/eviction)`)
)

type goPackage struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
}

// listed returns the export data of all packages that the commands are built from, and those of them that are ours.
func listed(t *testing.T, root string) (exports map[string]string, packages []goPackage) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles", "./cmd/...")
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports = map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return exports, packages
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, "github.com/etcd-foreman/") {
			packages = append(packages, p)
		}
	}
}

func (p goPackage) read(t *testing.T) map[string][]byte {
	t.Helper()
	sources := map[string][]byte{}
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sources[path] = raw
	}
	return sources
}

// removals returns the functions of a package that delete or evict a pod, or what may be one.
func (p goPackage) removals(t *testing.T, root string, fset *token.FileSet, imports types.Importer, sources map[string][]byte) (found []string) {
	t.Helper()
	var files []*ast.File
	for _, path := range slices.Sorted(maps.Keys(sources)) {
		file, err := parser.ParseFile(fset, path, sources[path], 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	if _, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, info); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name, _ := filepath.Rel(root, fset.Position(file.Pos()).Filename)
		for _, d := range file.Decls {
			function, ok := d.(*ast.FuncDecl)
			if ok && removesPods(info, function) {
				found = append(found, name+":"+function.Name.Name)
			}
		}
	}
	return found
}

func removesPods(info *types.Info, function *ast.FuncDecl) (removes bool) {
	ast.Inspect(function, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			removes = removes || n.Value == `"eviction"`
		case *ast.CompositeLit:
			removes = removes || strings.HasSuffix(info.TypeOf(n).String(), "k8s.io/api/policy/v1.Eviction")
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			removes = removes || ok && deletesPod(info, called, n.Args)
		}
		return true
	})
	return removes
}

// deletesPod reports whether a call is that of a client of the API server which deletes a pod, or an object of any type.
func deletesPod(info *types.Info, called *ast.SelectorExpr, args []ast.Expr) bool {
	method := called.Sel.Name
	of := info.TypeOf(called.X)
	switch {
	case method != "Delete" && method != "DeleteAllOf" && method != "DeleteCollection" && !strings.HasPrefix(method, "Evict"), of == nil:
		return false
	case strings.Contains(of.String(), "k8s.io/client-go/kubernetes/typed/core/v1.Pod"), strings.Contains(of.String(), "k8s.io/client-go/dynamic."):
		return true
	case len(args) < 2 || info.TypeOf(args[0]).String() != "context.Context":
		return false
	}
	object := info.TypeOf(args[1])
	return object.String() == podType || strings.HasSuffix(object.String(), "client.Object") || strings.Contains(object.String(), "unstructured.") || strings.HasSuffix(object.String(), "PartialObjectMetadata")
}
