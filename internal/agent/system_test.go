package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestInstructions(t *testing.T) {
	home, out := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("HOME", home)
	top := t.TempDir()
	deep := filepath.Join(top, "a", "b")
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(top, ".git", "HEAD"), "ref")
	put(filepath.Join(home, "sluice", "AGENTS.md"), "mine")
	put(filepath.Join(top, "AGENTS.md"), "top")
	put(filepath.Join(top, "CLAUDE.md"), "not read beside AGENTS.md")
	put(filepath.Join(deep, "CLAUDE.md"), "deep \xff")
	put(filepath.Join(out, "secret"), "secret")
	// A repository may not make us send what is not in it.
	if err := os.Symlink(filepath.Join(out, "secret"), filepath.Join(top, "a", "AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	want := []Instruction{{"~/AGENTS.md", "mine"}, {"AGENTS.md", "top"}, {"a/b/CLAUDE.md", "deep \uFFFD"}}
	if diff := cmp.Diff(want, Instructions(deep)); diff != "" {
		t.Error(diff)
	}
	// Above the repository's top nothing is read.
	if got := Instructions(filepath.Join(out)); len(got) != 1 {
		t.Errorf("%v", got)
	}
	system := System(deep, time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC))
	for _, part := range []string{"Workspace: " + deep, "Date: 2026-11-15", "<instructions from=\"AGENTS.md\">\ntop\n</instructions>"} {
		if !strings.Contains(system, part) {
			t.Errorf("%q is not in\n%s", part, system)
		}
	}
	if strings.Contains(system, "secret\n") {
		t.Error("what a link led to is told")
	}
}

func TestAttach(t *testing.T) {
	dir := t.TempDir()
	text, image, folder := filepath.Join(dir, "a.txt"), filepath.Join(dir, "b.gif"), filepath.Join(dir, "c")
	os.WriteFile(text, []byte("words"), 0o600)
	os.WriteFile(image, []byte("GIF89a\x01\x00"), 0o600)
	os.Mkdir(folder, 0o700)
	if a, err := Attach(text); err != nil || a.Text != "words" || a.Type != "text/plain" || a.Data != "" {
		t.Error(a, err)
	}
	if a, err := Attach(image); err != nil || a.Type != "image/gif" || a.Data == "" || a.Text != "" {
		t.Error(a, err)
	}
	for _, bad := range []string{folder, filepath.Join(dir, "none"), os.DevNull} {
		if _, err := Attach(bad); err == nil {
			t.Errorf("%s was attached", bad)
		}
	}
}
