package dialect

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Each rule has a stream that it catches and a near miss that it does not: testdata/NAME/lint/RULE.txtar, and for the rules
// that all dialects have testdata/common/RULE.txtar, told in grok's words.
func TestEachRuleCatchesAndMisses(t *testing.T) {
	for _, r := range commonRules {
		t.Run(r.ID, func(t *testing.T) { ruleCase(t, &grok, r, filepath.Join("testdata", "common", r.ID+".txtar")) })
	}
	each(t, func(t *testing.T, d *Dialect) {
		for _, r := range d.rules {
			name, ok := strings.CutPrefix(r.ID, d.Name+"/")
			if !ok || r.Doc == "" {
				t.Errorf("rule %s has another dialect's name, or no sentence", r.ID)
			}
			t.Run(name, func(t *testing.T) { ruleCase(t, d, r, filepath.Join("testdata", d.Name, "lint", name+".txtar")) })
		}
	})
}

func ruleCase(t *testing.T, d *Dialect, r Rule, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, f := range a.Files {
		parts[f.Name] = unescape(string(f.Data))
	}
	switch r.ID { // grok has no such violation
	case "type-unknown":
		d = &enso
	case "field-value":
		d = &aionrs
	}
	catch, miss := lintEverything(parts["catch"], d), lintEverything(parts["miss"], d)
	if parts["miss"] == "" {
		t.Fatal("there is no near miss")
	}
	caught := false
	for _, x := range catch {
		caught = caught || x.Rule == r.ID
		if x.Rule != r.ID && !x.Note {
			t.Errorf("catch also breaks %s, line %d: %s", x.Rule, x.Line, x.Message)
		}
	}
	if !caught {
		t.Errorf("the catch is not caught")
	}
	for _, x := range miss {
		if x.Rule == r.ID || !x.Note {
			t.Errorf("the near miss breaks %s, line %d: %s", x.Rule, x.Line, x.Message)
		}
	}
}

func lintEverything(data string, d *Dialect) (found []Diagnostic) {
	l := NewLinter(d, func(x Diagnostic) { found = append(found, x) })
	for line := range strings.Lines(data) {
		whole := strings.HasSuffix(line, "\n")
		l.Line([]byte(strings.TrimSuffix(line, "\n")), !whole)
	}
	l.Close()
	return found
}

// unescape lets a text file say what it cannot hold: ‹BOM›, ‹CR›, ‹FF› (a byte that is not UTF-8), ‹torn› (no newline here),
// ‹long› (16 MiB of x).
func unescape(s string) string {
	s = strings.ReplaceAll(s, "‹torn›\n", "")
	return strings.NewReplacer("‹BOM›", "\xef\xbb\xbf", "‹CR›", "\r", "‹FF›", "\xff", "‹long›", strings.Repeat("x", lineSize)).Replace(s)
}

func TestThereAreFortyRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range AllRules() {
		if seen[r.ID] {
			t.Errorf("%s is there twice", r.ID)
		}
		seen[r.ID] = true
	}
	if len(seen) < 40 {
		t.Errorf("there are %d rules", len(seen))
	}
}
