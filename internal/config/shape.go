package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/sluice-dev/sluice/internal/spell"
)

// A shape is which keys a document has, and on which lines.
type shape struct {
	lines map[string]int // by the whole key: mcp.github.command
}

// readShape goes through a document key by key, and holds each to the structs: is there such a key, in just these letters,
// and is its value of that kind? What is no TOML at all is left to the decoder.
func readShape(data []byte) (shape, error) {
	s := shape{lines: map[string]int{}}
	var p unstable.Parser
	p.Reset(data)
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = keyOf(e)
			if err := s.fits(&p, table, e); err != nil {
				return s, err
			}
		case unstable.KeyValue:
			if err := s.pair(&p, table, e); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

func keyOf(n *unstable.Node) (key []string) {
	for k := n.Key(); k.Next(); {
		key = append(key, string(k.Node().Data))
	}
	return key
}

// pair looks at a key and its value, and into a table in braces.
func (s shape) pair(p *unstable.Parser, table []string, n *unstable.Node) error {
	key := slices.Concat(table, keyOf(n))
	if err := s.fits(p, key, n); err != nil {
		return err
	}
	if v := n.Value(); v.Kind == unstable.InlineTable {
		for c := v.Children(); c.Next(); {
			if err := s.pair(p, key, c.Node()); err != nil {
				return err
			}
		}
	}
	return nil
}

// fits holds one key to the structs.
func (s shape) fits(p *unstable.Parser, key []string, n *unstable.Node) error {
	first := n.Key()
	first.Next()
	line := p.Shape(first.Node().Raw).Start.Line
	name := strings.Join(key, ".")
	t, near, ok := typeAt(key)
	if !ok {
		if len(name) > 80 {
			name = strings.ToValidUTF8(name[:80], "") + "…"
		}
		hint := ""
		if near != "" {
			hint = fmt.Sprintf("; is %q meant?", near)
		}
		return fmt.Errorf("line %d: there is no key %q%s", line, name, hint)
	}
	kinds := kindsOf(n)
	if !slices.Contains(kinds, word(t)) {
		return fmt.Errorf("line %d: %s is %s", line, name, word(t))
	}
	for i := range key {
		if part := strings.Join(key[:i+1], "."); s.lines[part] == 0 {
			s.lines[part] = line
		}
	}
	return nil
}

// typeAt finds the type that a key's value has. If there is none, near may be what was meant.
func typeAt(key []string) (t reflect.Type, near string, ok bool) {
	t = reflect.TypeFor[Config]()
	for i, part := range key {
		switch t.Kind() {
		case reflect.Map:
			t = t.Elem()
			continue
		case reflect.Struct:
		default:
			return nil, "", false
		}
		var names []string
		at := -1
		for j := range t.NumField() {
			names = append(names, t.Field(j).Tag.Get("toml"))
			if names[j] == part {
				at = j
			}
		}
		if at < 0 {
			return nil, meant(part, names), false
		}
		if t = t.Field(at).Type; i == len(key)-1 {
			break
		}
	}
	return t, "", true
}

// meant is the key of the same table that was probably meant, or one of the same name in another table.
func meant(part string, names []string) string {
	if near := spell.Nearest(part, names); near != "" {
		return near
	}
	for _, k := range keys {
		if strings.HasSuffix(k.name, "."+part) {
			return k.name
		}
	}
	return ""
}

// The kinds that values have, in the words of a complaint.
const (
	aText    = "a text, in quotes"
	aNumber  = "a whole number"
	anAmount = "a number"
	aBool    = "true or false"
	aTime    = `a duration, as in "90s"`
	aList    = `a list of texts, as in ["a", "b"]`
	aLists   = `a list of commands, each a list of texts, as in [["go", "vet"]]`
	aTable   = "a table"
)

// word is the kind of a type.
func word(t reflect.Type) string {
	if t == reflect.TypeFor[Duration]() {
		return aTime
	}
	switch t.Kind() {
	case reflect.String:
		return aText
	case reflect.Int, reflect.Int64:
		return aNumber
	case reflect.Float64:
		return anAmount
	case reflect.Bool:
		return aBool
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Slice {
			return aLists
		}
		return aList
	}
	return aTable
}

// kindsOf are the kinds that a value of the document can pass for.
func kindsOf(n *unstable.Node) []string {
	if n.Kind == unstable.Table {
		return []string{aTable}
	}
	if n.Kind != unstable.KeyValue {
		return nil // tables in a list: nothing of ours is
	}
	switch v := n.Value(); v.Kind {
	case unstable.String:
		return []string{aText, aTime}
	case unstable.Integer:
		return []string{aNumber, anAmount}
	case unstable.Float:
		return []string{anAmount}
	case unstable.Bool:
		return []string{aBool}
	case unstable.InlineTable:
		return []string{aTable}
	case unstable.Array:
		list := []string{aList, aLists} // an empty one is either
		for c := v.Children(); c.Next(); {
			switch item := c.Node(); {
			case item.Kind == unstable.String:
				list = slices.DeleteFunc(list, func(k string) bool { return k == aLists })
			case item.Kind == unstable.Array && texts(item):
				list = slices.DeleteFunc(list, func(k string) bool { return k == aList })
			case item.Kind != unstable.Comment:
				return nil
			}
		}
		return list
	}
	return nil
}

func texts(n *unstable.Node) bool {
	for c := n.Children(); c.Next(); {
		if k := c.Node().Kind; k != unstable.String && k != unstable.Comment {
			return false
		}
	}
	return true
}

// keys are the keys of the table that the document says something about.
func (s shape) keys() map[string]bool {
	set := map[string]bool{}
	for _, k := range keys {
		if s.lines[k.name] > 0 {
			set[k.name] = true
		}
	}
	return set
}

// line is where a key is, or the table that it is in.
func (s shape) line(key string) int {
	for key != "" && s.lines[key] == 0 {
		key = key[:max(0, strings.LastIndexByte(key, '.'))]
	}
	return s.lines[key]
}
