// Package twinlint checks that Go twins of kernels give the same bits on every
// architecture. Go may fuse x*y + z into one rounding, across statements and
// inlined calls too, unless the product is converted explicitly; so every float
// product must stand in a conversion, float32(x*y). Divisions of float32, float
// min and max, and package math beyond the bits of floats are not for twins
// either: no kernel can follow them. Divisions of float64 are left to the numbers
// that the host makes for a kernel: Go rounds them the same everywhere.
package twinlint

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Problem is one finding.
type Problem struct {
	Pos  token.Position
	Text string
}

func (p Problem) String() string { return fmt.Sprintf("%v: %s", p.Pos, p.Text) }

// Dir checks the non-test Go files of a package folder, in order of position. It
// fails when the package does not type-check.
func Dir(dir string) ([]Problem, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return check(fset, dir, files)
}

func check(fset *token.FileSet, dir string, files []*ast.File) ([]Problem, error) {
	l := linter{fset: fset, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Uses:  map[*ast.Ident]types.Object{},
	}}
	var errs []error
	config := types.Config{
		Importer: importer.ForCompiler(fset, "source", nil),
		Error:    func(err error) { errs = append(errs, err) },
	}
	config.Check(dir, fset, files, l.info) // its error is the first of errs
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, f := range files {
		l.imports(f)
		var parents []ast.Node
		ast.Inspect(f, func(n ast.Node) bool {
			if n == nil {
				parents = parents[:len(parents)-1]
				return true
			}
			l.node(n, parents)
			parents = append(parents, n)
			return true
		})
	}
	slices.SortFunc(l.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pos.Filename, b.Pos.Filename), cmp.Compare(a.Pos.Offset, b.Pos.Offset))
	})
	return l.problems, nil
}

type linter struct {
	fset     *token.FileSet
	info     *types.Info
	problems []Problem
}

func (l *linter) report(pos token.Pos, format string, args ...any) {
	l.problems = append(l.problems, Problem{l.fset.Position(pos), fmt.Sprintf(format, args...)})
}

func (l *linter) imports(f *ast.File) {
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err == nil && (path == "math/cmplx" || path == "math/big" || path == "C") {
			l.report(spec.Pos(), "import of %s", path)
		}
	}
}

// mathAllowed has the names of package math that a twin may use.
var mathAllowed = []string{"Float32bits", "Float32frombits", "Float64bits", "Float64frombits"}

func (l *linter) node(n ast.Node, parents []ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if !l.isFloat(n) {
			return
		}
		switch n.Op {
		case token.QUO:
			l.division(n.OpPos, n)
		case token.MUL:
			if !l.rounded(n, parents) {
				l.report(n.OpPos, "product without a conversion around it: write float32(x*y)")
			}
		}
	case *ast.AssignStmt:
		if len(n.Lhs) != 1 || !l.isFloat(n.Lhs[0]) {
			return
		}
		switch n.Tok {
		case token.MUL_ASSIGN:
			l.report(n.TokPos, "product without a conversion around it: write x = float32(x*y)")
		case token.QUO_ASSIGN:
			l.division(n.TokPos, n.Lhs[0])
		}
	case *ast.Ident:
		object := l.info.Uses[n]
		if object == nil || object.Pkg() == nil || object.Pkg().Path() != "math" {
			return
		}
		if _, ok := object.(*types.PkgName); !ok && !slices.Contains(mathAllowed, n.Name) && !isIntegerConst(object) {
			l.report(n.Pos(), "math.%s", n.Name)
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "min" || id.Name == "max") && l.isFloat(n) {
			if _, builtin := l.info.Uses[id].(*types.Builtin); builtin {
				l.report(n.Pos(), "%s of floats", id.Name)
			}
		}
	}
}

// division reports a quotient, or a variable that becomes one, unless it is a float64.
func (l *linter) division(pos token.Pos, e ast.Expr) {
	if basic, ok := l.info.Types[e].Type.Underlying().(*types.Basic); !ok || basic.Kind() != types.Float64 {
		l.report(pos, "float division")
	}
}

// isFloat reports whether an expression is computed at run time as a float.
func (l *linter) isFloat(e ast.Expr) bool {
	tv, ok := l.info.Types[e]
	if !ok || tv.Type == nil || tv.Value != nil {
		return false
	}
	if p, ok := tv.Type.(*types.TypeParam); ok {
		return strings.Contains(p.Constraint().Underlying().String(), "float")
	}
	basic, ok := tv.Type.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsFloat|types.IsComplex) != 0
}

// rounded reports whether a product is the operand of a conversion or of another
// product, parentheses and signs aside.
func (l *linter) rounded(n *ast.BinaryExpr, parents []ast.Node) bool {
	for _, p := range slices.Backward(parents) {
		switch p := p.(type) {
		case *ast.ParenExpr:
			continue
		case *ast.UnaryExpr:
			continue
		case *ast.BinaryExpr:
			return p.Op == token.MUL
		case *ast.CallExpr:
			tv := l.info.Types[p.Fun]
			return tv.IsType()
		}
		return false
	}
	return false
}

func isIntegerConst(o types.Object) bool {
	c, ok := o.(*types.Const)
	if !ok {
		return false
	}
	basic, ok := c.Type().(*types.Basic)
	return ok && basic.Info()&types.IsInteger != 0
}
