package script

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/sluice-dev/sluice/internal/pattern"
	"github.com/sluice-dev/sluice/internal/spell"
)

// Read reads a script's file: YAML, or JSON.
func Read(path string) (*Script, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Parse reads a script and checks it. A key that it does not know is an error.
func Parse(data []byte) (_ *Script, err error) {
	defer func() {
		if p := recover(); p != nil { // the YAML package does, over tags that it does not expect
			err = fmt.Errorf("this YAML cannot be read: %v", p)
		}
	}()
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // as some editors begin a file
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, syntax(err, nil)
	}
	if n := documents(file); n > 1 {
		return nil, fmt.Errorf("there are %d documents: a script is one", n)
	}
	var s Script
	if err := yaml.UnmarshalWithOptions(data, &s, yaml.Strict()); err != nil {
		return nil, syntax(err, file)
	}
	if err := s.Check(); err != nil {
		if p, ok := errors.AsType[problem](err); ok {
			p.line = lineOf(file, p.at)
			return nil, p
		}
		return nil, err
	}
	return &s, nil
}

func documents(file *ast.File) (n int) {
	for _, d := range file.Docs {
		if d.Body != nil {
			n++
		}
	}
	return n
}

// syntax makes one line of an error of the YAML package, which would show its source in several.
func syntax(err error, file *ast.File) error {
	var y yaml.Error
	if !errors.As(err, &y) {
		return err
	}
	p := problem{why: firstLine(y.GetMessage())}
	if t := y.GetToken(); t != nil {
		p.line = t.Position.Line
		if _, ok := errors.AsType[*yaml.UnknownFieldError](err); ok {
			p.why = unknownKey(t, file)
		}
	}
	if wrong, ok := errors.AsType[*yaml.TypeError](err); ok {
		p.why = "this is no " + word(wrong.DstType)
	}
	return p
}

// word says what a value should have been.
func word(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "list"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "mapping"
	}
	return "text"
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// unknownKey says what could have been meant.
func unknownKey(key *token.Token, file *ast.File) string {
	why := fmt.Sprintf("there is no key %q", key.Value)
	known := keysAt(pathOf(file, key))
	if near := spell.Nearest(key.Value, known); near != "" {
		return fmt.Sprintf("%s: did you mean %s?", why, near)
	}
	if len(known) > 0 {
		return fmt.Sprintf("%s here: the keys are %s", why, strings.Join(known, ", "))
	}
	return why
}

// pathOf finds where in the file a key is.
func pathOf(file *ast.File, key *token.Token) string {
	f := &finder{key: key}
	if file != nil {
		for _, d := range file.Docs {
			ast.Walk(f, d)
		}
	}
	return f.path
}

type finder struct {
	key  *token.Token
	path string
}

func (f *finder) Visit(n ast.Node) ast.Visitor {
	if v, ok := n.(*ast.MappingValueNode); ok && v.Key != nil {
		if t := v.Key.GetToken(); t != nil && t.Position.Offset == f.key.Position.Offset && t.Value == f.key.Value {
			f.path = v.Key.GetPath()
		}
	}
	return f
}

var steppingStone = pattern.Lazy(`\.([a-z_]+)|\[[0-9]+\]`)

// keysAt returns the keys that may stand where a path ends.
func keysAt(path string) []string {
	at := strings.LastIndexByte(path, '.')
	if at < 0 {
		return nil
	}
	typ := reflect.TypeFor[Script]()
	for _, m := range steppingStone().FindAllStringSubmatch(path[:at], -1) {
		if m[1] == "" {
			if typ.Kind() != reflect.Slice {
				return nil
			}
			typ = typ.Elem()
			continue
		}
		found := false
		for i := range typ.NumField() {
			if f := typ.Field(i); f.Tag.Get("yaml") == m[1] {
				typ, found = f.Type, true
				break
			}
		}
		if !found {
			return nil
		}
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
	}
	if typ.Kind() != reflect.Struct {
		return nil
	}
	var keys []string
	for i := range typ.NumField() {
		keys = append(keys, typ.Field(i).Tag.Get("yaml"))
	}
	return keys
}

// lineOf finds the line of a place, or of what is around it.
func lineOf(file *ast.File, at string) int {
	for at != "" {
		if path, err := yaml.PathString("$." + at); err == nil {
			if node, err := path.FilterFile(file); err == nil && node != nil && node.GetToken() != nil {
				return node.GetToken().Position.Line
			}
		}
		end := strings.LastIndexAny(at, ".[")
		if end < 0 {
			return 0
		}
		at = at[:end]
	}
	return 0
}
