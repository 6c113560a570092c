package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The schema and the linter are made of one table. Somebody else's validator must agree with our linter about every line of
// the clean streams, and about each of them with a field taken away or changed.
func TestSchemaAndLinterAgree(t *testing.T) {
	each(t, func(t *testing.T, d *Dialect) {
		t.Parallel()
		schema := compile(t, d.Name, d.Schema())
		seen := map[string]bool{}
		for _, s := range samples(t, d, "clean") {
			for line := range bytes.Lines(s.data) {
				var v map[string]any
				if err := json.Unmarshal(line, &v); err != nil {
					t.Fatal(err)
				}
				for _, m := range mutants(v) {
					text, _ := json.Marshal(m)
					if seen[string(text)] {
						continue
					}
					seen[string(text)] = true
					ours := shapeOnly(lintAll(append(text, '\n'), d))
					ours = slices.DeleteFunc(ours, func(x Diagnostic) bool { return x.Rule == "time-order" })
					parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
					if err != nil {
						t.Fatal(err)
					}
					theirs := schema.Validate(parsed)
					if (len(ours) > 0) != (theirs != nil) {
						t.Fatalf("%s\nlinter: %v\nschema: %v", text, ours, theirs)
					}
				}
			}
		}
	})
}

func compile(t *testing.T, name string, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mutants returns v, v without each of its fields, and v with each of them replaced by something else, inside objects too.
func mutants(v map[string]any) []map[string]any {
	list := []map[string]any{v}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		less := maps.Clone(v)
		delete(less, k)
		list = append(list, less)
		for _, other := range []any{nil, "x", 7, 7.5, -7, true, []any{}, map[string]any{}} {
			m := maps.Clone(v)
			m[k] = other
			list = append(list, m)
		}
		if inner, ok := v[k].(map[string]any); ok && len(inner) < 20 {
			for _, x := range mutants(inner)[1:] {
				m := maps.Clone(v)
				m[k] = x
				list = append(list, m)
			}
		}
	}
	return list
}

func TestSchemasNameThemselves(t *testing.T) {
	each(t, func(t *testing.T, d *Dialect) {
		if want := fmt.Sprintf("urn:sluice:dialect:%s", d.Name); !strings.Contains(string(d.Schema()), want) {
			t.Errorf("the schema does not say that it is %s", want)
		}
	})
}
