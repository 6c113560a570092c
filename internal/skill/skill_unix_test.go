//go:build unix

package skill

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Nobody is at the other end of these pipes: whoever opens one as if it were a file waits for ever.
func TestPipes(t *testing.T) {
	o := ways(t, map[string]string{"repo/.sluice/skills/x/.keep": ""})
	if err := os.Mkdir(filepath.Join(o.Top, ".claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".sluice/skills/x/SKILL.md", ".claude/skills", ".sluice/skills/y"} {
		if err := syscall.Mkfifo(filepath.Join(o.Top, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, problems := Find(o)
	want := []string{
		"repo/.sluice/skills/x/SKILL.md: it is not a plain file",
		"repo/.sluice/skills/y/SKILL.md: not a directory",
		"repo/.claude/skills: it is not a folder",
	}
	if diff := cmp.Diff(want, lines(o, problems)); diff != "" || len(list) > 0 {
		t.Error(list, diff)
	}
}
