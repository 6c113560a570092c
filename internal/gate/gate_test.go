package gate

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

// box reads the rows of the first table with a mode column, whatever it is drawn with.
func box(t *testing.T, file string) [][]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "//"))
		cells := strings.FieldsFunc(line, func(r rune) bool { return r == '│' || r == '|' })
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == 6 && (len(rows) > 0 || cells[0] == "mode") && strings.Trim(cells[0], "-─") != "" {
			rows = append(rows, cells)
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no table", file)
	}
	return rows
}

// The table in the package comment is the law.
func TestTable(t *testing.T) {
	rows := box(t, "gate.go")
	header, rows := rows[0], rows[1:]
	if len(rows) != 18 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		a := Access{Permission: "thing", Target: "x", Class: event.Class(row[1])}
		switch row[1] {
		case "outside":
			a.Permission, a.Class = Outside, event.ClassInfo
		case "implied":
			a.Implied, a.Class = true, event.ClassExec
		}
		for i := 2; i < len(row); i++ {
			p := Policy{Mode: row[0]}
			if header[i] != "none" {
				// The rule stands between others that must not matter: earlier ones of the other kinds, and a later one for something else.
				before := []event.Rule{{Permission: a.Permission, Pattern: "*", Action: Allow}, {Permission: a.Permission, Pattern: "*", Action: Ask}}
				p.Rules = append(before, event.Rule{Permission: a.Permission, Pattern: "x", Action: header[i]}, event.Rule{Permission: "other", Pattern: "*", Action: Deny})
			}
			if header[i] == Deny {
				p.Rules = append(p.Rules, event.Rule{Permission: "*", Pattern: "*", Action: Allow})
			}
			if d := p.Decide([]Access{a}); d.Action != row[i] {
				t.Errorf("%s, %s, %s: %s, not %s", row[0], row[1], header[i], d.Action, row[i])
			}
		}
	}
}

func TestTheDocumentHasTheSameTable(t *testing.T) {
	if diff := cmp.Diff(box(t, "gate.go"), box(t, "../../docs/permissions.md")); diff != "" {
		t.Errorf("docs/permissions.md differs from the package comment (-code +doc):\n%s", diff)
	}
}

func TestOpaque(t *testing.T) {
	a := []Access{{Permission: "bash", Target: "git log", Class: event.ClassExec, Opaque: true}}
	edit := []Access{{Permission: "edit", Target: "x", Class: event.ClassEdit, Opaque: true}}
	for _, c := range []struct {
		name   string
		policy Policy
		access []Access
		want   string
	}{
		{"a rule that fits is not enough", Policy{Rules: rules(t, Allow, "bash(git *)")}, a, Ask},
		{"one for all commands is", Policy{Rules: rules(t, Allow, "bash")}, a, Allow},
		{"one for everything is", Policy{Rules: rules(t, Allow, "*")}, a, Allow},
		{"a narrow one does not undo a wide one", Policy{Rules: rules(t, Allow, "bash", "bash(git *)")}, a, Allow},
		{"deny fits", Policy{Rules: rules(t, Deny, "bash(git *)"), Mode: ModeYolo}, a, Deny},
		{"ask fits", Policy{Rules: append(rules(t, Allow, "bash"), rules(t, Ask, "bash(git *)")...)}, a, Ask},
		{"yolo", Policy{Mode: ModeYolo}, a, Allow},
		{"auto_edit is not enough", Policy{Mode: ModeAutoEdit}, edit, Ask},
	} {
		if d := c.policy.Decide(c.access); d.Action != c.want {
			t.Errorf("%s: %s, not %s", c.name, d.Action, c.want)
		}
	}
}

func TestDecision(t *testing.T) {
	read := Access{Permission: "read", Target: "a", Class: event.ClassInfo}
	edit := Access{Permission: "edit", Target: "src/a.go", Class: event.ClassEdit}
	hook := Access{Permission: "edit", Target: ".git/hooks/x", Class: event.ClassEdit, Implied: true}
	test := Access{Permission: "bash", Target: "go test ./...", Class: event.ClassExec}
	list := Access{Permission: "bash", Target: "ls -l", Class: event.ClassExec}
	cd := Access{Permission: "bash", Target: "cd x", Class: event.ClassExec, Implied: true}
	out := Access{Permission: Outside, Target: "/etc/passwd", Class: event.ClassInfo}
	native := Policy{Rules: append(Defaults(FaceNative), rules(t, Allow, "bash(ls *)")...)}
	rule := func(p, pattern, action string) *event.Rule {
		return &event.Rule{Permission: p, Pattern: pattern, Action: action}
	}
	for _, c := range []struct {
		name   string
		policy Policy
		in     []Access
		want   Decision
	}{
		{"nothing is nothing to ask about", Policy{}, nil, Decision{Action: Allow, By: event.ByMode}},
		{"a rule allows", native, []Access{read}, Decision{Action: Allow, By: event.ByRule, Rule: rule("read", "*", Allow), Access: read, Of: []string{"a"}}},
		{"the first that counts is told", native, []Access{cd, list}, Decision{Action: Allow, By: event.ByRule, Rule: rule("bash", "ls *", Allow), Access: list, Of: []string{"ls -l"}}},
		{"one that must be asked makes all of it asked", native, []Access{list, test, edit}, Decision{
			Action: Ask, Access: test, Asked: []Access{test, edit}, Of: []string{"go test ./..."}, Reason: "no rule allows it: bash go test ./...", Hints: []string{"bash(go test *)", "edit(src/a.go)"},
		}},
		{"deny beats ask", native, []Access{test, hook}, Decision{
			Action: Deny, By: event.ByRule, Rule: rule("edit", ".git", Deny), Access: hook, Of: []string{".git/hooks/x"}, Reason: "denied by the rule edit(.git): edit .git/hooks/x",
		}},
		{"outside is beside reading", native, []Access{{Permission: "read", Target: "/etc/passwd", Class: event.ClassInfo}, out}, Decision{
			Action: Ask, Access: out, Asked: []Access{out}, Of: []string{"/etc/passwd"}, Reason: "no rule allows it: outside /etc/passwd", Hints: []string{"outside(/etc/passwd)"},
		}},
		{"a mode allows", Policy{Mode: ModeAutoEdit}, []Access{edit}, Decision{Action: Allow, By: event.ByMode, Access: edit, Of: []string{"src/a.go"}}},
		{"a mode that nobody knows asks", Policy{Mode: "YOLO"}, []Access{edit}, Decision{
			Action: Ask, Access: edit, Asked: []Access{edit}, Of: []string{"src/a.go"}, Reason: "no rule allows it: edit src/a.go", Hints: []string{"edit(src/a.go)"},
		}},
	} {
		if diff := cmp.Diff(c.want, c.policy.Decide(c.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestHint(t *testing.T) {
	for _, c := range [][2]string{
		{"go test ./...", "bash(go test *)"},
		{"git -C x status", "bash(git *)"},
		{"git", "bash(git *)"},
		{"npm run build:all", "bash(npm run *)"},
		{"ls -l", "bash(ls *)"},
		{"cat a b", "bash(cat *)"},
		{"go ./x", "bash(go *)"},
	} {
		a := Access{Permission: "bash", Target: c[0], Class: event.ClassExec}
		got := Policy{}.Decide([]Access{a}).Hints[0]
		if got != c[1] {
			t.Errorf("%s: %s, not %s", c[0], got, c[1])
		}
		if d := (Policy{Rules: rules(t, Allow, got)}).Decide([]Access{a}); d.Action != Allow {
			t.Errorf("%s: the hint %s does not help", c[0], got)
		}
	}
}

func TestProtected(t *testing.T) {
	p := Policy{Mode: ModeYolo, Rules: rules(t, Allow, "*", "edit", "edit(.git/**)")}
	for target, want := range map[string]string{
		".git": Deny, ".git/config": Deny, ".git/hooks/pre-commit": Deny, "sub/.git/config": Deny, "a/b/.git": Deny, ".GIT/config": Deny, "a/.Git/x": Deny,
		".sluice/config.toml": Deny, "sub/.sluice/x": Deny, ".Sluice": Deny, "/elsewhere/.git/config": Deny,
		".gitignore": Allow, ".github/workflows/x.yml": Allow, "git/config": Allow, "x.git/y": Allow, ".sluicerc": Allow,
	} {
		if d := p.Decide([]Access{{Permission: "edit", Target: target, Class: event.ClassEdit}}); d.Action != want {
			t.Errorf("edit %s: %s, not %s", target, d.Action, want)
		}
	}
	if d := p.Decide([]Access{{Permission: "read", Target: ".git/config", Class: event.ClassInfo}}); d.Action != Allow {
		t.Error("reading .git is denied")
	}
}

func TestDefaults(t *testing.T) {
	look := []string{"read", "glob", "grep", "skill", "todo"}
	all := []string{"read", "glob", "grep", "skill", "todo", "edit", "bash", "task", "mcp_x_y", Outside}
	for face, want := range map[string][]string{
		FaceNative: look, FaceEnso: look, FaceAictrl: all, FaceGrok: all, FaceAionrs: nil, FaceAvenor: nil, "nobody": nil,
	} {
		p := Policy{Rules: Defaults(face)}
		for _, perm := range all {
			d := p.Decide([]Access{{Permission: perm, Target: "x", Class: event.ClassInfo}})
			if allowed := d.Action == Allow; allowed != slices.Contains(want, perm) {
				t.Errorf("%s: %s is %s", face, perm, d.Action)
			}
		}
	}
}

func TestParseMode(t *testing.T) {
	for in, want := range map[string]string{"": ModeDefault, "default": ModeDefault, "auto_edit": ModeAutoEdit, "yolo": ModeYolo} {
		if got, err := ParseMode(in); got != want || err != nil {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	if _, err := ParseMode("YOLO"); err == nil || err.Error() != `no mode is called "YOLO": write default, auto_edit or yolo` {
		t.Error(err)
	}
}
