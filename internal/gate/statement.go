package gate

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// This file walks through statements. It follows in which folder each command runs, since a path means nothing without it: a
// cd that succeeds leads one way, one that fails another, and both are kept.

// A place is where a command may run.
type place struct {
	dirs []string // from where the whole command starts; "" is there
	lost bool     // or anywhere
}

// anywhere is a place that nobody knows. Absolute paths are judged all the same.
var anywhere = place{dirs: []string{""}, lost: true}

// or is one place or another.
func (p place) or(q place) place {
	out := place{lost: p.lost || q.lost, dirs: slices.Clone(p.dirs)}
	for _, d := range q.dirs {
		if !slices.Contains(out.dirs, d) {
			out.dirs = append(out.dirs, d)
		}
	}
	if len(out.dirs) > maxPlaces {
		out.lost = true
		out.dirs = out.dirs[:maxPlaces]
	}
	return out
}

// A flow is where a statement leaves the shell, if it succeeds and if it fails.
type flow struct{ ok, fail place }

func (f flow) any() place { return f.ok.or(f.fail) }

func stay(p place) flow { return flow{p, p} }

// list judges statements that follow each other.
func (j *judge) list(stmts []*syntax.Stmt, at place) flow {
	out := stay(at)
	for _, s := range stmts {
		out = j.stmt(s, out.any())
	}
	return out
}

// aside judges statements in a shell of their own.
func (j *judge) aside(stmts []*syntax.Stmt, at place) { j.list(stmts, at) }

func (j *judge) stmt(s *syntax.Stmt, at place) flow {
	for _, r := range s.Redirs {
		j.redirect(r, at)
	}
	out := j.command(s, at)
	if s.Negated {
		out.ok, out.fail = out.fail, out.ok
	}
	if s.Background || s.Coprocess || s.Disown {
		return stay(at)
	}
	return out
}

func (j *judge) command(s *syntax.Stmt, at place) flow {
	switch c := s.Cmd.(type) {
	case nil:
		return stay(at)
	case *syntax.CallExpr:
		return j.call(c, at)
	case *syntax.BinaryCmd:
		switch c.Op {
		case syntax.AndStmt:
			x := j.stmt(c.X, at)
			y := j.stmt(c.Y, x.ok)
			return flow{y.ok, x.fail.or(y.fail)}
		case syntax.OrStmt:
			x := j.stmt(c.X, at)
			y := j.stmt(c.Y, x.fail)
			return flow{x.ok.or(y.ok), y.fail}
		}
		j.stmt(c.X, at) // a pipe: each side is a shell of its own
		j.stmt(c.Y, at)
		return stay(at)
	case *syntax.Subshell:
		j.aside(c.Stmts, at)
		return stay(at)
	case *syntax.Block:
		return j.list(c.Stmts, at)
	case *syntax.IfClause:
		return j.branch(c, at)
	case *syntax.WhileClause:
		at = j.loop(c, at)
		at = j.list(c.Cond, at).any()
		return stay(at.or(j.list(c.Do, at).any()))
	case *syntax.ForClause:
		at = j.loop(c, at)
		switch l := c.Loop.(type) {
		case *syntax.WordIter:
			j.values(l.Items, at)
		case *syntax.CStyleLoop:
			for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
				j.arithmetic(x, at)
			}
		}
		return stay(at.or(j.list(c.Do, at).any()))
	case *syntax.CaseClause:
		j.values([]*syntax.Word{c.Word}, at)
		out := at
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				j.inside(p, at)
			}
			out = out.or(j.list(item.Stmts, out).any()) // ;& goes on with the next
		}
		return stay(out)
	case *syntax.TimeClause:
		j.run([]word{plain("time")}, true, "") // behind a pipe it is a program
		if c.Stmt == nil {
			return stay(at)
		}
		return j.stmt(c.Stmt, at)
	case *syntax.FuncDecl:
		if c.Name == nil || shadows(c.Name.Value) {
			j.give("it gives a function the name of a command")
		}
		if c.Body != nil {
			j.stmt(c.Body, at) // a script that also moves is lost from its beginning
		}
		return stay(at)
	case *syntax.DeclClause:
		j.declare(c, at)
		return stay(at)
	case *syntax.TestClause:
		j.test(c, at)
		return stay(at)
	case *syntax.ArithmCmd:
		j.arithmetic(c.X, at)
		j.run([]word{unknown(j.written(c), "")}, true, "")
		return stay(at)
	}
	j.give("it has a construct that is not judged: " + clip(j.written(s)))
	return stay(at)
}

// loop is where a loop's commands may run: if any of them moves, nobody knows.
func (j *judge) loop(n syntax.Node, at place) place {
	if j.moving[n] {
		at.lost = true
	}
	return at
}

func (j *judge) branch(c *syntax.IfClause, at place) flow {
	cond := stay(at)
	if len(c.Cond) > 0 {
		cond = j.list(c.Cond, at)
	}
	then := j.list(c.Then, cond.ok)
	if c.Else == nil {
		return stay(then.any().or(cond.fail))
	}
	return stay(then.any().or(j.branch(c.Else, cond.fail).any()))
}

// call judges a simple command as it stands in the script.
func (j *judge) call(c *syntax.CallExpr, at place) flow {
	why := ""
	for _, a := range c.Assigns {
		if j.assign(a, at, len(c.Args) > 0) {
			why = "it sets " + a.Name.Value + ", which may change what runs"
		}
	}
	if len(c.Args) == 0 {
		if len(c.Assigns) > 0 {
			j.run([]word{unknown(j.written(c), "")}, true, why)
		}
		return stay(at)
	}
	for _, w := range c.Args {
		j.inside(w, at)
	}
	return j.simple(part{words: j.words(c.Args), at: at, why: why, shell: true})
}

// assign judges an assignment, and says whether it may change what runs.
func (j *judge) assign(a *syntax.Assign, at place, exported bool) bool {
	value := plain("")
	if a.Value != nil {
		j.inside(a.Value, at)
		value = j.word(a.Value)
		j.path(value, roleLook, at)
	}
	if a.Array != nil {
		value = unknown("", "")
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				j.arithmetic(e.Index, at)
			}
			if e.Value != nil {
				j.values([]*syntax.Word{e.Value}, at)
			}
		}
	}
	if a.Index != nil {
		j.arithmetic(a.Index, at)
	}
	return changes(a.Name.Value, value, exported)
}

// declare judges export, declare, local and their kin.
func (j *judge) declare(c *syntax.DeclClause, at place) {
	why := ""
	exported := c.Variant.Value == "export"
	for _, a := range c.Args {
		if a.Name == nil { // an option, or something that is only known later
			j.inside(a.Value, at)
			w := j.word(a.Value)
			if !w.literal || !w.option() || strings.Trim(w.value, "-xrgaAp") != "" {
				why = "nobody knows what it declares"
			}
			exported = exported || strings.Contains(w.value, "x")
		}
	}
	for _, a := range c.Args {
		if a.Name == nil {
			continue
		}
		changed := j.assign(a, at, exported)
		if a.Naked {
			changed = changes(a.Name.Value, unknown("", ""), exported)
		}
		if changed {
			why = "it sets " + a.Name.Value + ", which may change what runs"
		}
	}
	j.run([]word{unknown(j.written(c), "")}, true, why)
}

// test judges [[ … ]]. Comparing numbers evaluates text as arithmetic, which may run commands.
func (j *judge) test(c *syntax.TestClause, at place) {
	why := ""
	syntax.Walk(c.X, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryTest:
			switch n.Op {
			case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
				if !j.number(n.X) || !j.number(n.Y) {
					why = "it evaluates what it compares"
				}
			}
		case *syntax.UnaryTest:
			if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
				why = "it evaluates the name of a variable"
			}
		case *syntax.Word:
			j.values([]*syntax.Word{n}, at)
			return false
		}
		return true
	})
	j.run([]word{unknown(j.written(c), "")}, true, why)
}

// number says whether an operand of a test is a number as it stands.
func (j *judge) number(x syntax.TestExpr) bool {
	w, ok := x.(*syntax.Word)
	return ok && digits(w.Lit())
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// values judges words that are data: what runs inside them, and what they name outside.
func (j *judge) values(list []*syntax.Word, at place) {
	for _, w := range list {
		j.inside(w, at)
	}
	for _, w := range j.words(list) {
		j.path(w, roleLook, at)
	}
}

// redirect judges a redirection.
func (j *judge) redirect(r *syntax.Redirect, at place) {
	if r.Hdoc != nil {
		j.inside(r.Hdoc, at)
	}
	if r.Word == nil || r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc {
		return
	}
	j.inside(r.Word, at)
	w := j.word(r.Word)
	switch r.Op {
	case syntax.WordHdoc:
		j.path(w, roleLook, at)
	case syntax.RdrIn:
		j.path(w, roleFrom, at)
	case syntax.DplIn, syntax.DplOut:
		switch {
		case w.literal && (w.value == "-" || digits(strings.TrimSuffix(w.value, "-"))):
		case strings.ContainsAny(w.value, "'\"\\"): // bash takes quotes out of it twice
			j.path(word{text: w.text}, roleTo, at)
		default:
			j.path(w, roleTo, at)
		}
	default:
		j.path(w, roleTo, at)
	}
}
