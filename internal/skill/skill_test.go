package skill

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// write makes files below a folder: path → text, or link → " -> target".
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			if to, ok := strings.CutPrefix(text, " -> "); ok {
				err = os.Symlink(to, path)
			} else {
				err = os.WriteFile(path, []byte(text), 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// ways is a repository with a workspace in it, and a home.
func ways(t *testing.T, files map[string]string) Options {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"repo/a/b/.keep": "", "home/.keep": ""})
	write(t, dir, files)
	return Options{
		Workspace: filepath.Join(dir, "repo/a/b"), Top: filepath.Join(dir, "repo"),
		Home: filepath.Join(dir, "home"), Config: filepath.Join(dir, "home/.config/sluice"),
	}
}

func md(front string) string { return "---\n" + front + "\n---\n\nThe text.\n" }

func about(what string) string { return md("description: " + what) }

// lines are problems as text, without the folder of the test.
func lines(o Options, problems []error) (list []string) {
	for _, p := range problems {
		list = append(list, strings.ReplaceAll(p.Error(), filepath.Dir(o.Top)+"/", ""))
	}
	return list
}

func TestTheNearestWins(t *testing.T) {
	o := ways(t, map[string]string{
		"repo/a/b/.sluice/skills/one/SKILL.md":        about("b sluice"),
		"repo/a/b/.claude/skills/one/SKILL.md":        about("b claude"),
		"repo/a/b/.claude/skills/two/SKILL.md":        about("b claude"),
		"repo/a/b/.agents/skills/three/SKILL.md":      about("b agents"),
		"repo/a/.sluice/skills/two/SKILL.md":          about("a sluice"),
		"repo/a/.sluice/skills/four/SKILL.md":         about("a sluice"),
		"repo/.sluice/skills/four/SKILL.md":           about("repo sluice"),
		"repo/.agents/skills/five/SKILL.md":           about("repo agents"),
		".sluice/skills/above/SKILL.md":               about("above the repository"),
		"home/.config/sluice/skills/five/SKILL.md":    about("home sluice"),
		"home/.config/sluice/skills/six/SKILL.md":     about("home sluice"),
		"home/.claude/skills/six/SKILL.md":            about("home claude"),
		"home/.claude/skills/seven/SKILL.md":          about("home claude"),
		"home/.agents/skills/eight/SKILL.md":          about("home agents"),
		"home/.sluice/skills/nowhere/SKILL.md":        about("home of no program"),
		"repo/.agents/skills/README.md":               "what these are",
		"repo/.agents/skills/shared/helper.sh":        "a folder that is no skill",
		"repo/.agents/skills/.cache/SKILL.md":         "hidden",
		"repo/a/b/c/.sluice/skills/deeper/SKILL.md":   about("below the workspace"),
		"repo/other/.sluice/skills/sideways/SKILL.md": about("beside the workspace"),
	})
	list, problems := Find(o)
	if len(problems) > 0 {
		t.Error(problems)
	}
	got := map[string]string{}
	for _, s := range list {
		got[s.Name] = s.Description
		if s.Location != filepath.Join(s.Dir, "SKILL.md") || filepath.Base(s.Dir) != s.Name {
			t.Errorf("%s is at %s, in %s", s.Name, s.Location, s.Dir)
		}
	}
	want := map[string]string{
		"one": "b sluice", "two": "b claude", "three": "b agents", "four": "a sluice", "five": "repo agents",
		"six": "home sluice", "seven": "home claude", "eight": "home agents",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	o.Top = "" // no repository: only the workspace, and the user's own
	if list, _ = Find(o); len(list) != 7 {
		t.Errorf("without a repository: %v", list)
	}
	if list, problems = Find(Options{}); len(list)+len(problems) > 0 {
		t.Errorf("nowhere: %v %v", list, problems)
	}
}

func TestFront(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Skill
	}{
		{md("name: x\ndescription: what\nversion: 1.10"), Skill{Description: "what", Version: "1.10"}},
		{md("description: what\nmetadata: {version: '2.0', author: me}"), Skill{
			Description: "what", Version: "2.0", More: map[string]any{"metadata": map[string]any{"version": "2.0", "author": "me"}},
		}},
		{md("description: >\n  over\n  two lines\nallowed-tools: [Read, Bash]\nlicense: MIT"), Skill{
			Description: "over two lines", More: map[string]any{"allowed-tools": []any{"Read", "Bash"}, "license": "MIT"},
		}},
		{md("description: 'a: b'"), Skill{Description: "a: b"}},
		{md("description: true"), Skill{Description: "true"}},
		{"\uFEFF---\r\ndescription: windows\r\n---\r\nText.\r\n", Skill{Description: "windows"}},
		{"--- \n# a comment\ndescription: what # this\n--- \n", Skill{Description: "what"}},
		{md("description: " + strings.Repeat("ä", 2000)), Skill{Description: strings.Repeat("ä", maxDescription-1) + "…"}},
	} {
		o := ways(t, map[string]string{"repo/.sluice/skills/x/SKILL.md": tt.text})
		list, problems := Find(o)
		if len(list) != 1 || len(problems) != 0 {
			t.Errorf("%q: %v %v", tt.text, list, problems)
			continue
		}
		tt.want.Name = "x"
		if diff := cmp.Diff(tt.want, list[0], cmpopts.IgnoreUnexported(Skill{}), cmpopts.IgnoreFields(Skill{}, "Dir", "Location")); diff != "" {
			t.Errorf("%q: %s", tt.text, diff)
		}
	}
}

func TestMalformed(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "it has no frontmatter: its first line must be ---",
		"# A title\n---\ndescription: x\n---": "it has no frontmatter",
		"---\ndescription: x\n":               "its frontmatter has no end",
		"---\n" + strings.Repeat("x: 1\n", 9000) + "---\n": "its frontmatter has no end",
		md(""):                               "it has no description",
		md("# nothing"):                      "it has no description",
		md("description:"):                   "it has no description",
		md("description: ~"):                 "it has no description",
		md("description: ''"):                "it has no description",
		md("description: [a, b]"):            "description is a text, not a list or a table",
		md("- a\n- b"):                       "its frontmatter is not a list of keys and values",
		md("just words"):                     "its frontmatter is not a list of keys and values",
		md("description: use when: asked"):   "line 2 of its frontmatter is not YAML",
		md("name: x\ndescription: [a"):       "of its frontmatter is not YAML",
		md("\tdescription: x"):               "of its frontmatter is not YAML",
		md("description: x\ndescription: y"): "line 3 of its frontmatter is not YAML",
		md("description: x\nl: " + strings.Repeat("[", 300)): "its frontmatter has too many parts",
		md("description: x" + strings.Repeat("\n", 300)):     "its frontmatter has too many parts",
		md("description: x\nname: other"):                    `it is named other but stands at "x": they must be the same`,
		md("description: x\nname: ../x"):                     `the name "../x" is not one`,
		md("description: x\nname: X"):                        `the name "X" is not one`,
		md("description: x\nname: {a: b}"):                   "name is a text",
		md("description: x\na: &a [1]\nb: *a"):               "its frontmatter has an alias",
		md("description: x\na: &a {}\nb: {<<: *a}"):          "its frontmatter has an alias",
		md("description: x") + strings.Repeat("x", maxFile):  "it is larger than 256 KiB",
	} {
		o := ways(t, map[string]string{"repo/.sluice/skills/x/SKILL.md": text, "repo/.sluice/skills/good/SKILL.md": about("the next one")})
		list, problems := Find(o)
		if len(list) != 1 || list[0].Name != "good" {
			t.Errorf("%.60q: found %v", text, list)
		}
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), filepath.Join(o.Top, ".sluice/skills/x/SKILL.md")+": ") || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%.60q: %v, want %s", text, problems, want)
		}
		for _, p := range problems {
			if strings.ContainsAny(p.Error(), "\n\r\x1b") || len(p.Error()) > 600 {
				t.Errorf("%.60q: not one short line: %q", text, p)
			}
		}
	}
}

func TestNamesOfFolders(t *testing.T) {
	o := ways(t, nil)
	for _, name := range []string{"Big", "a b", "a\nb", "a_b", strings.Repeat("a", 65)} {
		write(t, o.Top, map[string]string{filepath.Join(".sluice/skills", name, "SKILL.md"): about("x")})
	}
	list, problems := Find(o)
	if len(list) != 0 || len(problems) != 5 {
		t.Errorf("%v %v", list, problems)
	}
	for _, p := range problems {
		if strings.Contains(p.Error(), "\n") || !strings.Contains(p.Error(), "is not one") {
			t.Errorf("%q", p)
		}
	}
}

// Links may lead to other places of the repository, and nowhere else.
func TestLinks(t *testing.T) {
	o := ways(t, map[string]string{
		"secret/SKILL.md":                        about("not to be read"),
		"repo/lib/good/SKILL.md":                 about("linked"),
		"repo/.claude/skills":                    " -> ../.sluice/skills",
		"repo/.sluice/skills/good":               " -> ../../lib/good",
		"repo/.sluice/skills/plain/SKILL.md":     " -> ../../../lib/plain.md",
		"repo/lib/plain.md":                      about("a linked file"),
		"repo/.sluice/skills/up":                 " -> ../../../secret",
		"repo/.sluice/skills/file/SKILL.md":      " -> ../../../../secret/SKILL.md",
		"repo/.sluice/skills/gone":               " -> nowhere",
		"repo/.sluice/skills/torn/SKILL.md":      " -> nowhere",
		"repo/.sluice/skills/round":              " -> round",
		"repo/.agents/skills":                    " -> ../../secret",
		"repo/a/.agents":                         " -> ../../secret",
		"repo/a/.sluice/skills":                  "not a folder",
		"repo/a/b/.sluice/skills/dir/SKILL.md/x": "a folder where a file should be",
	})
	write(t, o.Top, map[string]string{".sluice/skills/whole": " -> " + filepath.Join(filepath.Dir(o.Top), "secret")})
	list, problems := Find(o)
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
		if _, err := s.Text(); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"good", "plain"}, names); diff != "" {
		t.Error(diff)
	}
	out := "it is reached by a link that leads out of its place"
	want := []string{
		"repo/a/b/.sluice/skills/dir/SKILL.md: it is a folder, not a file",
		"repo/a/.sluice/skills: it is not a folder",
		"repo/a/.agents/skills: " + out,
		"repo/.sluice/skills/file/SKILL.md: " + out,
		"repo/.sluice/skills/gone/SKILL.md: its folder is a link that leads nowhere",
		"repo/.sluice/skills/round/SKILL.md: too many levels of symbolic links",
		"repo/.sluice/skills/torn/SKILL.md: it is a link that leads nowhere",
		"repo/.sluice/skills/up/SKILL.md: " + out,
		"repo/.sluice/skills/whole/SKILL.md: " + out,
		"repo/.agents/skills: " + out,
	}
	if diff := cmp.Diff(want, lines(o, problems)); diff != "" {
		t.Error(diff)
	}
}

// Installers keep the files in one of the user's folders and links to them in the others.
func TestLinksAtHome(t *testing.T) {
	o := ways(t, map[string]string{
		"home/.agents/skills/kept/SKILL.md": about("kept"),
		"home/.claude/skills/kept":          " -> ../../.agents/skills/kept",
		"home/.claude/skills/out":           " -> ../../documents",
		"home/documents/SKILL.md":           about("private"),
		"elsewhere/skills/moved/SKILL.md":   about("moved"),
		"home/.config/sluice/skills":        " -> ../../../elsewhere/skills",
		"elsewhere/skills/back":             " -> ../../home/documents",
	})
	list, problems := Find(o)
	got := map[string]string{}
	for _, s := range list {
		got[s.Name], _ = filepath.Rel(filepath.Dir(o.Top), s.Dir)
	}
	if diff := cmp.Diff(map[string]string{"kept": "home/.agents/skills/kept", "moved": "home/.config/sluice/skills/moved"}, got); diff != "" {
		t.Error(diff)
	}
	want := []string{
		"home/.config/sluice/skills/back/SKILL.md: it is reached by a link that leads out of its place",
		"home/.claude/skills/out/SKILL.md: it is reached by a link that leads out of its place",
	}
	if diff := cmp.Diff(want, lines(o, problems)); diff != "" {
		t.Error(diff)
	}
}

// A link that is put in a skill's place after it was found is not followed when it is called.
func TestSwappedInBetween(t *testing.T) {
	o := ways(t, map[string]string{
		"secret/SKILL.md":                 md("description: x") + "secret",
		"repo/.sluice/skills/x/SKILL.md":  about("x"),
		"repo/.sluice/skills/y/SKILL.md":  about("y"),
		"repo/.sluice/skills/z/SKILL.md":  about("z"),
		"repo/.sluice/skills/ok/SKILL.md": about("ok"),
	})
	list, problems := Find(o)
	if len(list) != 4 || len(problems) != 0 {
		t.Fatal(list, problems)
	}
	skills := filepath.Join(o.Top, ".sluice/skills")
	for _, err := range []error{
		os.RemoveAll(filepath.Join(skills, "x")),
		os.Symlink("../../../secret", filepath.Join(skills, "x")),
		os.Remove(filepath.Join(skills, "y/SKILL.md")),
		os.Symlink("../../../../secret/SKILL.md", filepath.Join(skills, "y/SKILL.md")),
		os.WriteFile(filepath.Join(skills, "z/SKILL.md"), make([]byte, maxFile+1), 0o600),
		os.WriteFile(filepath.Join(skills, "ok/SKILL.md"), []byte(md("description: other")), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range list {
		text, err := s.Text()
		if good := s.Name == "ok"; good != (err == nil) || good != (text == "The text.") {
			t.Errorf("%s: %q %v", s.Name, text, err)
		}
	}
}

// What a repository has too much of does not cost the user's own skills.
func TestBounds(t *testing.T) {
	o := ways(t, map[string]string{"home/.claude/skills/mine/SKILL.md": about("mine")})
	for i := range maxSkills + 5 {
		write(t, o.Top, map[string]string{fmt.Sprintf(".sluice/skills/s%03d/SKILL.md", i): about("x")})
	}
	list, problems := Find(o)
	if len(list) != maxSkills+1 || list[maxSkills].Name != "mine" || len(problems) != 1 {
		t.Errorf("%d skills, %v", len(list), problems)
	}
	for i := range maxLooks + 1 {
		if err := os.Mkdir(filepath.Join(o.Top, fmt.Sprintf(".sluice/skills/n%04d", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	list, problems = Find(o)
	if len(list) == 0 || list[len(list)-1].Name != "mine" || len(problems) == 0 || !strings.Contains(problems[0].Error(), "too much to look at") {
		t.Errorf("%d skills, %v", len(list), problems)
	}
}

func FuzzFront(f *testing.F) {
	f.Add(md("name: x\ndescription: y\nversion: 1"))
	f.Add(md("a: &a [*a]\n? b\n: c\n!!x d: |\n  e"))
	f.Add(md("a: {b: [c, {d: \"e\\u00e4\"}]}\n<<: {}"))
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxFront {
			return
		}
		front, err := readFront([]byte(text))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		front.text("name")
		front.list("tools", ",")
		front.others()
		if front.err != nil && strings.Contains(front.err.Error(), "\n") {
			t.Errorf("not one line: %q", front.err)
		}
	})
}

// While somebody swaps the file for a link, nothing is read through the link.
func TestSwappedWhileReading(t *testing.T) {
	o := ways(t, map[string]string{
		"secret/SKILL.md":                md("description: secret") + "secret",
		"repo/.sluice/skills/x/SKILL.md": about("x"),
	})
	list, problems := Find(o)
	if len(list) != 1 || len(problems) > 0 {
		t.Fatal(list, problems)
	}
	good, link := filepath.Join(o.Top, "good"), filepath.Join(o.Top, "link")
	done := make(chan struct{})
	swapped := make(chan error, 1)
	go func() {
		for {
			err := os.Symlink("../../../../secret/SKILL.md", link)
			if err == nil {
				err = os.Rename(link, list[0].Location)
			}
			if err == nil {
				err = os.WriteFile(good, []byte(about("x")), 0o600)
			}
			if err == nil {
				err = os.Rename(good, list[0].Location)
			}
			select {
			case <-done:
				swapped <- err
				return
			default:
			}
			if err != nil {
				swapped <- err
				return
			}
		}
	}()
	read, refused := 0, 0
	for i := 0; i < 20000 && (i < 300 || read == 0 || refused == 0); i++ {
		text, err := list[0].Text()
		if strings.Contains(text, "secret") {
			t.Fatal("it was read through the link")
		}
		if err == nil {
			read++
		} else {
			refused++
		}
		if again, _ := Find(o); len(again) == 1 && again[0].Description != "x" {
			t.Fatalf("it was found through the link: %v", again)
		}
	}
	close(done)
	if err := <-swapped; err != nil {
		t.Fatal(err)
	}
	if read == 0 || refused == 0 {
		t.Errorf("nothing was swapped: %d read, %d refused", read, refused)
	}
}
