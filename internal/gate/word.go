package gate

import (
	"slices"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

// A word is one word of a command, as far as it can be known before the shell expands it.
type word struct {
	text    string   // as rules see it: without quotes where it is literal, else as it was written
	value   string   // what is known of it from its beginning
	literal bool     // value is all of it
	glob    int      // > 0: value is a pattern for file names, with its first special character at glob-1
	tilde   bool     // value begins with a ~ that stands for somebody's home
	values  []string // not nil: it holds a variable of this script, and these are all that it can be
	split   bool     // the shell may make several words of it
}

// is says whether the word is exactly one of these.
func (w word) is(list ...string) bool {
	for _, s := range list {
		if w.literal && w.value == s {
			return true
		}
	}
	return false
}

// hidden says whether the word may begin with anything, also with the dash of an option.
func (w word) hidden() bool {
	switch {
	case w.split:
		return true
	case w.values != nil:
		return slices.ContainsFunc(w.values, func(v string) bool { return v[0] == '*' })
	case w.literal:
		return false
	case w.glob > 0:
		return w.glob == 1 // a file may have any name
	}
	return w.value == ""
}

// option says whether the word is one for sure.
func (w word) option() bool { return strings.HasPrefix(w.value, "-") && w.value != "-" && !w.tilde }

// plain makes a literal word.
func plain(value string) word { return word{text: show(value), value: value, literal: true} }

// unknown makes a word that nobody knows, with what is known of its beginning.
func unknown(text, value string) word { return word{text: text, value: value} }

// show writes a literal word such that words can be told apart and no control character hides in it.
func show(s string) string {
	if s == "" {
		return "''"
	}
	if strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || r == unicode.ReplacementChar || !unicode.IsPrint(r) && r != ' '
	}) {
		return "$'" + strings.ReplaceAll(escape(s), "'", `\'`) + "'"
	}
	if strings.Contains(s, " ") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// escape makes everything visible that does not print.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			const hex = "0123456789abcdef"
			b.WriteString(`\u{`)
			for shift := 20; shift >= 0; shift -= 4 {
				b.WriteByte(hex[r>>shift&0xf])
			}
			b.WriteByte('}')
		}
	}
	return b.String()
}

// join is a simple command as rules see it.
func join(words []word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	return strings.Join(texts, " ")
}

// words reads the words of a command. Braces that are easily expanded are.
func (j *judge) words(list []*syntax.Word) []word {
	var out []word
	for _, w := range list {
		if several := braces(w); several != nil {
			for _, s := range several {
				out = append(out, j.word(&syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: s}}}))
			}
			continue
		}
		out = append(out, j.word(w))
	}
	return out
}

// word reads one word.
func (j *judge) word(w *syntax.Word) word {
	if w.Lit() == "[" { // the command, no pattern
		return plain("[")
	}
	b := &builder{judge: j}
	for i, p := range w.Parts {
		b.part(p, i == 0)
	}
	out := word{value: b.known.String(), literal: !b.stopped && b.glob == 0, tilde: b.tilde}
	if b.here {
		out.text = j.written(w)
		if out.value != "." && !strings.HasPrefix(out.value, "./") { // a folder beside this one
			return word{text: out.text}
		}
	}
	switch {
	case b.here && !b.stopped && b.glob == 0:
	case b.values != nil && !b.lost && b.glob == 0 && !b.tilde:
		tail := b.tail.String()
		for _, v := range b.values {
			out.values = append(out.values, out.value+v+tail)
		}
		out.literal, out.text = false, j.written(w)
	case b.stopped:
		out.text, out.split = j.written(w), b.split
	case b.glob > 0:
		out.glob = b.glob
		out.text = show(out.value)
	default:
		out.text = show(out.value)
	}
	return out
}

// written is the source of a node, with what does not print made visible.
func (j *judge) written(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from < 0 || to > len(j.src) || from >= to {
		return "$?"
	}
	return escape(j.src[from:to])
}

// A builder puts the known beginning of a word together.
type builder struct {
	judge   *judge
	known   strings.Builder // until something unknown comes
	stopped bool            // it came
	glob    int
	tilde   bool
	values  []string        // of the one variable of this script in the word
	tail    strings.Builder // what follows it
	lost    bool            // something else that is unknown came too
	split   bool            // an expansion without quotes, or one that makes several words
	quoted  bool            // while in double quotes
	here    bool            // it begins with the working folder
}

func (b *builder) add(s string) {
	switch {
	case !b.stopped:
		b.known.WriteString(s)
	case b.values != nil:
		b.tail.WriteString(s)
	}
}

// stop marks that what comes next is not known.
func (b *builder) stop() {
	b.stopped, b.lost = true, true
	b.split = b.split || !b.quoted
}

func (b *builder) part(p syntax.WordPart, first bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		b.bare(p.Value, first)
	case *syntax.SglQuoted:
		s := p.Value
		if p.Dollar {
			var ok bool
			if s, ok = unescape(s); !ok {
				b.stop()
				return
			}
		}
		b.add(s)
	case *syntax.DblQuoted:
		if p.Dollar { // translated by whatever catalogue there is
			b.stop()
			return
		}
		b.quoted = true
		for i, q := range p.Parts {
			if lit, ok := q.(*syntax.Lit); ok {
				b.add(unquoted(lit.Value))
			} else {
				b.part(q, first && i == 0)
			}
		}
		b.quoted = false
	case *syntax.ParamExp:
		b.param(p, first)
	case *syntax.CmdSubst:
		if first && b.known.Len() == 0 && isPwd(p) {
			b.here = true
			b.add(".")
			break
		}
		b.stop()
	case *syntax.ProcSubst:
		if len(p.Stmts) == 0 { // bash takes it away
			b.stop()
		}
		b.add("/dev/fd/63") // its commands are judged where they stand
	default:
		b.stop()
	}
}

// param adds a variable, if anything is known of it.
func (b *builder) param(p *syntax.ParamExp, first bool) {
	name := plainParam(p)
	if name == "@" || name == "*" || p.Index != nil || p.Names != 0 {
		b.split = true
	}
	switch {
	case first && b.known.Len() == 0 && name == "HOME":
		b.tilde = true
		b.add("~")
	case first && b.known.Len() == 0 && name == "PWD":
		b.here = true
		b.add(".")
	case name != "" && b.judge.vars[name] != nil && b.values == nil && !b.stopped:
		b.values, b.stopped = b.judge.vars[name], true
	default:
		b.stop()
	}
}

// isPwd knows $(pwd).
func isPwd(c *syntax.CmdSubst) bool {
	if len(c.Stmts) != 1 || len(c.Stmts[0].Redirs) > 0 || c.TempFile || c.ReplyVar {
		return false
	}
	call, ok := c.Stmts[0].Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) == 1 && len(call.Assigns) == 0 && call.Args[0].Lit() == "pwd"
}

// plainParam is the name in $name or ${name}, or nothing for any other expansion.
func plainParam(p *syntax.ParamExp) string {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.IsSet || p.Index != nil || p.Slice != nil || p.Repl != nil ||
		p.Exp != nil || p.Names != 0 || p.NestedParam != nil || p.Flags != nil || len(p.Modifiers) > 0 {
		return ""
	}
	return p.Param.Value
}

// bare adds text that stands without quotes.
func (b *builder) bare(s string, first bool) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] != '\n' {
				b.add(s[i : i+1])
			}
			continue
		case c == '~' && first && i == 0:
			b.tilde = true
		case strings.IndexByte("*?[", c) >= 0 && !b.stopped && b.glob == 0:
			b.glob = b.known.Len() + 1
		case strings.IndexByte("*?[", c) >= 0 && b.stopped:
			b.lost = true
		case c == '{' && expands(s[i:]):
			b.stop()
		}
		b.add(s[i : i+1])
	}
}

// unquoted takes the backslashes out of text in double quotes.
func unquoted(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unescape reads the text of $'…'. It knows the usual escapes; with any other nobody should be sure.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		at := -1
		if i < len(s) {
			at = strings.IndexByte(`nt\'"`, s[i])
		}
		if at < 0 {
			return "", false
		}
		b.WriteByte("\n\t\\'\""[at])
	}
	return b.String(), true
}

// expands says whether a text that begins with { is a brace expansion: it has a comma or two dots before it closes.
func expands(s string) bool {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '{':
			depth++
		case s[i] == '}':
			if depth--; depth == 0 {
				return false
			}
		case s[i] == ',' || strings.HasPrefix(s[i:], ".."):
			return true
		}
	}
	return depth > 0 // it may be a later part that closes it
}

// braces expands a word like src/{a,b}.go. It returns nil for a word without braces, and for one that is not so simple.
func braces(w *syntax.Word) []string {
	if len(w.Parts) != 1 {
		return nil
	}
	lit, ok := w.Parts[0].(*syntax.Lit)
	if !ok || strings.Count(lit.Value, "{") != 1 || strings.Count(lit.Value, "}") != 1 || strings.ContainsAny(lit.Value, `\~`) {
		return nil
	}
	before, rest, _ := strings.Cut(lit.Value, "{")
	inner, after, ok := strings.Cut(rest, "}")
	if !ok || !strings.Contains(inner, ",") {
		return nil
	}
	var out []string
	for s := range strings.SplitSeq(inner, ",") {
		if before+s+after != "" { // an empty word goes away
			out = append(out, before+s+after)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
