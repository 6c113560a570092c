package gate

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// document reads the table of docs/permissions.md whose first column has that title: each cell as its pieces of code.
func document(t *testing.T, title string) [][][]string {
	t.Helper()
	data, err := os.ReadFile("../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("`[^`]+`")
	var rows [][][]string
	in := false
	for line := range strings.Lines(string(data)) {
		switch {
		case strings.HasPrefix(line, "| "+title+" |"):
			in = true
		case !strings.HasPrefix(line, "|"):
			in = false
		case in && !strings.HasPrefix(line, "|---"):
			var row [][]string
			for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), " | ") {
				pieces := []string{}
				for _, s := range code.FindAllString(cell, -1) {
					pieces = append(pieces, strings.Trim(s, "`"))
				}
				if len(pieces) == 0 {
					pieces = append(pieces, strings.TrimSpace(cell))
				}
				row = append(row, pieces)
			}
			rows = append(rows, row)
		}
	}
	if len(rows) < 3 {
		t.Fatalf("the table %q has %d rows", title, len(rows))
	}
	return rows
}

func target(s string) Access {
	permission, target, _ := strings.Cut(s, " ")
	return Access{Permission: permission, Target: target}
}

func TestDocumentedRules(t *testing.T) {
	for _, row := range document(t, "allow rule") {
		p := Policy{Rules: rules(t, Allow, row[0][0])}
		for i, want := range []string{Allow, Ask} {
			for _, s := range row[i+1] {
				if d := p.Decide([]Access{target(s)}); s != "" && d.Action != want {
					t.Errorf("%s, %s: %s, not %s", row[0], s, d.Action, want)
				}
			}
		}
	}
	for _, row := range document(t, "deny rule") {
		p := Policy{Mode: ModeYolo, Rules: rules(t, Deny, row[0][0])}
		for _, s := range row[1] {
			if d := p.Decide([]Access{target(s)}); d.Action != Deny {
				t.Errorf("%s, %s: %s", row[0], s, d.Action)
			}
		}
	}
}

func TestDocumentedFaces(t *testing.T) {
	rows := document(t, "face")
	for _, row := range rows {
		var want, got []string
		for _, s := range row[1] {
			if s != "" {
				want = append(want, s)
			}
		}
		for _, r := range Defaults(row[0][0]) {
			got = append(got, RuleText(r))
		}
		if !slices.Equal(want, got) {
			t.Errorf("%s: %v, not %v", row[0], got, want)
		}
	}
	if len(rows) != 6 {
		t.Errorf("%d faces", len(rows))
	}
}

func TestDocumentedCommands(t *testing.T) {
	for _, row := range document(t, "command") {
		var got []string
		for _, a := range Command(row[0][0], workspace) {
			got = append(got, spell(a))
		}
		if diff := cmp.Diff(row[1], got); diff != "" {
			t.Errorf("%s (-doc +code):\n%s", row[0][0], diff)
		}
	}
	for _, row := range document(t, "opaque") {
		for _, c := range row[0] {
			if !slices.ContainsFunc(Command(c, workspace), func(a Access) bool { return a.Opaque }) {
				t.Errorf("%s is not opaque", c)
			}
		}
	}
}
