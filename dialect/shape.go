package dialect

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-dev/sluice/internal/wire"
)

// shapes is what the lines of a dialect look like: the linter checks it and the JSON Schema is made of it.
type shapes struct {
	key    string  // the field that names a line's type
	strict bool    // an unknown type breaks the specification; otherwise the dialect may grow
	base   []field // on every line
	time   string  // the field with the line's time in Unix milliseconds, if there is one
	lines  []shape

	once  sync.Once
	built atomic.Bool // index is
	index map[string]*shape
}

// A shape is one type of line.
type shape struct {
	name   string
	doc    string
	fields []field
	bare   bool // has none of the base fields but the type
	merged []field
}

// A field is a member of an object.
type field struct {
	name   string
	types  kinds
	need   bool     // it must be there
	values []string // that a string may have
	open   bool     // other values are allowed; they are noted
	whole  bool     // a number without fraction
	signed bool     // a number that may be negative
	fields []field  // of an object
	each   *field   // of an array
}

// kinds is a set of JSON types.
type kinds uint8

const (
	isNull kinds = 1 << iota
	isBool
	isNumber
	isString
	isArray
	isMap
	isAny = isNull | isBool | isNumber | isString | isArray | isMap
)

var kindNames = []string{"null", "boolean", "number", "string", "array", "object"}

func (k kinds) names() (names []string) {
	for i, n := range kindNames {
		if k&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

func kindOf(n wire.Node) kinds {
	switch n.Kind() {
	case wire.Null:
		return isNull
	case wire.Bool:
		return isBool
	case wire.Number:
		return isNumber
	case wire.String:
		return isString
	case wire.Array:
		return isArray
	case wire.Object:
		return isMap
	}
	return 0
}

// The makers of fields: must and may say whether one is required, the methods what it holds.

func must(name string, k kinds) field { return field{name: name, types: k, need: true} }
func may(name string, k kinds) field  { return field{name: name, types: k} }

// count is a number of things: whole and not negative.
func count(name string) field { return field{name: name, types: isNumber, need: true, whole: true} }

// in limits a string to values.
func (f field) in(values ...string) field { f.values = values; return f }

// like names the values that are documented where others may come.
func (f field) like(values ...string) field { f.values, f.open = values, true; return f }

// of says what an object holds.
func (f field) of(fields ...field) field { f.fields = fields; return f }

// list says what an array holds.
func (f field) list(each field) field { f.each = &each; return f }

// optional makes a field that need not be there.
func (f field) optional() field { f.need = false; return f }

// or allows another type too.
func (f field) or(k kinds) field { f.types |= k; return f }

// find returns the shape of a type, or nil.
func (s *shapes) find(name string) *shape {
	s.once.Do(func() {
		s.index = make(map[string]*shape, len(s.lines))
		for i := range s.lines {
			l := &s.lines[i]
			l.merged = s.merge(l)
			s.index[l.name] = l
		}
		s.built.Store(true)
	})
	return s.index[name]
}

// of returns the shape that a line's type names, or nil.
func (s *shapes) of(key wire.Node) *shape {
	if s.built.Load() { // else somebody may be at it
		raw := key.Raw()
		if sh := s.index[string(raw[1:len(raw)-1])]; sh != nil {
			return sh
		}
	}
	return s.find(key.Text())
}

// all returns the fields of a shape with those of the base.
func (s *shapes) all(l *shape) []field { return s.find(l.name).merged }

func (s *shapes) merge(l *shape) []field {
	merged := slices.Clone(l.fields)
	if l.bare {
		return merged
	}
	for _, b := range s.base {
		if !slices.ContainsFunc(l.fields, func(f field) bool { return f.name == b.name }) {
			merged = append(merged, b)
		}
	}
	return merged
}

// A step leads to a member of an object, or to an element of an array.
type step struct {
	name  string
	index int
}

// way names the value that is being checked.
func (c *check) way(name string) string {
	var b strings.Builder
	for _, s := range append(c.path[:len(c.path):len(c.path)], step{name, -1}) {
		switch {
		case s.name == "" && s.index >= 0:
			fmt.Fprintf(&b, "[%d]", s.index)
			continue
		case b.Len() > 0 && s.name != "":
			b.WriteByte('.')
		}
		b.WriteString(s.name)
	}
	return b.String()
}

// fields compares an object with what its members should be; skip is a member that was looked at before.
func (c *check) fields(n wire.Node, fields []field, skip string) {
	var seen uint64 // fields that are there, as bits; no line has more than 64
	likely := 0
	for key, v := range n.Members() {
		i := match(fields, key, likely)
		switch {
		case i >= 0:
			likely = i + 1
			seen |= 1 << i
			c.field(v, &fields[i])
		case skip == "" || !key.Is(skip):
			c.report("unknown-field", v, "%s is not in the specification", c.way(clip(key.Text())))
		}
	}
	for i := range fields {
		if fields[i].need && seen&(1<<i) == 0 {
			c.report("missing-field", n, "%s is missing", c.way(fields[i].name))
		}
	}
}

// match returns the place of the field that key names, or -1. Members mostly come in one order.
func match(fields []field, key wire.Node, likely int) int {
	for i := range fields {
		j := (likely + i) % len(fields)
		if key.Is(fields[j].name) {
			return j
		}
	}
	return -1
}

func (c *check) field(v wire.Node, f *field) {
	k := kindOf(v)
	if k&f.types == 0 {
		c.report("field-type", v, "%s is %s, not %s", c.way(f.name), strings.Join(k.names(), ""), strings.Join(f.types.names(), " or "))
		return
	}
	switch k {
	case isString:
		if len(f.values) > 0 && !slices.ContainsFunc(f.values, v.Is) {
			if f.open {
				c.report("unknown-value", v, "%s is %q; the specification names %s", c.way(f.name), clip(v.Text()), strings.Join(f.values, ", "))
			} else {
				c.report("field-value", v, "%s is %q, not %s", c.way(f.name), clip(v.Text()), orList(f.values))
			}
		}
	case isNumber:
		if v.Raw()[0] == '-' && !f.signed {
			if x, _ := v.Float(); x < 0 {
				c.report("field-number", v, "%s is negative", c.way(f.name))
				return
			}
		}
		if f.whole {
			if _, ok := v.Int(); !ok {
				c.report("field-number", v, "%s is not a whole number", c.way(f.name))
			}
		}
	case isMap:
		if f.fields != nil {
			c.path = append(c.path, step{f.name, -1})
			c.fields(v, f.fields, "")
			c.path = c.path[:len(c.path)-1]
		}
	case isArray:
		if f.each == nil {
			return
		}
		c.path = append(c.path, step{f.name, -1}, step{})
		i := 0
		for _, e := range v.Members() {
			c.path[len(c.path)-1].index = i
			c.field(e, f.each)
			i++
		}
		c.path = c.path[:len(c.path)-2]
	}
}

func orList(values []string) string {
	if n := len(values); n > 1 {
		return strings.Join(values[:n-1], ", ") + " or " + values[n-1]
	}
	return values[0]
}

// clip shortens a text for a message.
func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
