package event

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write schema.json")

func TestSchemaIsCurrent(t *testing.T) {
	want := makeSchema(t)
	if *update {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(want, Schema()) {
		t.Error("schema.json is not what the types say; run go test ./event -update")
	}
}

func TestSchemaTakesLines(t *testing.T) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(makeSchema(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource("native.json", root); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("native.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(line []byte) error {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
	for _, e := range Samples() {
		if err := check(Append(nil, e)); err != nil {
			t.Errorf("%s: %v", e.Kind, err)
		}
	}
	for _, b := range Kinds() { // nothing but what must be there
		if err := check(Append(nil, Event{Header{Seq: 1}, b})); err != nil {
			t.Errorf("empty %s: %v", b.Kind(), err)
		}
	}
	for _, line := range []string{
		`{"kind":"x","body":{}}`, `{"seq":1,"kind":"x"}`, `{"seq":1,"body":{}}`, `{"seq":1,"kind":"","body":{}}`, `{"seq":1,"kind":"x","body":[]}`, `{"seq":0,"kind":"x","body":{}}`, `{"seq":1,"kind":"x","body":{},"at":"today"}`,
		`{"seq":1,"kind":"text","body":{}}`, `{"seq":1,"kind":"text","body":{"text":1}}`, `{"seq":1,"kind":"text","body":{"text":"a","start":"today"}}`,
		`{"seq":1,"kind":"tool.done","body":{"name":"a","exit":"1"}}`, `{"seq":1,"kind":"turn.ended","body":{"usage":{"input":-1}}}`, `{"seq":1,"kind":"catalog","body":{"tools":[{}],"skills":[]}}`,
	} {
		if check([]byte(line)) == nil {
			t.Errorf("%s was taken", line)
		}
	}
}

// node is the part of JSON Schema that lines need.
type node struct {
	Schema      string      `json:"$schema,omitempty"`
	ID          string      `json:"$id,omitempty"`
	Ref         string      `json:"$ref,omitempty"`
	Title       string      `json:"title,omitempty"`
	Description string      `json:"description,omitempty"`
	Type        any         `json:"type,omitempty"`
	Format      string      `json:"format,omitempty"`
	Const       string      `json:"const,omitempty"`
	Enum        []string    `json:"enum,omitempty"`
	Examples    []string    `json:"examples,omitempty"`
	Minimum     *int        `json:"minimum,omitempty"`
	MinLength   int         `json:"minLength,omitempty"`
	Items       *node       `json:"items,omitempty"`
	Not         *node       `json:"not,omitempty"`
	Properties  *properties `json:"properties,omitempty"`
	Required    []string    `json:"required,omitempty"`
	OneOf       []*node     `json:"oneOf,omitempty"`
	Defs        *properties `json:"$defs,omitempty"`
}

// properties are members of an object, in the order of the Go fields.
type properties struct {
	names []string
	nodes []*node
}

func (p *properties) add(name string, n *node) {
	p.names, p.nodes = append(p.names, name), append(p.nodes, n)
}

func (p *properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, n := range p.nodes {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(p.names[i]) + ":")
		member, err := marshal(n)
		if err != nil {
			return nil, err
		}
		b.Write(member)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

func makeSchema(t *testing.T) []byte {
	t.Helper()
	m := maker{comments: readComments(t), shared: &properties{}}
	root := &node{
		Schema: "https://json-schema.org/draft/2020-12/schema", ID: "urn:sluice:dialect:native", Title: "native", Defs: &properties{},
		Description: "One line of a journal: a header and a body. Readers bear kinds, header keys and fields that they do not know.",
		Type:        "object", Properties: m.header(), Required: []string{"seq", "kind", "body"},
	}
	var known []string
	for _, b := range Kinds() {
		known = append(known, string(b.Kind()))
		root.OneOf = append(root.OneOf, &node{Ref: "#/$defs/" + string(b.Kind())})
		root.Defs.add(string(b.Kind()), m.kind(b))
	}
	tomorrow := &properties{}
	tomorrow.add("kind", &node{Not: &node{Enum: known}})
	root.OneOf = append(root.OneOf, &node{Description: "A kind from tomorrow.", Properties: tomorrow})
	for i, name := range m.shared.names {
		root.Defs.add(name, m.shared.nodes[i])
	}
	raw, err := marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A maker makes schemas of Go types.
type maker struct {
	comments
	shared *properties // structs that several kinds have
}

func (m *maker) header() *properties {
	p := &properties{}
	for f := range reflect.TypeFor[Header]().Fields() {
		n := &node{Type: "string"}
		switch f.Name {
		case "Seq", "Of":
			n = &node{Type: "integer", Minimum: new(1)}
		case "At":
			n = &node{Type: "string", Format: "date-time"}
		case "Kind":
			n.MinLength = 1
		}
		if f.Name != "Kind" {
			n.Description = m.fields["Header."+f.Name]
		} else {
			n.Description = m.types["Kind"]
		}
		p.add(strings.ToLower(f.Name), n)
	}
	p.add("body", &node{Type: "object", Description: "what happened, in fields that depend on the kind"})
	return p
}

func (m *maker) kind(b Body) *node {
	t := reflect.TypeOf(b)
	p := &properties{}
	p.add("kind", &node{Const: string(b.Kind())})
	p.add("body", m.object(t))
	return &node{Description: m.types[t.Name()], Properties: p}
}

func (m *maker) object(t reflect.Type) *node {
	n := &node{Type: "object", Properties: &properties{}}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		v := m.value(f.Type)
		if v.Description == "" || m.fields[t.Name()+"."+f.Name] != "" {
			v.Description = m.fields[t.Name()+"."+f.Name]
		}
		switch f.Name {
		case "Exit":
			v.Minimum = nil // some systems have negative ones
		case "Inferred":
			v.Description = "nobody told it; it was missing"
		}
		if options == "" {
			n.Required = append(n.Required, name)
			if f.Type.Kind() == reflect.Slice { // one that was never made
				v.Type = []string{"array", "null"}
			}
		}
		n.Properties.add(name, v)
	}
	return n
}

func (m *maker) value(t reflect.Type) *node {
	switch t {
	case reflect.TypeFor[time.Time]():
		return &node{Type: "string", Format: "date-time"}
	case reflect.TypeFor[Raw]():
		return &node{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.value(t.Elem())
	case reflect.Slice:
		return &node{Type: "array", Items: m.value(t.Elem())}
	case reflect.Struct:
		if !m.has(t.Name()) {
			m.shared.add(t.Name(), nil)
			at := len(m.shared.names) - 1
			o := m.object(t)
			o.Description = m.types[t.Name()]
			m.shared.nodes[at] = o
		}
		return &node{Ref: "#/$defs/" + t.Name()}
	case reflect.String:
		return &node{Type: "string", Description: m.types[t.Name()], Examples: m.values[t.Name()]}
	case reflect.Bool:
		return &node{Type: "boolean"}
	case reflect.Float64:
		return &node{Type: "number", Minimum: new(0)}
	default:
		return &node{Type: "integer", Minimum: new(0)}
	}
}

func (m *maker) has(name string) bool {
	for _, n := range m.shared.names {
		if n == name {
			return true
		}
	}
	return false
}

// comments is what the source says about its types.
type comments struct {
	types  map[string]string   // type → its comment
	fields map[string]string   // type.Field → its comment
	values map[string][]string // type → its constants
}

func readComments(t *testing.T) comments {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	c := comments{map[string]string{}, map[string]string{}, map[string][]string{}}
	same := map[string]string{} // type ToolDone ToolEnd
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok {
				c.read(d, same)
			}
		}
	}
	for name, of := range same {
		for field, text := range c.fields {
			if rest, ok := strings.CutPrefix(field, of+"."); ok {
				c.fields[name+"."+rest] = text
			}
		}
	}
	return c
}

func (c comments) read(d *ast.GenDecl, same map[string]string) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			c.types[s.Name.Name] = plain(d.Doc)
			switch u := s.Type.(type) {
			case *ast.Ident:
				same[s.Name.Name] = u.Name
			case *ast.StructType:
				for _, f := range u.Fields.List {
					for _, name := range f.Names {
						c.fields[s.Name.Name+"."+name.Name] = plain(f.Comment)
					}
				}
			}
		case *ast.ValueSpec:
			if id, ok := s.Type.(*ast.Ident); ok && d.Tok == token.CONST {
				v, _ := strconv.Unquote(s.Values[0].(*ast.BasicLit).Value)
				c.values[id.Name] = append(c.values[id.Name], v)
			}
		}
	}
}

// plain makes one line of a comment, without links.
func plain(g *ast.CommentGroup) string {
	var p comment.Parser
	p.LookupSym = func(_, _ string) bool { return true }
	text := (&comment.Printer{TextWidth: -1}).Text(p.Parse(g.Text()))
	return strings.Join(strings.Fields(string(text)), " ")
}
