package skill

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Bounds of the frontmatter. A parser of YAML may take a second for a few kilobytes that were made for that, and a repository
// may have hundreds of them.
const (
	maxFront = 8 << 10 // with the lines around it
	maxParts = 256     // lines, and signs that begin something in another thing
)

// A front is the YAML that stands between two lines of dashes before a text. Values are told as they were written: a version
// of 1.10 is not the number 1.1.
type front struct {
	values map[string]ast.Node
	err    error // the first that was met while values were taken
}

// cut takes a file apart.
func cut(data []byte) (head, body string, err error) {
	text := strings.ToValidUTF8(string(bytes.TrimPrefix(data, []byte("\uFEFF"))), "\uFFFD")
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t\r") != "---" {
		return "", "", errors.New("it has no frontmatter: its first line must be ---")
	}
	at := 0
	for line := range strings.Lines(rest) {
		if at > maxFront {
			break
		}
		if strings.TrimRight(line, " \t\r\n") == "---" {
			return rest[:at], strings.TrimSpace(rest[at+len(line):]), nil
		}
		at += len(line)
	}
	return "", "", fmt.Errorf("its frontmatter has no end: a second line --- must stand in the first %d KiB", maxFront>>10)
}

// readFront reads the frontmatter of a file. Lines are counted from the file's first.
func readFront(data []byte) (*front, error) {
	head, _, err := cut(data)
	if err != nil {
		return nil, err
	}
	parts := strings.Count(head, "\n")
	for _, sign := range []string{"[", "{", "- ", "? "} {
		parts = max(parts, strings.Count(head, sign))
	}
	if parts > maxParts {
		return nil, fmt.Errorf("its frontmatter has too many parts: %d lines or values in a list at most", maxParts)
	}
	file, err := parser.ParseBytes([]byte(head), 0)
	if err != nil {
		return nil, badYAML(err)
	}
	f := &front{values: map[string]ast.Node{}}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if len(f.values) > 0 {
			return nil, errors.New("its frontmatter is more than one document")
		}
		// What refers to itself can grow without bounds, and nobody needs it here.
		if len(ast.Filter(ast.AliasType, doc.Body)) > 0 || len(ast.Filter(ast.MergeKeyType, doc.Body)) > 0 {
			return nil, errors.New("its frontmatter has an alias (*): write it out")
		}
		mapping, ok := doc.Body.(*ast.MappingNode)
		if !ok {
			return nil, errors.New("its frontmatter is not a list of keys and values")
		}
		for _, v := range mapping.Values {
			key := plainText(v.Key)
			if _, twice := f.values[key]; twice {
				return nil, fmt.Errorf("its frontmatter has %q twice", shorten(key))
			}
			f.values[key] = v.Value
		}
	}
	return f, nil
}

// badYAML makes one line of an error that would show its source in several.
func badYAML(err error) error {
	var y yaml.Error
	if !errors.As(err, &y) {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return errors.New("its frontmatter is not YAML: " + line)
	}
	why, _, _ := strings.Cut(strings.TrimSpace(y.GetMessage()), "\n")
	if t := y.GetToken(); t != nil {
		return fmt.Errorf("line %d of its frontmatter is not YAML: %s (a text with a colon in it needs quotes)", t.Position.Line+1, why)
	}
	return errors.New("its frontmatter is not YAML: " + why)
}

// plainText is a scalar as it was written, without quotes.
func plainText(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.TagNode:
		return plainText(n.Value)
	case *ast.AnchorNode:
		return plainText(n.Value)
	case ast.ScalarNode:
		if t := n.GetToken(); t != nil && n.Type() != ast.NullType {
			return t.Value
		}
	}
	return ""
}

func (f *front) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// text is the value of a key that has one line or several, and empty if it is not there.
func (f *front) text(key string) string {
	n, ok := f.values[key]
	if !ok {
		return ""
	}
	if _, ok := n.(ast.ScalarNode); !ok {
		f.fail(fmt.Errorf("%s is a text, not a list or a table", key))
		return ""
	}
	return strings.TrimSpace(plainText(n))
}

// version may also stand in metadata.
func (f *front) version() string {
	if m, ok := f.values["metadata"].(*ast.MappingNode); ok && f.values["version"] == nil {
		for _, v := range m.Values {
			if plainText(v.Key) == "version" {
				return strings.TrimSpace(plainText(v.Value))
			}
		}
	}
	return f.text("version")
}

// list is the value of a key that has several: a list, or one text, which by takes apart if it is not empty.
func (f *front) list(key, by string) (list []string) {
	n, ok := f.values[key]
	if !ok {
		return nil
	}
	items := []string{}
	if seq, ok := n.(*ast.SequenceNode); ok {
		for _, v := range seq.Values {
			items = append(items, plainText(v))
		}
	} else if by == "" {
		items = append(items, f.text(key))
	} else {
		items = strings.Split(f.text(key), by)
	}
	for _, item := range items {
		if item = strings.TrimSpace(item); item == "" {
			f.fail(fmt.Errorf("%s is a list of texts, and none of them is empty", key))
			return nil
		}
		list = append(list, item)
	}
	return list
}

// others are the values of all other keys; nil if there are none.
func (f *front) others(known ...string) (more map[string]any) {
	for key, n := range f.values {
		if slices.Contains(known, key) {
			continue
		}
		var v any
		if err := yaml.NodeToValue(n, &v); err != nil {
			f.fail(badYAML(err))
			return nil
		}
		if more == nil {
			more = map[string]any{}
		}
		more[key] = v
	}
	return more
}
