package tool

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// rustExpression says an expression in the words of ripgrep, so that it finds at least every line that ours finds. What the two
// understand differently is spelled out or made wider:
//
//	\d \w \s, \pL, (?i)    as ranges: there they are of Unicode, and of another year's
//	\b \B                  of ASCII
//	. and [^a]             also a byte that is no character: to us that is U+FFFD
//	^ \A                   the beginning of a line, since we match one line at a time
//	$ \z                   the end of a line or the \r before it; in the middle of an expression: anything
//	a newline              not at all: no line holds one
func rustExpression(e *syntax.Regexp) (string, bool) {
	var r rust
	r.write(e, true)
	return r.String(), !r.never
}

type rust struct {
	strings.Builder
	never bool // it can match nothing that ripgrep would take
}

// write adds an expression. Whether it is the last one decides what its $ means.
func (r *rust) write(e *syntax.Regexp, last bool) {
	switch e.Op {
	case syntax.OpEmptyMatch:
		r.WriteString("(?:)")
	case syntax.OpLiteral:
		for _, c := range e.Rune {
			if e.Flags&syntax.FoldCase != 0 {
				r.class(cases(c))
			} else {
				r.class([]rune{c, c})
			}
		}
	case syntax.OpCharClass:
		r.class(e.Rune)
	case syntax.OpAnyCharNotNL, syntax.OpAnyChar:
		r.class([]rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune})
	case syntax.OpBeginLine, syntax.OpBeginText:
		r.WriteString("^")
	case syntax.OpEndLine, syntax.OpEndText:
		if last {
			r.WriteString(`\r?$`)
		} else {
			r.WriteString("(?:)")
		}
	case syntax.OpWordBoundary:
		r.WriteString(`(?-u:\b)`)
	case syntax.OpNoWordBoundary:
		r.WriteString(`(?-u:\B)`)
	case syntax.OpCapture:
		r.group(e.Sub, "", "", last)
	case syntax.OpStar:
		r.group(e.Sub, "", "*", false)
	case syntax.OpPlus:
		r.group(e.Sub, "", "+", false)
	case syntax.OpQuest:
		r.group(e.Sub, "", "?", last)
	case syntax.OpRepeat:
		most := ""
		if e.Max >= 0 {
			most = fmt.Sprint(e.Max)
		}
		r.group(e.Sub, "", fmt.Sprintf("{%d,%s}", e.Min, most), false)
	case syntax.OpAlternate:
		r.group(e.Sub, "|", "", last)
	case syntax.OpConcat:
		for i, sub := range e.Sub {
			r.write(sub, last && i == len(e.Sub)-1)
		}
	default:
		r.never = true
	}
}

func (r *rust) group(subs []*syntax.Regexp, between, after string, last bool) {
	r.WriteString("(?:")
	for i, sub := range subs {
		if i > 0 {
			r.WriteString(between)
		}
		r.write(sub, last)
	}
	r.WriteString(")" + after)
}

// class adds one character out of ranges.
func (r *rust) class(ranges []rune) {
	if len(ranges) == 0 || len(ranges) == 2 && ranges[0] == '\n' && ranges[1] == '\n' {
		r.never = true
		return
	}
	if len(ranges) == 2 && ranges[0] == ranges[1] && ranges[0] != utf8.RuneError {
		fmt.Fprintf(r, `\x{%X}`, ranges[0])
		return
	}
	broken := false
	r.WriteString("(?:[")
	for i := 0; i < len(ranges); i += 2 {
		fmt.Fprintf(r, `\x{%X}-\x{%X}`, ranges[i], ranges[i+1])
		broken = broken || ranges[i] <= utf8.RuneError && utf8.RuneError <= ranges[i+1]
	}
	r.WriteString("]")
	if broken {
		r.WriteString(`|(?-u:[\x80-\xFF])`)
	}
	r.WriteString(")")
}

// cases lists a character in all its cases, as ranges.
func cases(c rune) []rune {
	list := []rune{c, c}
	for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
		list = append(list, f, f)
	}
	return list
}
