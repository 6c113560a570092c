package loop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A document is a file in one of three formats, before anybody asks what it means: maps, lists, texts, numbers and truths, and on
// which line each of them stands. A place is written pre[0].name.
type document struct {
	value any
	lines map[string]int
}

// line is where a place is, or what is around it.
func (d document) line(place string) int {
	for place != "" && d.lines[place] == 0 {
		place = place[:max(0, strings.LastIndexAny(place, ".["))]
	}
	return d.lines[place]
}

// A lineError is one on a line of the document.
type lineError struct {
	line int
	why  string
}

func (e lineError) Error() string { return e.why }

// parseDocument reads a document in the format that a file's name says.
func parseDocument(name string, data []byte) (d document, err error) {
	d.lines = map[string]int{}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // as some editors begin a file
	switch at := strings.LastIndexByte(name, '.'); strings.ToLower(name[at+1:]) {
	case "json":
		err = d.readJSON(data)
	case "yaml", "yml":
		err = d.readYAML(data, 0)
	case "toml":
		err = d.readTOML(data)
	default:
		err = errors.New("its name must end in .yaml, .json or .toml")
	}
	return d, err
}

func join(place, key string) string {
	if place == "" {
		return key
	}
	return place + "." + key
}

// readJSON reads JSON, token by token, so that every key has its line.
func (d *document) readJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	line := func() int { return 1 + bytes.Count(data[:min(int(dec.InputOffset()), len(data))], []byte("\n")) }
	var value func(place string) (any, error)
	value = func(place string) (any, error) {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		if d.lines[place] == 0 {
			d.lines[place] = line()
		}
		switch tok := tok.(type) {
		case json.Number:
			if n, err := tok.Int64(); err == nil {
				return n, nil
			}
			return tok.Float64()
		case json.Delim:
			if tok == '[' {
				list := []any{}
				for dec.More() {
					v, err := value(fmt.Sprintf("%s[%d]", place, len(list)))
					if err != nil {
						return nil, err
					}
					list = append(list, v)
				}
				_, err = dec.Token()
				return list, err
			}
			table := map[string]any{}
			for dec.More() {
				key, err := dec.Token()
				if err != nil {
					return nil, err
				}
				name := key.(string) // the decoder takes no other
				if _, twice := table[name]; twice {
					return nil, lineError{line(), fmt.Sprintf("%q is there twice", name)}
				}
				d.lines[join(place, name)] = line()
				if table[name], err = value(join(place, name)); err != nil {
					return nil, err
				}
			}
			_, err = dec.Token()
			return table, err
		default:
			return tok, nil
		}
	}
	var err error
	if d.value, err = value(""); err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the first value")
		}
	}
	if err != nil && !errors.As(err, new(lineError)) {
		return lineError{line(), "this is no JSON: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	return err
}

// readYAML reads YAML. Lines are counted from the one after skip. What refers to itself can grow without bounds, so nothing may.
func (d *document) readYAML(data []byte, skip int) (err error) {
	defer func() {
		if p := recover(); p != nil { // the package does, over tags that it does not expect
			err = fmt.Errorf("this YAML cannot be read: %v", p)
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n")
		line := 0
		if y, ok := err.(yaml.Error); ok {
			why, _, _ = strings.Cut(strings.TrimSpace(y.GetMessage()), "\n")
			if t := y.GetToken(); t != nil {
				line = t.Position.Line + skip
			}
		}
		return lineError{line, "this is no YAML: " + why}
	}
	found := false
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if found {
			return errors.New("there is more than one document in it")
		}
		found = true
		if d.value, err = d.node("", doc.Body, skip); err != nil {
			return err
		}
	}
	return nil
}

// node reads a node of YAML, and what is in it.
func (d *document) node(place string, n ast.Node, skip int) (any, error) {
	line := 0
	if t := n.GetToken(); t != nil {
		line = t.Position.Line + skip
	}
	if d.lines[place] == 0 {
		d.lines[place] = line
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		table := map[string]any{}
		for _, v := range n.Values {
			if err := d.pair(place, table, v, skip); err != nil {
				return nil, err
			}
		}
		return table, nil
	case *ast.MappingValueNode:
		table := map[string]any{}
		return table, d.pair(place, table, n, skip)
	case *ast.SequenceNode:
		list := []any{}
		for i, v := range n.Values {
			item, err := d.node(fmt.Sprintf("%s[%d]", place, i), v, skip)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		return list, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.StringNode:
		return n.Value, nil
	case *ast.BoolNode:
		return n.Value, nil
	case *ast.NullNode:
		return nil, nil
	case *ast.IntegerNode:
		switch v := n.Value.(type) {
		case int64:
			return v, nil
		case uint64:
			return int64(min(v, 1<<62)), nil
		}
	case *ast.FloatNode:
		return n.Value, nil
	}
	return nil, lineError{line, "this is too clever: aliases, merged keys and tags are not read"}
}

func (d *document) pair(place string, table map[string]any, v *ast.MappingValueNode, skip int) error {
	t := v.Key.GetToken()
	if t == nil || v.Key.Type() == ast.MergeKeyType {
		return lineError{d.lines[place], "this is too clever: aliases, merged keys and tags are not read"}
	}
	if _, twice := table[t.Value]; twice {
		return lineError{t.Position.Line + skip, fmt.Sprintf("%q is there twice", t.Value)}
	}
	d.lines[join(place, t.Value)] = t.Position.Line + skip
	item, err := d.node(join(place, t.Value), v.Value, skip)
	table[t.Value] = item
	return err
}

// readTOML reads TOML: values by its decoder, lines by its parser.
func (d *document) readTOML(data []byte) error {
	table := map[string]any{}
	if err := toml.Unmarshal(data, &table); err != nil {
		var wrong *toml.DecodeError
		if errors.As(err, &wrong) {
			line, _ := wrong.Position()
			return lineError{line, "this is no TOML: " + strings.TrimPrefix(wrong.Error(), "toml: ")}
		}
		return err
	}
	d.value = table
	var p unstable.Parser
	p.Reset(data)
	at, count := "", map[string]int{}
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			at = ""
			key := e.Key()
			for key.Next() {
				at = join(at, string(key.Node().Data))
				if e.Kind == unstable.ArrayTable && key.IsLast() {
					count[at]++
				}
				if n := count[at]; n > 0 {
					at += "[" + strconv.Itoa(n-1) + "]"
				}
				d.note(&p, at, key.Node())
			}
		case unstable.KeyValue:
			d.keys(&p, at, e)
		}
	}
	d.lines[""] = 1
	return nil
}

func (d *document) note(p *unstable.Parser, place string, n *unstable.Node) {
	if d.lines[place] == 0 {
		d.lines[place] = p.Shape(n.Raw).Start.Line
	}
}

// keys notes the lines of a key, and of those in a table in braces after it.
func (d *document) keys(p *unstable.Parser, place string, n *unstable.Node) {
	for key := n.Key(); key.Next(); {
		place = join(place, string(key.Node().Data))
		d.note(p, place, key.Node())
	}
	d.inside(p, place, n.Value())
}

func (d *document) inside(p *unstable.Parser, place string, v *unstable.Node) {
	switch v.Kind {
	case unstable.InlineTable:
		for c := v.Children(); c.Next(); {
			d.keys(p, place, c.Node())
		}
	case unstable.Array:
		i := 0
		for c := v.Children(); c.Next(); {
			if c.Node().Kind != unstable.Comment {
				d.inside(p, fmt.Sprintf("%s[%d]", place, i), c.Node())
				i++
			}
		}
	}
}

// sortedKeys are the keys of a table, in the order of their lines.
func (d document) sortedKeys(place string, table map[string]any) []string {
	keys := slices.Sorted(maps.Keys(table)) // those of one line have an order too
	sortBy(keys, func(k string) int { return d.lines[join(place, k)] })
	return keys
}
