package gate

import (
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/event"
)

// lines reads a corpus: one command a line, # for comments, a Go string where it is in double quotes as a whole.
func lines(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		if s, err := strconv.Unquote(line); err == nil && strings.HasPrefix(line, `"`) {
			line = s
		}
		out = append(out, line)
	}
	return out
}

// workspace resolves paths as if the workspace were /home/me/work, with a link to / in it.
func workspace(p string) (string, bool) {
	if !strings.HasPrefix(p, "/") {
		p = "/home/me/work/" + p
	}
	p = path.Clean(p)
	if rest, ok := strings.CutPrefix(p, "/home/me/work/link"); ok && (rest == "" || rest[0] == '/') {
		p = path.Clean("/" + rest)
	}
	if p == "/home/me/work" {
		return ".", false
	}
	if rest, ok := strings.CutPrefix(p, "/home/me/work/"); ok {
		return rest, false
	}
	return p, true
}

func rules(t *testing.T, action string, texts ...string) (list []event.Rule) {
	t.Helper()
	for _, s := range texts {
		r, err := ParseRule(action, s)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

func TestHostileCommandsDoNotPass(t *testing.T) {
	p := Policy{Rules: append(Defaults(FaceNative), rules(t, Allow, "bash(git *)", "bash(ls *)", "bash(echo *)", "bash(find *)")...)}
	for _, c := range lines(t, "testdata/hostile.txt") {
		if d := p.Decide(Command(c, workspace)); d.Action == Allow {
			t.Errorf("%q passes: %+v", c, Command(c, workspace))
		}
	}
}

func TestHonestCommandsPass(t *testing.T) {
	p := Policy{Rules: append(Defaults(FaceNative), rules(t, Allow, "bash(git *)", "bash(ls *)")...)}
	for _, c := range lines(t, "testdata/honest.txt") {
		if d := p.Decide(Command(c, workspace)); d.Action != Allow {
			t.Errorf("%q does not pass: %s", c, d.Reason)
		}
	}
}
