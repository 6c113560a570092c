package dialect

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-dev/sluice/internal/wire"
)

// A Rule is something that a stream must, or should, be.
type Rule struct {
	ID   string // "json", or "grok/step-order"
	Note bool   // what breaks it is worth knowing and no violation
	Doc  string // one sentence
}

// A Diagnostic says where a stream breaks a rule.
type Diagnostic struct {
	Rule    string `json:"rule"`
	Note    bool   `json:"note,omitempty"`
	Line    int    `json:"line"`             // from 1; 0 for the stream as a whole
	Column  int    `json:"column,omitempty"` // in bytes, from 1
	Message string `json:"message"`
}

// commonRules hold in every dialect.
var commonRules = []Rule{
	{"json", false, "each line is one JSON object"},
	{"utf8", false, "strings are valid UTF-8"},
	{"doubled-key", false, "no object has the same key twice"},
	{"torn", false, "the last line ends in a newline"},
	{"bom", false, "there is no byte order mark"},
	{"empty", false, "a stream has at least one line"},
	{"blank", true, "there are no blank lines"},
	{"crlf", true, "lines end in a newline alone"},
	{"size", true, "lines are below 16 MiB, so that ordinary readers can take them"},
	{"type-missing", false, "each line says its type"},
	{"type-unknown", false, "the type of a line is one of the specification's (a note where the dialect may grow)"},
	{"missing-field", false, "required fields are there"},
	{"field-type", false, "fields have the type of the specification"},
	{"field-value", false, "fields with a fixed set of values have one of them"},
	{"field-number", false, "numbers are not negative, and whole where they count something"},
	{"unknown-field", true, "there are no fields beyond the specification's"},
	{"unknown-value", true, "fields with an open set of values have one that the specification names"},
	{"time-order", false, "time does not go backwards"},
	{"time-plausible", true, "times lie between the years 2001 and 2100"},
}

// lineSize is where the rule "size" begins.
const lineSize = 16 << 20

// Rules returns the dialect's rules: those of all dialects, then its own.
func (d *Dialect) Rules() []Rule { return slices.Concat(commonRules, d.rules) }

// AllRules returns every rule once.
func AllRules() []Rule {
	all := slices.Clone(commonRules)
	for _, d := range sources {
		all = append(all, d.rules...)
	}
	return all
}

// A checker knows what may follow what in one stream of a dialect.
type checker interface {
	// line is called for each line that has a known type. A checker that has a method unknown gets the others there.
	line(c *check, typ string, n wire.Node)
	// close is called after the last line.
	close(c *check)
}

// A Linter says whether a stream is what its specification says. Feed it every line and close it.
type Linter struct {
	NoNotes bool // do not tell notes

	check check
	order checker
	doc   wire.Doc
	last  float64 // time of the line before
	timed bool
}

// check is what a linter knows of the line it is at.
type check struct {
	dialect *Dialect
	number  int
	emit    func(Diagnostic)
	notes   map[string]bool // rule ids that are notes
	quiet   bool            // notes are not wanted
	path    []step          // to the value that is being checked
}

// NewLinter returns a linter of dialect d that tells emit what it finds.
func NewLinter(d *Dialect, emit func(Diagnostic)) *Linter {
	l := &Linter{check: check{dialect: d, emit: emit, notes: map[string]bool{}}, order: d.checker()}
	for _, r := range d.Rules() {
		l.check.notes[r.ID] = r.Note
	}
	if !d.shapes().strict {
		l.check.notes["type-unknown"] = true
	}
	return l
}

// Line checks one line, given without its newline. Torn says that it had none.
func (l *Linter) Line(line []byte, torn bool) {
	c := &l.check
	c.number++
	c.quiet = l.NoNotes
	if torn {
		c.report("torn", wire.Node{}, "the last line does not end in a newline")
	}
	if c.number == 1 && bytes.HasPrefix(line, []byte("\xef\xbb\xbf")) {
		c.report("bom", wire.Node{}, "the stream begins with a byte order mark")
	}
	if bytes.HasSuffix(line, []byte("\r")) {
		c.report("crlf", wire.Node{}, "the line ends in a carriage return")
	}
	if len(line) >= lineSize {
		c.report("size", wire.Node{}, "the line has %d bytes", len(line))
	}
	line = trim(line, c.number == 1)
	if len(bytes.TrimSpace(line)) == 0 {
		c.report("blank", wire.Node{}, "the line is blank")
		return
	}
	if err := l.doc.Parse(line); err != nil {
		var s *wire.SyntaxError
		switch {
		case bytes.TrimLeft(line, " \t")[0] != '{':
			c.at("json", 1, "not a JSON object: %q", clip(string(line[:min(len(line), 240)])))
		case errors.As(err, &s):
			c.at("json", s.Offset+1, "not JSON: %s", s.Reason)
		}
		return
	}
	root := l.doc.Root()
	if root.Kind() != wire.Object {
		c.report("json", wire.Node{}, "not a JSON object")
		return
	}
	if at, bad := l.doc.InvalidUTF8(); bad {
		c.at("utf8", at+1, "a string is not valid UTF-8")
	}
	if key, at, bad := l.doc.Doubled(); bad {
		c.at("doubled-key", at+1, "the key %q is there twice", clip(key))
	}
	l.shape(root)
}

// Close checks what can only be said at the end.
func (l *Linter) Close() {
	lines := l.check.number
	if lines == 0 {
		l.check.report("empty", wire.Node{}, "the stream has no line")
		return
	}
	l.order.close(&l.check)
}

func (l *Linter) shape(root wire.Node) {
	c, s := &l.check, l.check.dialect.shapes()
	key := root.Get(s.key)
	if key.Kind() != wire.String {
		c.report("type-missing", root, "%s is missing, or not a string", s.key)
		return
	}
	sh := s.of(key)
	if sh == nil {
		c.report("type-unknown", key, "%s %q is not in the specification", s.key, clip(key.Text()))
		l.time(root)
		if o, ok := l.order.(interface{ unknown(*check, wire.Node) }); ok {
			o.unknown(c, root)
		}
		return
	}
	c.path = c.path[:0]
	c.fields(root, sh.merged, s.key)
	l.time(root)
	l.order.line(c, sh.name, root)
}

func (l *Linter) time(root wire.Node) {
	c, s := &l.check, l.check.dialect.shapes()
	if s.time == "" {
		return
	}
	n := root.Get(s.time)
	t, ok := n.Float()
	if !ok {
		return
	}
	if l.timed && t < l.last {
		c.report("time-order", n, "%s is %.0f ms before the line above", s.time, l.last-t)
	}
	if t < 1e12 || t > 4.1e12 {
		c.report("time-plausible", n, "%s is not a time in milliseconds that one would expect", s.time)
	}
	l.last, l.timed = t, true
}

// report tells that a rule is broken, at the node if there is one.
func (c *check) report(rule string, n wire.Node, format string, args ...any) {
	column := 0
	if n.Kind() != wire.Absent {
		column = n.Offset() + 1
	}
	c.at(rule, column, format, args...)
}

// stream tells that a rule is broken by the stream as a whole, found at its end.
func (c *check) stream(rule string, format string, args ...any) {
	c.at(rule, 0, format, args...)
}

func (c *check) at(rule string, column int, format string, args ...any) {
	note, known := c.notes[rule]
	switch {
	case !known:
		panic("dialect: no rule " + rule)
	case note && c.quiet:
		return
	}
	c.emit(Diagnostic{Rule: rule, Note: note, Line: c.number, Column: column, Message: fmt.Sprintf(format, args...)})
}

// recent remembers the last few thousand ids that were used: a linter's memory does not grow with the stream.
type recent struct {
	ids  map[string]bool
	ring []string
	next int
}

const recentIDs = 4096

// add remembers id and says whether it was there already.
func (r *recent) add(id string) bool {
	if r.ids[id] {
		return true
	}
	if r.ids == nil {
		r.ids = map[string]bool{}
	}
	r.ids[id] = true
	if len(r.ring) < recentIDs {
		r.ring = append(r.ring, id)
		return false
	}
	delete(r.ids, r.ring[r.next])
	r.ring[r.next] = id
	r.next = (r.next + 1) % recentIDs
	return false
}
