package sluice

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
)

var update = flag.Bool("update", false, "write generated documents anew")

// generated compares a document's generated part with what it should be; the part begins after the mark.
func generated(t *testing.T, file, want string) {
	t.Helper()
	const mark = "<!-- generated below: make generate -->\n"
	text := readFile(t, file)
	head, got, ok := strings.Cut(text, mark)
	if !ok {
		t.Fatalf("%s has no line %q", file, strings.TrimSpace(mark))
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+mark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is not up to date: make generate\n%s", file, diff)
	}
}

// docs/events.md has every kind with its sentence and one line of JSON.
func TestEventsDocument(t *testing.T) {
	docs := typeDocs(t, "event")
	var b strings.Builder
	seen := map[event.Kind]bool{}
	for _, e := range event.Samples() {
		if _, unknown := e.Body.(event.Unknown); unknown || seen[e.Kind] {
			continue
		}
		seen[e.Kind] = true
		name := strings.TrimPrefix(fmt.Sprintf("%T", e.Body), "event.")
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n```json\n%s\n```\n", e.Kind, docs[name], event.Append(nil, e))
	}
	generated(t, "docs/events.md", b.String())
}

// docs/dialects.md says, from the clean streams, which events each line is read as, and from the tables what each dialect
// cannot say.
func TestDialectsDocument(t *testing.T) {
	var b strings.Builder
	read := map[string]map[event.Kind][]string{} // dialect → kind → line types
	order := []event.Kind{}
	for _, body := range event.Kinds() {
		order = append(order, body.Kind())
	}
	for _, d := range dialect.All() {
		if d.Name != "native" {
			read[d.Name] = linesOf(t, d)
		}
	}
	b.WriteString("\n## Which line says what\n\nOf each kind of event, the lines that it is read from, in the clean streams of `dialect/testdata`.\n\n| kind |")
	for _, d := range dialect.All()[1:] {
		fmt.Fprintf(&b, " %s |", d.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(dialect.All())-1) + "\n")
	for _, k := range order {
		fmt.Fprintf(&b, "| %s |", k)
		for _, d := range dialect.All()[1:] {
			lines := read[d.Name][k]
			if len(lines) == 0 {
				lines = []string{"–"}
			}
			fmt.Fprintf(&b, " %s |", strings.Join(lines, ", "))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## Where the identity ends\n\nTold as our events and back, a clean stream says the same in every documented field, but for these; `*` stands for every line.\n\n| dialect | field | why |\n|---|---|---|\n")
	before := b.Len()
	for _, d := range dialect.All()[1:] {
		data, _ := os.ReadFile(filepath.Join("dialect", "testdata", d.Name, "identity.txt"))
		for line := range strings.Lines(string(data)) {
			if field, why, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", d.Name, field, strings.TrimSpace(why))
			}
		}
	}
	if b.Len() == before {
		b.WriteString("| all | none | |\n")
	}
	for _, d := range dialect.All()[1:] {
		fmt.Fprintf(&b, "\n## What %s cannot say\n\n%s\n\n| kind | field | fate | why |\n|---|---|---|---|\n", d.Name, capital(d.Doc)+".")
		for _, l := range d.Losses() {
			field := l.Field
			if field == "inferred" {
				continue // the same in all of them
			}
			if field == "" {
				field = "(all)"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.Kind, field, l.Fate, l.Why)
		}
	}
	generated(t, "docs/dialects.md", b.String())
}

// linesOf reads the clean streams of a dialect and says which lines each kind comes from.
func linesOf(t *testing.T, d *dialect.Dialect) map[event.Kind][]string {
	found := map[event.Kind][]string{}
	files, err := filepath.Glob(filepath.Join("dialect", "testdata", d.Name, "clean", "*.ndjson"))
	if err != nil || len(files) == 0 {
		t.Fatal(d.Name, err)
	}
	for _, file := range files {
		typ := map[uint64]string{}
		for e, err := range dialect.Read(strings.NewReader(readFile(t, file)), d, dialect.StreamOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if f, ok := e.Body.(event.Foreign); ok {
				typ[e.Seq] = typeOf(f.Bytes(), d.Key())
			} else if name := typ[e.Of]; name != "" && !slices.Contains(found[e.Kind], name) {
				found[e.Kind] = append(found[e.Kind], name)
			}
		}
	}
	for _, list := range found {
		slices.Sort(list)
	}
	return found
}

func typeOf(line []byte, key string) string {
	_, rest, _ := bytes.Cut(line, []byte(`"`+key+`":"`))
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(name)
}

// typeDocs returns the first sentence of every type's doc comment.
func typeDocs(t *testing.T, dir string) map[string]string {
	docs := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.TypeSpec)
				doc := spec.Doc.Text()
				if doc == "" {
					doc = g.Doc.Text()
				}
				docs[spec.Name.Name] = strings.Join(strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(doc)), " ")
			}
		}
	}
	return docs
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func readFile(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
