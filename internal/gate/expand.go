package gate

import (
	"mvdan.cc/sh/v3/syntax"
)

// inside judges what runs while a word is expanded, wherever in it that stands.
func (j *judge) inside(w *syntax.Word, at place) {
	if w != nil {
		j.parts(w.Parts, at)
	}
}

func (j *judge) parts(list []syntax.WordPart, at place) {
	for _, p := range list {
		switch p := p.(type) {
		case *syntax.DblQuoted:
			j.parts(p.Parts, at)
		case *syntax.CmdSubst:
			j.aside(p.Stmts, at)
			if p.TempFile || p.ReplyVar {
				j.give("it has a substitution that is not judged")
			}
		case *syntax.ProcSubst:
			j.aside(p.Stmts, at)
		case *syntax.ArithmExp:
			j.arithmetic(p.X, at)
		case *syntax.ParamExp:
			j.expansion(p, at)
		case *syntax.Lit, *syntax.SglQuoted:
		default: // extended globs among them: with the option off, bash reads !(x) as a command
			j.give("it has a pattern that is not judged: " + clip(j.written(p)))
		}
	}
}

// expansion judges ${…}. Most forms only cut text; some evaluate it.
func (j *judge) expansion(p *syntax.ParamExp, at place) {
	if p.Excl || p.Names != 0 || p.NestedParam != nil || p.Flags != nil || p.Width || p.IsSet || len(p.Modifiers) > 0 {
		j.give("it expands a variable by the text of another: " + clip(j.written(p)))
		return
	}
	if p.Index != nil {
		if w, ok := p.Index.(*syntax.Word); !ok || w.Lit() != "@" && w.Lit() != "*" {
			j.arithmetic(p.Index, at)
		}
	}
	if p.Slice != nil {
		j.arithmetic(p.Slice.Offset, at)
		j.arithmetic(p.Slice.Length, at)
	}
	if p.Repl != nil {
		j.inside(p.Repl.Orig, at)
		j.inside(p.Repl.With, at)
	}
	if p.Exp != nil {
		if p.Exp.Op == syntax.OtherParamOps {
			j.give("it evaluates the text of a variable: " + clip(j.written(p)))
		}
		if p.Exp.Word != nil {
			j.values([]*syntax.Word{p.Exp.Word}, at)
		}
		if (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull) && p.Param != nil && changes(p.Param.Value, unknown("", ""), false) {
			j.give("it sets " + p.Param.Value + ", which may change what runs")
		}
	}
}

// arithmetic judges an expression. A name in it is evaluated, and its text again, and a subscript in that may run commands: so
// only numbers are harmless.
func (j *judge) arithmetic(x syntax.ArithmExpr, at place) {
	if x == nil {
		return
	}
	syntax.Walk(x, func(n syntax.Node) bool {
		if w, ok := n.(*syntax.Word); ok {
			j.inside(w, at)
			if !digits(w.Lit()) {
				j.give("it evaluates what a variable holds: " + clip(j.written(x)))
			}
			return false
		}
		return true
	})
}
