package dialect

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Translated to our events and back, a stream that is clean says the same in every documented field, but for those that
// testdata/NAME/identity.txt names, each with its reason.
func TestTranslatedAndBackIsTheIdentity(t *testing.T) {
	eachTold(t, func(t *testing.T, d *Dialect) {
		if d == &native {
			return
		}
		but := exceptions(t, d)
		for _, s := range samples(t, d, "clean") {
			events := decodeAll(t, s.data, d, StreamOptions{})
			got := encodeAll(throughNative(t, events), d, Options{NoOrigin: true})
			if diff := cmp.Diff(documented(t, s.data, d, but), documented(t, got, d, but)); diff != "" {
				t.Errorf("%s (-said, +said again):\n%s", s.name, diff)
			}
		}
	})
}

// Each example of a specification is read; each that has every field that its section requires is written back the same.
func TestExamples(t *testing.T) {
	eachTold(t, func(t *testing.T, d *Dialect) {
		data, err := os.ReadFile(filepath.Join("testdata", d.Name, "examples.ndjson"))
		if d == &native {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		whole := 0
		for line := range bytes.Lines(data) {
			events := decodeAll(t, line, d, StreamOptions{})
			read := false
			for _, e := range events {
				read = read || e.Of != 0 && e.Kind != "diag"
			}
			if commands := d == &aionrs && isCommand(line); commands {
				continue // the other direction: see the tests of commands
			}
			if !read {
				// A line that only closes what others opened says nothing alone; the clean streams have it.
				if found := shapeOnly(lintAll(line, d)); len(found) > 0 {
					t.Errorf("nothing is read from %s", line)
				}
			}
			if len(shapeOnly(lintAll(line, d))) > 0 {
				continue // the example leaves something out
			}
			whole++
			want := documented(t, line, d, nil)[0]
			var got []map[string]any
			for _, v := range documented(t, encodeAll(events, d, Options{NoOrigin: true}), d, nil) {
				if v[d.shapes().key] == want[d.shapes().key] {
					got = append(got, v)
				}
			}
			if !slices.ContainsFunc(got, func(v map[string]any) bool { return cmp.Equal(v, want) }) {
				t.Errorf("not written back: %s\ngot %v", line, got)
			}
		}
		if whole == 0 {
			t.Error("no example is whole")
		}
	})
}

// shapeOnly keeps what is wrong with lines by themselves, not with their order.
func shapeOnly(found []Diagnostic) []Diagnostic {
	return slices.DeleteFunc(found, func(x Diagnostic) bool {
		return strings.Contains(x.Rule, "/") || x.Rule == "torn"
	})
}

func isCommand(line []byte) bool {
	_, err := DecodeCommand(bytes.TrimSpace(line))
	return err == nil
}

// exceptions reads identity.txt: "type.field: reason" by line.
func exceptions(t *testing.T, d *Dialect) []string {
	data, err := os.ReadFile(filepath.Join("testdata", d.Name, "identity.txt"))
	if err != nil {
		return nil
	}
	var list []string
	for line := range strings.Lines(string(data)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		path, reason, _ := strings.Cut(line, ":")
		if strings.TrimSpace(reason) == "" {
			t.Errorf("identity.txt: %s has no reason", path)
		}
		list = append(list, strings.TrimSpace(path))
	}
	return list
}

// documented returns the lines of a stream with only their documented fields, less the exceptions.
func documented(t testing.TB, data []byte, d *Dialect, but []string) (lines []map[string]any) {
	t.Helper()
	s := d.shapes()
	for line := range bytes.Lines(data) {
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.UseNumber()
		var v map[string]any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		typ, _ := v[s.key].(string)
		if sh := s.find(typ); sh != nil {
			prune(v, append(s.all(sh), field{name: s.key}))
		}
		for _, path := range but {
			name, rest, _ := strings.Cut(path, ".")
			if name == typ || name == "*" {
				remove(v, rest)
			}
		}
		lines = append(lines, v)
	}
	return lines
}

func prune(v map[string]any, fields []field) {
	for k, x := range v {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == k })
		if i < 0 {
			delete(v, k)
			continue
		}
		pruneField(x, fields[i])
	}
}

func pruneField(v any, f field) {
	switch v := v.(type) {
	case map[string]any:
		if f.fields != nil {
			prune(v, f.fields)
		}
	case []any:
		for _, x := range v {
			if f.each != nil {
				pruneField(x, *f.each)
			}
		}
	}
}

func remove(v map[string]any, path string) {
	name, rest, more := strings.Cut(path, ".")
	if !more {
		delete(v, name)
		return
	}
	if inner, ok := v[name].(map[string]any); ok {
		remove(inner, rest)
	}
}
