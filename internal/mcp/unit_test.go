package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-dev/sluice/internal/tool"
)

func TestNamesAreGood(t *testing.T) {
	servers := []Server{{Name: "git"}, {Name: "git_hub"}, {Name: "git.hub"}, {Name: "日本"}, {Name: strings.Repeat("s", 90)}, {Name: "git_hub-x"}}
	n := newNamer(servers, builtin)
	good := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	seen := map[string]string{}
	for _, s := range servers {
		for _, tool := range []string{"a", "A", "hub_push", "hub_x_push", "hub_hub_push", "", "a b", "a.b", "../../bash", strings.Repeat("x", 60), strings.Repeat("x", 61), strings.Repeat("x", 300)} {
			name := n.name(s.Name, tool)
			if !good.MatchString(name) {
				t.Errorf("%s %s: %q", s.Name, tool, name)
			}
			if other := seen[strings.ToLower(name)]; other != "" {
				t.Errorf("%s %s has the name of %s: %q", s.Name, tool, other, name)
			}
			seen[strings.ToLower(name)] = s.Name + " " + tool
			if s.Name == "git" && (!strings.HasPrefix(name, "git_") || strings.HasPrefix(name, "git_hub_") || strings.HasPrefix(name, "git_hub-x_")) {
				t.Errorf("a tool of git is called %s", name)
			}
		}
	}
}

// The names that are kept free are those that there are.
func TestBuiltinNames(t *testing.T) {
	for _, x := range tool.Builtin(tool.Options{Workspace: t.TempDir()}).Tools() {
		if name := x.Spec().Name; !slices.Contains(builtin, name) {
			t.Errorf("%s is missing in builtin", name)
		}
	}
	n := newNamer(nil, builtin)
	if name := n.name("bash", "output"); name == "bash_output" {
		t.Error("a server has the place of a tool of ours")
	}
}

func TestNormalSchemas(t *testing.T) {
	for _, c := range []struct{ in, want, why string }{
		{`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, `{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`, ""},
		{`{}`, string(anything), ""},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false}`, `{"$schema":"http://json-schema.org/draft-07/schema#","additionalProperties":false,"properties":{},"type":"object"}`, ""},
		{`{"type":"object","oneOf":[{"required":["a"]}],"properties":{"a":{"oneOf":[{"type":"string"},{"type":["integer","null"]}]}}}`, `{"properties":{"a":{"oneOf":[{"type":"string"},{"type":["integer","null"]}]}},"type":"object"}`, ""},
		{`{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x[y]":{"items":[{"type":"null"}]}}}`, `{"$defs":{"x[y]":{"items":[{"type":"null"}]}},"properties":{"a":{"$ref":"#/$defs/x"}},"type":"object"}`, ""},
		{`{"properties":{"a":{"pattern":"(?=x)","patternProperties":{"^x ":{"type":"array","items":{"enum":[1,null]}}}}}}`, `{"properties":{"a":{"pattern":"(?=x)","patternProperties":{"^x ":{"items":{"enum":[1,null]},"type":"array"}}}},"type":"object"}`, ""},
		{`null`, string(anything), "it is not an object"},
		{`[]`, string(anything), "it is not an object"},
		{`{"type":"string"}`, string(anything), "it is not for an object"},
		{`{"properties":{"a":{"type":"strng"}}}`, string(anything), "properties: type: there is no type strng"},
		{`{"properties":{"a":7}}`, string(anything), "properties: float64 is not bool"},
		{`{"properties":{"a":{"required":true}}}`, string(anything), "properties: required: it is not a list"},
		{`{"properties":{"a":{"minimum":"1"}}}`, string(anything), "properties: minimum: string is not float64"},
		{`{"properties":{"a":{"$ref":"https://example.com/x"}}}`, string(anything), "properties: $ref: https://example.com/x is somewhere else"},
		{`{"properties":{"a b":{}}}`, string(anything), `properties: "a b" is not a name that models can be told`},
		{`{"properties":{"a":{"anyOf":[]}}}`, string(anything), "properties: anyOf: it is not a list of schemas"},
		{`{"properties":{"a":{"description":"` + strings.Repeat("x", schemaLimit) + `"}}}`, string(anything), "it has 65591 bytes"},
	} {
		var in any
		if err := json.Unmarshal([]byte(c.in), &in); err != nil {
			t.Fatal(err)
		}
		got, err := normal(in)
		why := ""
		if err != nil {
			why = err.Error()
		}
		if string(got) != c.want || why != c.why {
			t.Errorf("%.200s: %s, %q, want %q", c.in, got, why, c.why)
		}
	}
}

func TestTame(t *testing.T) {
	for in, want := range map[string]string{
		" a\tb\n": "a\tb", "\x1b[31mred\x07": "[31mred", "a\u202eb\u200b\U000e0041c": "abc", "é\xff": "é", strings.Repeat("é", 10): "éééé…",
	} {
		if got := tame(in, 9); got != want || !utf8.ValidString(got) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := oneLine("a\n  b\r\nc", 100); got != "a b c" {
		t.Errorf("%q", got)
	}
}

func TestWhatIsTooLarge(t *testing.T) {
	long := strings.Repeat("x", keepLimit+1)
	result := func(c ...sdk.Content) *sdk.CallToolResult { return &sdk.CallToolResult{Content: c} }
	if r := translate(result(&sdk.TextContent{Text: long}), Options{}); !r.Truncated || r.Metadata != nil || !strings.Contains(r.Output, "\n[… 2057153 bytes left out]\n") {
		t.Errorf("%d bytes, %s", len(r.Output), r.Metadata)
	}
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	if r := translate(result(&sdk.TextContent{Text: long}), Options{Spill: file}); !r.Truncated || r.Metadata != nil {
		t.Errorf("a folder that is none: %s", r.Metadata)
	}
	if r := translate(result(&sdk.ImageContent{Data: append(slices.Clone(png), make([]byte, partLimit)...), MIMEType: "image/png"}), Options{}); r.Type != "" || r.Metadata != nil || !strings.HasSuffix(r.Output, "(too large to be kept)") {
		t.Errorf("%s %s", r.Type, r.Output)
	}
	if r := translate(result(&sdk.ImageContent{Data: []byte("<svg/>"), MIMEType: "image/svg+xml"}), Options{}); r.Type != "" || r.Output != "[image image/svg+xml, 6 bytes]" {
		t.Errorf("%s %s", r.Type, r.Output)
	}
	tree := map[string]any{"content": strings.Repeat("x", treeLimit)}
	if r := translate(&sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "x"}}, StructuredContent: tree}, Options{}); r.Output != "x" || r.Metadata != nil {
		t.Errorf("%d bytes, metadata %d", len(r.Output), len(r.Metadata))
	}
	if r := translate(&sdk.CallToolResult{StructuredContent: tree}, Options{}); len(r.Output) != treeLimit+14 || r.Metadata != nil {
		t.Errorf("%d bytes, metadata %d", len(r.Output), len(r.Metadata))
	}
	if r := translate(&sdk.CallToolResult{IsError: true}, Options{}); r.Error == "" {
		t.Error("a failure without a word is none")
	}
}

func TestNotesAreBounded(t *testing.T) {
	b := connect(t, Options{})
	l := newLink(b.Hub, Server{Name: "s"})
	var w lineWriter
	w.line = l.notes.line
	for range noteLines + 10 {
		w.Write([]byte("a li"))
		w.Write([]byte("ne\n\n"))
	}
	told := b.told()
	if len(told) != noteLines || told[0] != "diag s: a line" || told[noteLines-1] != "diag s: (there is more, which is not kept)" {
		t.Errorf("%d lines, the last %q", len(told), told[len(told)-1])
	}
	w.Write([]byte(strings.Repeat("x", 1<<20)))
	w.flush()
	if n := len(l.notes.latest()); n > noteLimit+10 {
		t.Errorf("a line of %d bytes", n)
	}
}
