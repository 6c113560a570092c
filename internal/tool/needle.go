package tool

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"strings"
)

// A matcher matches lines. A text that every match must hold is looked for first: that is many times as fast as the expression,
// and most lines do not have it.
type matcher struct {
	re     *regexp.Regexp
	needle []byte
	fold   bool // needle is small letters, and the line's case does not matter
	small  []byte
}

func newMatcher(pattern string, fold bool) (*matcher, error) {
	if fold {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	m := &matcher{re: re}
	if tree, err := syntax.Parse(pattern, syntax.Perl); err == nil {
		text, fold := needleOf(tree.Simplify())
		m.needle, m.fold = []byte(text), fold
	}
	return m, nil
}

// needleOf returns a text that is in every match of an expression, the longest that is easy to see.
func needleOf(e *syntax.Regexp) (text string, fold bool) {
	switch e.Op {
	case syntax.OpLiteral:
		text, fold = string(e.Rune), e.Flags&syntax.FoldCase != 0
		if fold {
			text = strings.ToLower(text)
		}
		if fold && !ascii(text) {
			return "", false // there are letters with three cases
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needleOf(e.Sub[0])
	case syntax.OpConcat:
		for _, sub := range e.Sub {
			if t, f := needleOf(sub); len(t) > len(text) {
				text, fold = t, f
			}
		}
	}
	return text, fold
}

func ascii[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func (m *matcher) match(line []byte) bool {
	switch {
	case len(m.needle) == 0:
	case !m.fold:
		if !bytes.Contains(line, m.needle) {
			return false
		}
	case ascii(line): // letters beyond ASCII may be another case of one in it
		m.small = append(m.small[:0], line...)
		for i, c := range m.small {
			if 'A' <= c && c <= 'Z' {
				m.small[i] = c | 0x20
			}
		}
		if !bytes.Contains(m.small, m.needle) {
			return false
		}
	}
	return m.re.Match(line)
}
