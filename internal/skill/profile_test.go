package skill

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProfiles(t *testing.T) {
	o := ways(t, map[string]string{
		"repo/.sluice/agents/reviewer.md": `---
name: reviewer
description: reads and judges
model: anthropic/claude-sonnet-5-5
tools: read, grep,glob
ask: [edit]
deny:
  - bash
  - edit(src/{a,b}/**)
color: red
---
You review.

Be short.
`,
		"repo/a/.sluice/agents/reviewer.md":         about("the nearer one"),
		"repo/.sluice/agents/writer.md":             md("description: writes\ntools: [write]\ndeny: bash(rm *), really"),
		"repo/.sluice/agents/README.txt":            "not one",
		"repo/.sluice/agents/folder.md/x":           "not one",
		"home/.config/sluice/agents/mine.md":        md("description: mine\nallow: [bash]\nmodel: script/x.yaml"),
		"repo/.claude/agents/theirs.md":             md("description: of another program, with its own names of tools\ntools: Read, Bash"),
		"repo/.sluice/agents/sub/sub.md":            about("not looked for here"),
		"home/.config/sluice/agents/writer.md":      about("further away"),
		"home/.config/sluice/agents/also/a/file.md": about("deep"),
	})
	list, problems := Profiles(o)
	if len(problems) > 0 {
		t.Error(problems)
	}
	at := func(path string) string { return filepath.Join(filepath.Dir(o.Top), path) }
	want := []Profile{
		{Name: "reviewer", Description: "the nearer one", Prompt: "The text.", Location: at("repo/a/.sluice/agents/reviewer.md")},
		{
			Name: "writer", Description: "writes", Tools: []string{"write"}, Deny: []string{"bash(rm *), really"}, Prompt: "The text.",
			Location: at("repo/.sluice/agents/writer.md"),
		},
		{
			Name: "mine", Description: "mine", Allow: []string{"bash"}, Model: "script/x.yaml", Prompt: "The text.",
			Location: at("home/.config/sluice/agents/mine.md"), Trusted: true,
		},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Error(diff)
	}
	o.Workspace = o.Top
	list, _ = Profiles(o)
	reviewer := Profile{
		Name: "reviewer", Description: "reads and judges", Model: "anthropic/claude-sonnet-5-5", Tools: []string{"read", "grep", "glob"},
		Ask: []string{"edit"}, Deny: []string{"bash", "edit(src/{a,b}/**)"}, Prompt: "You review.\n\nBe short.",
		Location: at("repo/.sluice/agents/reviewer.md"),
	}
	if diff := cmp.Diff(reviewer, list[0]); diff != "" {
		t.Error(diff)
	}
}

// What came with a repository cannot allow itself anything, unless the user trusts it as it is.
func TestProfilesAreNotTrusted(t *testing.T) {
	text := md("description: x\nallow: [bash, edit]\ndeny: [read]\nmodel: script/evil.yaml")
	o := ways(t, map[string]string{"repo/.sluice/agents/x.md": text})
	path := filepath.Join(o.Top, ".sluice/agents/x.md")
	list, problems := Profiles(o)
	if len(list) != 1 || list[0].Trusted || list[0].Allow != nil || list[0].Model != "" || len(list[0].Deny) != 1 {
		t.Errorf("%+v", list)
	}
	want := path + ": it is not trusted, so it cannot say allow and model = script/…: sluice trust " + path
	if len(problems) != 1 || problems[0].Error() != want {
		t.Errorf("%v, want %s", problems, want)
	}
	o.Trusted = func(p string, data []byte) bool { return p == path && string(data) == text }
	list, problems = Profiles(o)
	if len(list) != 1 || !list[0].Trusted || len(list[0].Allow) != 2 || list[0].Model != "script/evil.yaml" || len(problems) != 0 {
		t.Errorf("%+v %v", list, problems)
	}
}

func TestMalformedProfiles(t *testing.T) {
	for text, want := range map[string]string{
		"You are.":                              "it has no frontmatter",
		md("name: x"):                           "it has no description",
		md("description: d\nname: y"):           `it is named y but stands at "x"`,
		md("description: d\ndney: [bash]"):      `there is no key "dney": is deny meant?`,
		md("description: d\nTools: [bash]"):     `there is no key "Tools": is tools meant?`,
		md("description: d\ndeny: {bash: rm}"):  "deny is a text, not a list or a table",
		md("description: d\ndeny: [{a: b}]"):    "deny is a list of texts, and none of them is empty",
		md("description: d\ndeny:"):             "deny is a list of texts, and none of them is empty",
		md("description: d\ntools: read,,edit"): "tools is a list of texts, and none of them is empty",
		md("description: d\nmodel: [a]"):        "model is a text",
		about(strings.Repeat("x", maxProfile)):  "it is larger than 64 KiB",
		" -> ../../../secret.md":                "link that leads out",
	} {
		o := ways(t, map[string]string{"repo/.sluice/agents/x.md": text, "secret.md": about("secret"), "repo/.sluice/agents/good.md": about("good")})
		list, problems := Profiles(o)
		if len(list) != 1 || len(problems) != 1 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%.60q: %v %v, want %s", text, list, problems, want)
		}
	}
}
