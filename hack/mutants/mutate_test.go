// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutantsOf returns what is changed in the body of a function, and the source with all mutants.
func mutantsOf(t *testing.T, body string) (changes []string, mutated string) {
	t.Helper()
	source := "package p\n\nfunc f(a, b int, yes, no bool, list []int, do func() (int, error)) (n int, ok bool) {\n" + body + "\n}\n"
	fset := token.NewFileSet()
	root, err := parser.ParseFile(fset, "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	if _, err := (&types.Config{}).Check("p", fset, []*ast.File{root}, info); err != nil {
		t.Fatal(err)
	}
	id := 0
	f := &file{name: "p.go", source: []byte(source), fset: fset, info: info, next: &id}
	f.walk(root)
	for _, m := range f.mutants {
		changes = append(changes, m.change)
	}
	return changes, string(f.mutated(root, "m/mutant"))
}

func TestMutants(t *testing.T) {
	for body, want := range map[string][]string{
		"return a, yes":                                {"a -> the zero value", "yes -> !(yes)"},
		"return 0, true":                               {"0 -> 0 + 1", "true -> !(true)"},
		"return 2, a < b":                              {"2 -> the zero value", "2 -> 2 + 1", "a < b -> !(a < b)", "a < b -> a <= b"},
		"return a, a == b":                             {"a -> the zero value", "a == b -> !(a == b)"},
		"return a, yes && no":                          {"a -> the zero value", "yes && no -> (yes) || (no)", "yes -> !(yes)", "no -> !(no)"},
		"return a, !yes":                               {"a -> the zero value", "!yes -> !(!yes)"},
		"return a + b, no":                             {"a + b -> the zero value", "no -> !(no)", "a + b -> (a) - (b)"},
		"return min(a, b), no":                         {"min(a, b) -> the zero value", "no -> !(no)", "min(a, b) -> max(a, b)"},
		"n = a; return":                                {"n = a -> nothing"},
		"n++; return":                                  {"n++ -> nothing"},
		"_ = a; return":                                nil,
		"if yes { return }; return":                    {"yes -> !(yes)"},
		"for range list { continue }; return":          {"for range list -> no iteration", "continue -> nothing"},
		"switch { case yes: }; return":                 {"yes -> !(yes)"},
		"switch a { case 1: }; return":                 {"1 -> 1 + 1"},
		"println(); return":                            {"println() -> nothing"},
		`panic("no")`:                                  nil,
		"const c = 1 + 2; var x [c]int; _ = x; return": nil,
	} {
		t.Run(body, func(t *testing.T) {
			got, mutated := mutantsOf(t, body)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("the mutants are %q, want %q", got, want)
			}
			if _, err := parser.ParseFile(token.NewFileSet(), "p.go", mutated, 0); err != nil {
				t.Errorf("it cannot be parsed: %v\n%s", err, mutated)
			}
		})
	}
}

// The literal of an empty struct is the zero value already.
func TestEmptyStructsAreNotReplacedByTheZeroValue(t *testing.T) {
	got, _ := mutantsOf(t, "type s struct{ n int }; _, _ = func() s { return s{} }, func() s { return s{n: a} }; return")
	for _, want := range []string{"s{} -> the zero value", "s{n: a} -> the zero value"} {
		if slices.Contains(got, want) != (want != "s{} -> the zero value") {
			t.Errorf("the mutants are %q", got)
		}
	}
}

// Mutants within each other do not repeat each other, and the original is in the middle.
func TestNestedMutants(t *testing.T) {
	_, mutated := mutantsOf(t, "return a, yes && a < b")
	want := "(mutant.Is(2) && ((yes) || (a < b)) || !mutant.Is(2) && ((mutant.Is(3) != (yes)) && (mutant.Is(4) != ((mutant.Is(5) && (a <= b) || !mutant.Is(5) && (a < b))))))"
	if !strings.Contains(mutated, want) {
		t.Errorf("the source is\n%s", mutated)
	}
}

func TestMutantsThatLookTheSameAreNumbered(t *testing.T) {
	mutants := []mutant{{file: "/r/a.go", function: "f", change: "1 -> 2"}, {file: "/r/a.go", function: "f", change: "1 -> 2"}, {file: "/r/a.go", function: "g", change: "1 -> 2"}}
	if err := name(mutants, "/r"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a.go: f: 1 -> 2", "a.go: f: 1 -> 2 (2)", "a.go: g: 1 -> 2"} {
		if got := mutants[i].key(); got != want {
			t.Errorf("mutant %d is %q, want %q", i, got, want)
		}
	}
}

func TestEquivalents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	for content, want := range map[string]string{
		"# none\n":                            "map[]",
		"a.go: f: x\n  because\n  of y\n":     "map[a.go: f: x:because of y]",
		"a.go: f: x\n":                        "the last mutant has no reason",
		"a.go: f: x\nb.go: g: y\n  because\n": "the mutant before has no reason",
		"  because\n":                         "a reason without a mutant",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readEquivalents(path)
		said := fmt.Sprint(got)
		if err != nil {
			said = err.Error()
		}
		if !strings.HasSuffix(said, want) {
			t.Errorf("%q: %s, want %s", content, said, want)
		}
	}
}

// A low score fails, and so does a list of equivalent mutants that is wrong.
func TestReport(t *testing.T) {
	killed := verdict{mutant: mutant{file: "p/a.go", change: "x"}, killedBy: "p"}
	survivor := verdict{mutant: mutant{file: "p/a.go", change: "y"}}
	excused := verdict{mutant: mutant{file: "p/a.go", change: "z"}, equivalent: "because"}
	wrong := verdict{mutant: mutant{file: "p/a.go", change: "z"}, equivalent: "because", killedBy: "p"}
	unjudged := verdict{mutant: mutant{file: "p/a.go", change: "y"}, unjudged: true}
	for name, c := range map[string]struct {
		verdicts []verdict
		gone     []string
		fails    bool
	}{
		"all are killed":         {[]verdict{killed, excused}, nil, false},
		"one survives":           {[]verdict{killed, survivor}, nil, true},
		"one package is low":     {append(slices.Repeat([]verdict{killed}, 99), verdict{mutant: mutant{file: "q/a.go", change: "y"}}), nil, true},
		"few of many survive":    {append(slices.Repeat([]verdict{killed}, 99), survivor), nil, false},
		"one is not equivalent":  {[]verdict{killed, wrong}, nil, true},
		"one does not exist":     {[]verdict{killed}, []string{"p/a.go: f: x"}, true},
		"nothing to be detected": {[]verdict{excused}, nil, false},
		"most are not judged":    {append(slices.Repeat([]verdict{unjudged}, 99), killed), nil, false},
		"of two that are, one":   {append(slices.Repeat([]verdict{unjudged}, 99), killed, survivor), nil, true},
		"none is judged":         {[]verdict{unjudged}, nil, false},
	} {
		var out bytes.Buffer
		if err := report(&out, options{minimum: 95}, c.verdicts, c.gone); err != nil != c.fails {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

// The tests that take an eighth of the time together are run first, and each is run.
func TestSwiftFirst(t *testing.T) {
	b := &binary{tookEach: map[string]time.Duration{"slow": 80, "one": 4, "two": 5, "three": 6}}
	for name, test := range map[string]struct {
		tests []string
		want  [][]string
	}{
		"some are swift": {[]string{"slow", "three", "one", "two"}, [][]string{{"one", "two"}, {"three", "slow"}}},
		"none is swift":  {[]string{"two", "one"}, [][]string{{"one", "two"}}},
		"one":            {[]string{"slow"}, [][]string{{"slow"}}},
		"none":           {nil, nil},
	} {
		if got := b.swiftFirst(test.tests); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, not %v", name, got, test.want)
		}
	}
}
