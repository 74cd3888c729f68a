// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// mutant is one change.
type mutant struct {
	id int
	// file, relative to the module, line and function that is changed.
	file     string
	line     int
	function string
	// what is changed into what.
	change string
}

// key identifies a mutant across changes elsewhere in its file.
func (m mutant) key() string { return fmt.Sprintf("%s: %s: %s", m.file, m.function, m.change) }

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", m.file, m.line, m.function, m.change)
}

// insertion is text that is added to a file before an offset.
type insertion struct {
	offset int
	// suffix: it ends an expression or statement, and so precedes what begins at the same offset.
	suffix bool
	// extent of what is enclosed: of two that begin or end at one offset, the larger encloses the other.
	extent int
	text   string
}

// file collects the mutants of a source file.
type file struct {
	name    string
	source  []byte
	fset    *token.FileSet
	info    *types.Info
	next    *int
	mutants []mutant
	inserts []insertion

	function string
	// results of the function, and of those around it.
	results []*types.Tuple
}

func (f *file) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *file) text(n ast.Node) string {
	return string(f.source[f.offset(n.Pos()):f.offset(n.End())])
}

// add adds a mutant and returns its ID.
func (f *file) add(n ast.Node, change string) int {
	*f.next++
	f.mutants = append(f.mutants, mutant{*f.next, f.name, f.fset.Position(n.Pos()).Line, f.function, strings.Join(strings.Fields(change), " ")})
	return *f.next
}

func (f *file) wrap(n ast.Node, prefix, suffix string) {
	from, to := f.offset(n.Pos()), f.offset(n.End())
	f.inserts = append(f.inserts, insertion{from, false, to - from, prefix}, insertion{to, true, to - from, suffix})
}

// flip negates a boolean expression.
func (f *file) flip(e ast.Expr) {
	if f.isConstant(e) && !isLiteral(e) {
		return
	}
	id := f.add(e, fmt.Sprintf("%s -> !(%s)", f.text(e), f.text(e)))
	f.wrap(e, fmt.Sprintf("(mutant.Is(%d) != (", id), "))")
}

// instead puts another boolean expression in the place of one.
func (f *file) instead(e ast.Expr, other string) {
	id := f.add(e, f.text(e)+" -> "+other)
	f.wrap(e, fmt.Sprintf("(mutant.Is(%d) && (%s) || !mutant.Is(%d) && (", id, other, id), "))")
}

// pick puts another value in the place of one; both are evaluated.
func (f *file) pick(e ast.Expr, other string) {
	id := f.add(e, f.text(e)+" -> "+other)
	f.wrap(e, fmt.Sprintf("mutant.Pick(%d, %s, (", id, other), "))")
}

func (f *file) isConstant(e ast.Expr) bool { return f.info.Types[e].Value != nil }

func isLiteral(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && (id.Name == "true" || id.Name == "false")
}

func (f *file) isBool(e ast.Expr) bool {
	t := f.info.TypeOf(e)
	if t == nil {
		return false
	}
	b, ok := t.(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// walk finds the mutants of a file.
func (f *file) walk(root *ast.File) {
	for _, d := range root.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body == nil {
				continue
			}
			f.function = d.Name.Name
			f.within(f.info.Defs[d.Name].Type().(*types.Signature).Results(), d.Body)
		case *ast.GenDecl:
			if d.Tok != token.VAR {
				continue
			}
			for _, s := range d.Specs {
				v := s.(*ast.ValueSpec)
				f.function = v.Names[0].Name
				for _, e := range v.Values {
					f.visit(e)
				}
			}
		}
	}
}

func (f *file) within(results *types.Tuple, body *ast.BlockStmt) {
	f.results = append(f.results, results)
	f.visit(body)
	f.results = f.results[:len(f.results)-1]
}

func (f *file) visit(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			f.within(f.info.TypeOf(n).(*types.Signature).Results(), n.Body)
			return false
		case *ast.ArrayType, *ast.StructType, *ast.InterfaceType:
			return false
		case *ast.DeclStmt:
			return n.Decl.(*ast.GenDecl).Tok == token.VAR
		case ast.Stmt:
			f.statement(n)
		case ast.Expr:
			return f.expression(n)
		}
		return true
	})
}

func (f *file) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		f.removals(s.List)
	case *ast.CaseClause:
		f.removals(s.Body)
		for _, e := range s.List {
			f.atom(e)
		}
	case *ast.CommClause:
		f.removals(s.Body)
	case *ast.IfStmt:
		f.atom(s.Cond)
	case *ast.ForStmt:
		if s.Cond != nil {
			f.atom(s.Cond)
		}
	case *ast.RangeStmt:
		id := f.add(s, "for range "+f.text(s.X)+" -> no iteration")
		at := f.offset(s.Body.Lbrace) + 1
		f.inserts = append(f.inserts, insertion{at, true, 0, fmt.Sprintf(" if mutant.Is(%d) { break }; ", id)})
	case *ast.ReturnStmt:
		f.returned(s)
	}
}

// removals removes statements that only have an effect.
func (f *file) removals(list []ast.Stmt) {
	for _, s := range list {
		if !f.isRemovable(s) {
			continue
		}
		id := f.add(s, f.text(s)+" -> nothing")
		f.wrap(s, fmt.Sprintf("if !mutant.Is(%d) { ", id), " }")
	}
}

func (f *file) isRemovable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE && !f.discards(s)
	case *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.CONTINUE || s.Tok == token.BREAK
	case *ast.ReturnStmt:
		return f.results[len(f.results)-1].Len() == 0
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		id, named := call.Fun.(*ast.Ident)
		return !named || id.Name != "panic"
	}
	return false
}

// discards reports whether an assignment has no effect but to satisfy the compiler.
func (f *file) discards(s *ast.AssignStmt) bool {
	for i, e := range s.Lhs {
		id, ok := e.(*ast.Ident)
		if !ok || id.Name != "_" || i < len(s.Rhs) && !isPlain(s.Rhs[i]) {
			return false
		}
	}
	return true
}

func isPlain(e ast.Expr) bool {
	_, ok := e.(*ast.Ident)
	return ok
}

// returned returns the zero value, or the opposite.
func (f *file) returned(s *ast.ReturnStmt) {
	results := f.results[len(f.results)-1]
	if len(s.Results) != results.Len() {
		return
	}
	for i, e := range s.Results {
		if f.isBool(e) {
			f.atom(e)
			continue
		}
		t := f.info.TypeOf(e)
		tv := f.info.Types[e]
		switch {
		case tv.IsNil() || !types.Identical(t, results.At(i).Type()):
			continue
		case tv.Value != nil && (!isBasic(t) || isZero(tv.Value)), isEmptyStruct(e, t):
			continue
		}
		id := f.add(e, f.text(e)+" -> the zero value")
		f.wrap(e, fmt.Sprintf("mutant.Zero(%d, (", id), "))")
	}
}

// isEmptyStruct reports whether an expression is a literal of a struct without fields, which is the zero value.
func isEmptyStruct(e ast.Expr, t types.Type) bool {
	literal, ok := e.(*ast.CompositeLit)
	_, isStruct := t.Underlying().(*types.Struct)
	return ok && isStruct && len(literal.Elts) == 0
}

func isBasic(t types.Type) bool {
	b, ok := t.(*types.Basic)
	return ok && (b.Kind() == types.String || b.Kind() == types.Int)
}

func isZero(v constant.Value) bool {
	switch v.Kind() {
	case constant.String:
		return constant.StringVal(v) == ""
	case constant.Int:
		return constant.Sign(v) == 0
	}
	return false
}

// atom flips a condition that is not made of others: those are mutated where they are visited.
func (f *file) atom(e ast.Expr) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		f.atom(e.X)
	case *ast.CallExpr, *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr, *ast.TypeAssertExpr:
		// Literals are visited as expressions.
		if f.isBool(e) && !isLiteral(e) {
			f.flip(e)
		}
	}
}

// opposites of what compares, and what is one off.
var (
	boundaries = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
	compares   = []token.Token{token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ}
	arithmetic = map[token.Token]string{token.ADD: "-", token.SUB: "+", token.MUL: "+", token.QUO: "*", token.REM: "*"}
)

// expression adds the mutants of an expression, and reports whether its parts have some too.
func (f *file) expression(e ast.Expr) bool {
	if f.isConstant(e) {
		switch {
		case isLiteral(e) && f.isBool(e):
			f.flip(e)
		case f.isCount(e):
			f.pick(e, f.text(e)+" + 1")
		}
		return false
	}
	switch e := e.(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			f.flip(e)
		}
	case *ast.BinaryExpr:
		f.binary(e)
	case *ast.CallExpr:
		f.call(e)
	case *ast.SelectorExpr:
		return true
	}
	return true
}

func (f *file) isCount(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	t, basic := f.info.TypeOf(e).(*types.Basic)
	return ok && basic && literal.Kind == token.INT && t.Kind() == types.Int
}

func (f *file) binary(e *ast.BinaryExpr) {
	x, y := f.text(e.X), f.text(e.Y)
	switch {
	case slices.Contains(compares, e.Op):
		f.flip(e)
		if other, ok := boundaries[e.Op]; ok {
			f.instead(e, x+" "+other+" "+y)
		}
	case e.Op == token.LAND:
		f.instead(e, "("+x+") || ("+y+")")
		f.atom(e.X)
		f.atom(e.Y)
	case e.Op == token.LOR:
		f.instead(e, "("+x+") && ("+y+")")
		f.atom(e.X)
		f.atom(e.Y)
	default:
		b, ok := f.info.TypeOf(e).Underlying().(*types.Basic)
		if other, has := arithmetic[e.Op]; ok && has && b.Info()&types.IsNumeric != 0 {
			f.pick(e, "("+x+") "+other+" ("+y+")")
		}
	}
}

// call swaps the built-in min and max.
func (f *file) call(e *ast.CallExpr) {
	id, ok := e.Fun.(*ast.Ident)
	if !ok || id.Name != "min" && id.Name != "max" {
		return
	}
	if _, builtin := f.info.Uses[id].(*types.Builtin); !builtin {
		return
	}
	other := map[string]string{"min": "max", "max": "min"}[id.Name]
	f.pick(e, other+strings.TrimPrefix(f.text(e), id.Name))
}

// mutated returns the source with all mutants in it.
func (f *file) mutated(root *ast.File, support string) []byte {
	slices.SortStableFunc(f.inserts, func(a, b insertion) int {
		if c := cmp.Compare(a.offset, b.offset); c != 0 {
			return c
		}
		switch {
		case a.suffix != b.suffix:
			if a.suffix {
				return -1
			}
			return 1
		case a.suffix:
			return cmp.Compare(a.extent, b.extent)
		}
		return cmp.Compare(b.extent, a.extent)
	})
	var out strings.Builder
	last := 0
	put := func(at int, text string) {
		out.Write(f.source[last:at])
		out.WriteString(text)
		last = at
	}
	imported := false
	for _, i := range f.inserts {
		if at := f.offset(root.Name.End()); !imported && i.offset > at {
			put(at, fmt.Sprintf("; import mutant %q", support))
			imported = true
		}
		put(i.offset, i.text)
	}
	out.Write(f.source[last:])
	return []byte(out.String())
}
