//go:build unix

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/dialect"
)

const conformanceHead = `# Conformance

<!-- written by: go test ./cmd/sluice -run TestConformance -update -->

For every recorded stream of a real program: what that program told, and what Sluice tells in its place when the scripted model
does the same. The real streams are in ` + "`dialect/testdata/NAME/recorded`" + `; ours are made anew by each test run, by the real program as
a process of its own, called by the other one's name, against a scripted model behind a socket. The scenarios are in
` + "`cmd/sluice/testdata/conformance`" + `.

*Lint* is what ` + "`sluice lint`" + ` says of the stream: clean, or the rules of the document that it breaks (` + "`sluice lint --rules`" + ` explains them).
*Events* are the types of its lines and how many there are, in the order in which they first came; pieces of text are not counted.
*Exit* is the exit code; ` + "`hung`" + ` and signals in capitals mean that somebody had to end it, and ` + "`-`" + ` that it was not recorded.

A program that is newer than its document breaks it, too: aictrl's have types and fields that its schema version 1 does not name.

A test fails if one of ours breaks its document, or if this page is not what it finds.

`

// tellConformance writes the page. Every recorded stream must be on it.
func tellConformance(t *testing.T, list []comparison) string {
	var b strings.Builder
	b.WriteString(conformanceHead)
	b.WriteString("| program | streams recorded | of them break their document | streams of ours | of them break it |\n|---|---|---|---|---|\n")
	var tables strings.Builder
	for _, c := range list {
		recorded, broken := c.tell(t, &tables)
		bad := slices.DeleteFunc(slices.Clone(c.Scenarios), func(s scenario) bool { return s.verdict == "clean" })
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", c.Program, recorded, broken, len(c.Scenarios), len(bad))
	}
	return b.String() + tables.String()
}

func (c comparison) tell(t *testing.T, b *strings.Builder) (recorded, broken int) {
	d, err := dialect.Lookup(c.Name)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "dialect", "testdata", c.Name, "recorded")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, e := range entries {
		missing[strings.TrimSuffix(e.Name(), ".ndjson")] = true
	}
	fmt.Fprintf(b, "\n## %s\n\n| scenario | | exit | lint | events |\n|---|---|---|---|---|\n", c.Name)
	for _, s := range c.Scenarios {
		for _, name := range slices.Sorted(maps.Keys(s.Recorded)) {
			stream, err := os.ReadFile(filepath.Join(dir, name+".ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			delete(missing, name)
			recorded++
			verdict := verdictOf(d, stream)
			if verdict != "clean" {
				broken++
			}
			events := eventsOf(stream)
			if s.Note != "" {
				events += ". " + s.Note
			}
			fmt.Fprintf(b, "| %s | real | %s | %s | %s |\n", name, s.Recorded[name], verdict, events)
		}
		fmt.Fprintf(b, "| *%s* | **ours** | %d | %s | %s |\n", s.What, s.exit, s.verdict, s.events)
	}
	if len(missing) > 0 {
		t.Errorf("%s has no scenario for %s", c.Name, strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	return recorded, broken
}
