package git

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluice-dev/sluice/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A repo is a work tree for one test.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T, files map[string]string) repo {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir) // no settings of the one who runs the test
	t.Setenv("XDG_CONFIG_HOME", dir)
	r := repo{t, filepath.Join(dir, "repo")}
	os.Mkdir(r.dir, 0o755)
	r.git("init", "-q", "-b", "main")
	r.git("config", "user.name", "a")
	r.git("config", "user.email", "a@example.com")
	if files != nil {
		for name, text := range files {
			r.put(name, text)
		}
		r.git("add", "-A")
		r.git("commit", "-q", "-m", "first")
	}
	return r
}

func (r repo) git(args ...string) string {
	r.t.Helper()
	c := exec.Command("git", args...)
	c.Dir = r.dir
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r repo) put(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	os.MkdirAll(filepath.Dir(path), 0o755)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r repo) snapshot() *State {
	r.t.Helper()
	s, err := Snapshot(r.t.Context(), r.dir)
	if err != nil || s == nil {
		r.t.Fatal(s, err)
	}
	return s
}

func (r repo) expect(s *State, want event.Changes) {
	r.t.Helper()
	got, err := s.Changes(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if !cmp.Equal(*got, want) {
		r.t.Error(cmp.Diff(want, *got))
	}
}

func TestChanges(t *testing.T) {
	r := newRepo(t, map[string]string{
		".gitignore": "*.out\n", "same": "a\n", "edited": "a\nb\nc\n", "removed": "x\ny\n", "touched": "t\n", "committed": "1\n2\n", "ünï cödé": "u\n",
		"dirty before": "d\n", "dirty and edited": "d\n", "dirty and committed": "d\n", "mode": "m\n", "bin": "a\x00b\n", "to link": "l\n", "moved": "m\n1\n",
	})
	r.put("dirty before", "D\n")
	r.put("dirty and edited", "D\nD\n")
	r.put("dirty and committed", "D\n")
	r.put("untracked before", "u\n")
	r.put("untracked and edited", "u\n")
	r.put("untracked and added", "u\n")
	base := r.git("rev-parse", "HEAD")
	s := r.snapshot()
	r.expect(s, event.Changes{Base: base})

	r.put("edited", "a\nB\nc\nd\n")
	os.Remove(filepath.Join(r.dir, "removed"))
	os.Chtimes(filepath.Join(r.dir, "touched"), time.Now(), time.Now().Add(time.Hour))
	r.put("committed", "1\n2\n3\n")
	r.put("ünï cödé", "ü\n")
	r.put("dirty and edited", "D\nE\n")
	os.Chmod(filepath.Join(r.dir, "mode"), 0o755)
	r.put("bin", "a\x00c\n")
	os.Remove(filepath.Join(r.dir, "to link"))
	os.Symlink("same", filepath.Join(r.dir, "to link"))
	r.put("untracked and edited", "v\n")
	r.put("new/file", "n\nn\n")
	r.put("new/added", "n\n")
	r.put("build.out", "ignored\n")
	r.git("mv", "moved", "moved there")
	r.git("add", "committed", "dirty and committed", "untracked and added", "new/added")
	r.git("commit", "-q", "-m", "second")

	r.expect(s, event.Changes{
		Base: base,
		Files: []string{
			"bin", "committed", "dirty and edited", "edited", "mode", "moved", "moved there", "new/added", "removed", "to link", "ünï cödé",
		},
		Untracked: []string{"new/file", "untracked and edited"},
		//     committed, dirty, edited, moved there, new/added, to link, ünï, new/file, untracked
		Added: 1 + 1 + 2 + 2 + 1 + 1 + 1 + 2 + 1,
		//     dirty, edited, moved, removed, to link, ünï, untracked
		Removed: 1 + 1 + 2 + 2 + 1 + 1 + 1,
	})
}

func TestUntouchedAfterCommitAndCheckout(t *testing.T) {
	r := newRepo(t, map[string]string{"a": "a\n"})
	r.put("a", "b\n")
	s := r.snapshot()
	r.git("commit", "-q", "-a", "-m", "as it was")
	r.expect(s, event.Changes{Base: s.base})
	r.put("a", "c\n")
	r.put("a", "b\n")
	r.expect(s, event.Changes{Base: s.base})
}

func TestBeforeTheFirstCommit(t *testing.T) {
	r := newRepo(t, nil)
	r.put("staged", "s\n")
	r.git("add", "staged")
	s := r.snapshot()
	r.put("staged", "t\n")
	r.put("new", "n\n")
	r.expect(s, event.Changes{Files: []string{"staged"}, Untracked: []string{"new"}, Added: 2, Removed: 1})
}

func TestFromASubfolderAndAWorktree(t *testing.T) {
	r := newRepo(t, map[string]string{"sub/a": "a\n", "b": "b\n"})
	s, err := Snapshot(t.Context(), filepath.Join(r.dir, "sub"))
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	r.put("sub/a", "A\n")
	r.put("b", "B\n")
	r.expect(s, event.Changes{Base: s.base, Files: []string{"b", "sub/a"}, Added: 2, Removed: 2})

	tree := filepath.Join(filepath.Dir(r.dir), "tree")
	r.git("worktree", "add", "-q", "-b", "other", tree)
	w := repo{t, tree}
	s = w.snapshot()
	w.put("b", "other\n")
	w.expect(s, event.Changes{Base: s.base, Files: []string{"b"}, Added: 1, Removed: 1})
}

func TestNone(t *testing.T) {
	s, err := Snapshot(t.Context(), t.TempDir())
	if s != nil || err != nil {
		t.Errorf("%v %v", s, err)
	}
	if c, err := s.Changes(t.Context()); c != nil || err != nil {
		t.Errorf("%v %v", c, err)
	}
	r := newRepo(t, map[string]string{"a": "a\n"})
	t.Setenv("PATH", t.TempDir())
	if s, err := Snapshot(t.Context(), r.dir); s != nil || err != nil {
		t.Errorf("without git: %v %v", s, err)
	}
}

// hostile makes a repository whose settings run a program wherever git lets them, and returns the file that would then be there.
func hostile(t *testing.T, r repo) string {
	t.Helper()
	proof := filepath.Join(filepath.Dir(r.dir), "it-ran")
	evil := filepath.Join(filepath.Dir(r.dir), "evil")
	if err := os.WriteFile(evil, fmt.Appendf(nil, "#!/bin/sh\necho \"$0 $*\" >> '%s'\ncat\n", proof), 0o755); err != nil {
		t.Fatal(err)
	}
	hooks := filepath.Join(r.dir, ".git", "hooks")
	os.MkdirAll(hooks, 0o755)
	for _, h := range []string{"post-index-change", "pre-commit", "reference-transaction", "fsmonitor-watchman"} {
		os.WriteFile(filepath.Join(hooks, h), fmt.Appendf(nil, "#!/bin/sh\necho hook >> '%s'\n", proof), 0o755)
	}
	for key, value := range map[string]string{
		"core.fsmonitor": evil, "filter.evil.clean": evil, "filter.evil.smudge": evil, "filter.evil.process": evil, "filter.evil.required": "true",
		"diff.evil.textconv": evil, "diff.evil.command": evil, "diff.external": evil, "core.pager": evil, "core.editor": evil, "core.sshCommand": evil,
		"core.alternateRefsCommand": evil, "credential.helper": evil, "alias.ls-files": "!" + evil, "core.untrackedCache": "true", "pager.ls-files": "true",
	} {
		r.git("config", key, value)
	}
	return proof
}

func TestHostileRepository(t *testing.T) {
	r := newRepo(t, map[string]string{".gitattributes": "* filter=evil diff=evil\n", "a": "a\n", "b": "b\n"})
	proof := hostile(t, r)
	// The same size and another time: git itself would now have to look into the file.
	r.put("a", "x\n")
	os.Chtimes(filepath.Join(r.dir, "b"), time.Now(), time.Now().Add(time.Minute))
	s := r.snapshot()
	r.put("a", "y\n")
	r.put("b", "z\n")
	r.put("new", "n\n")
	r.expect(s, event.Changes{Base: s.base, Files: []string{"a", "b"}, Untracked: []string{"new"}, Added: 3, Removed: 2})
	if data, err := os.ReadFile(proof); err == nil {
		t.Errorf("code of the repository ran:\n%s", data)
	}
	// The trap is one: git falls into it if it is asked as usual.
	c := exec.Command("git", "status", "--porcelain")
	c.Dir = r.dir
	c.Run()
	if _, err := os.Stat(proof); err != nil {
		t.Error("the settings are harmless: this test shows nothing")
	}
}

// A repository may say that its work tree is elsewhere.
func TestHostileWorkTree(t *testing.T) {
	r := newRepo(t, map[string]string{"a": "a\n"})
	r.git("config", "core.worktree", "/etc")
	s, err := Snapshot(t.Context(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	r.put("a", "b\n")
	r.put("new", "n\n")
	r.expect(s, event.Changes{Base: s.base, Files: []string{"a"}, Untracked: []string{"new"}, Added: 2, Removed: 1})
}

func TestOddFiles(t *testing.T) {
	r := newRepo(t, map[string]string{"a": "a\n", "b/c": "c\n", "d": "d\n"})
	s := r.snapshot()
	os.Remove(filepath.Join(r.dir, "a"))
	if out, err := exec.Command("mkfifo", filepath.Join(r.dir, "a"), filepath.Join(r.dir, "fifo")).CombinedOutput(); err != nil {
		t.Skipf("mkfifo: %s", out)
	}
	// A folder that is now a link out of the work tree.
	os.RemoveAll(filepath.Join(r.dir, "b"))
	os.Symlink("/etc", filepath.Join(r.dir, "b"))
	// A file that is now a folder.
	os.Remove(filepath.Join(r.dir, "d"))
	r.put("d/e", "e\n")
	got, err := s.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b/c", "d"}; !cmp.Equal(got.Files, want) {
		t.Errorf("files %q", got.Files)
	}
	if want := []string{"b", "d/e"}; !cmp.Equal(got.Untracked, want) {
		t.Errorf("untracked %q", got.Untracked)
	}
}

func TestBounds(t *testing.T) {
	r := newRepo(t, map[string]string{"a": "a\n"})
	s := r.snapshot()
	for i := range mostFiles + 3 {
		r.put(fmt.Sprintf("f/%04d", i), "x\n")
	}
	got, err := s.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Untracked) != mostFiles+1 || got.Untracked[mostFiles] != "… and 3 more" || got.Added != mostFiles+3 {
		t.Errorf("%d files, the last %q, %d lines", len(got.Untracked), got.Untracked[len(got.Untracked)-1], got.Added)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Snapshot(ctx, r.dir); err == nil {
		t.Error("a snapshot after its end")
	}
	if _, err := s.Changes(ctx); err == nil {
		t.Error("changes after their end")
	}
}

func TestParseIndex(t *testing.T) {
	for _, bad := range []string{"x", "100644 abc 0 a\x00", "100644 abc\ta\x00", "100644 abc 0\ta"} {
		if files, err := parseIndex([]byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, files)
		}
	}
	if files, err := parseIndex(nil); err != nil || len(files) != 0 {
		t.Errorf("%v %v", files, err)
	}
}
