package skill

import (
	"os"
	"path/filepath"
	"testing"
)

func TestExpand(t *testing.T) {
	o := ways(t, map[string]string{
		"repo/.sluice/skills/commit/SKILL.md": "---\ndescription: x\n---\n\n# Commit\n\nSay why.\n\n",
		"repo/.sluice/skills/fix/SKILL.md":    "---\ndescription: x\n---\nFix $ARGUMENTS, and only $ARGUMENTS.\n",
	})
	list, problems := Find(o)
	if len(list) != 2 || len(problems) > 0 {
		t.Fatal(list, problems)
	}
	at := func(name string) string {
		return "Skill " + name + "; the files that it names are in " + filepath.Join(o.Top, ".sluice/skills", name) + "\n\n"
	}
	commit := at("commit") + "# Commit\n\nSay why."
	for prompt, want := range map[string]string{
		"/commit":                   commit,
		"/commit ":                  commit,
		"/commit only the tests":    commit + "\n\nArguments: only the tests",
		"/commit\nfirst\nsecond\n":  commit + "\n\nArguments: first\nsecond",
		"/fix a bug":                at("fix") + "Fix a bug, and only a bug.",
		"/fix $ARGUMENTS":           at("fix") + "Fix $ARGUMENTS, and only $ARGUMENTS.",
		"/fix":                      at("fix") + "Fix , and only .",
		"":                          "",
		"/":                         "/",
		"commit":                    "commit",
		" /commit":                  " /commit",
		"/comit":                    "/comit",
		"/Commit":                   "/Commit",
		"/commit/now":               "/commit/now",
		"/commit, please":           "/commit, please",
		"/usr/bin/env is a program": "/usr/bin/env is a program",
		"say /commit":               "say /commit",
	} {
		text, used, err := Expand(prompt, list)
		if err != nil || text != want {
			t.Errorf("%q: %q %v, want %q", prompt, text, err, want)
		}
		if (used != nil) != (text != prompt) {
			t.Errorf("%q: used %v", prompt, used)
		}
	}
	if err := os.Remove(list[0].Location); err != nil {
		t.Fatal(err)
	}
	if text, used, err := Expand("/commit now", list); err == nil || used != nil || text != "/commit now" {
		t.Errorf("a skill that is gone: %q %v %v", text, used, err)
	}
	if _, err := (Skill{Name: "x"}).Text(); err == nil {
		t.Error("a skill without a file has a text")
	}
}

func TestOwner(t *testing.T) {
	o := ways(t, map[string]string{
		"repo/lib/linked/SKILL.md":                     about("x"),
		"repo/.sluice/skills/linked":                   " -> ../../lib/linked",
		"repo/.sluice/skills/a/SKILL.md":               about("a"),
		"repo/.sluice/skills/a/.sluice/skills/b/x.txt": "",
		"repo/a/.sluice/skills/a-b/SKILL.md":           about("a-b"),
	})
	list, problems := Find(o)
	if len(list) != 3 || len(problems) > 0 {
		t.Fatal(list, problems)
	}
	for path, want := range map[string]string{
		".sluice/skills/a/SKILL.md":          "a SKILL.md",
		".sluice/skills/a/scripts/run.sh":    "a scripts/run.sh",
		".sluice/skills/linked/x.md":         "linked x.md",
		"lib/linked/x.md":                    "linked x.md",
		"a/.sluice/skills/a-b/x":             "a-b x",
		".sluice/skills/a":                   "",
		".sluice/skills/a-b/x":               "",
		".sluice/skills/ax":                  "",
		".sluice/skills/a/../c":              "",
		".sluice/skills/a/scripts/../../x":   "",
		"lib/other":                          "",
		".sluice/skills/a/..hidden/but/in/a": "a ..hidden/but/in/a",
	} {
		owner, rel, ok := Owner(filepath.Join(o.Top, path), list)
		got := ""
		if ok {
			got = owner.Name + " " + rel
		}
		if got != want || ok != (owner != nil) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	nested := []Skill{{Name: "outer", Dir: "/s/outer"}, {Name: "inner", Dir: "/s/outer/x/inner"}, {Name: "nowhere"}}
	if owner, rel, _ := Owner("/s/outer/x/inner/f", nested); owner != &nested[1] || rel != "f" {
		t.Errorf("one skill in another: %v %s", owner, rel)
	}
	if _, _, ok := Owner(".sluice/skills/a/SKILL.md", list); ok {
		t.Error("a path that is not absolute has an owner")
	}
}
