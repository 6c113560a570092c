package tool

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/internal/pattern"
	"github.com/sluice-dev/sluice/internal/proc"
)

const (
	rgTime   = 30 * time.Second // that it may take, before we look ourselves
	rgNames  = 8 << 20          // bytes of names
	rgMemory = 1 << 30          // it keeps a line in memory, and a line may be as long as somebody wants
)

// ripgrep says where to look: it names the files of a folder that may hold a match, many times as fast as we find them. It has
// no other part in a search. The files are found again, opened, matched and shown by our own search, which then passes all
// others by. So the result is the same with it and without it, and it leads nowhere: a link that is put in its way can make it
// read what it should not, and nothing of that is seen.
//
// For this it must name every file that our own search would find something in, and may name more. It is asked so that it
// does: see [rustExpression]. It ignores less than we do: only .gitignore files in the folder and below count for it. But
// some rules mean more to it than to git: {a,b} is a or b, and a .gitignore that is a link is followed. If the folder itself
// has such rules, ripgrep is not asked. If a folder below has, what only ripgrep ignores is not found: that is the one
// difference, and to rule it out would cost as much as the search.
type ripgrep struct {
	path  string // empty: there is none
	group *proc.Group
}

// findRipgrep looks for it in PATH. One that is in the workspace is not ours to run: whoever wrote the repository wrote it.
func findRipgrep(w *Workspace, g *proc.Group) ripgrep {
	path, err := exec.LookPath("rg")
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return ripgrep{}
	}
	for _, p := range []string{path, linkless(path)} {
		if _, inside := below(w.base, p); inside {
			return ripgrep{}
		}
	}
	return ripgrep{path, g}
}

// linkless is where a path leads, or the path.
func linkless(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}

// A hint is paths of files to look into and of the folders above them, from where the search begins. Nil: look everywhere.
type hint map[string]bool

func (h hint) has(rel string) bool { return h == nil || h[rel] }

// hint asks ripgrep where to look. If there is none, or it fails, or the pattern cannot be put to it, it knows nothing.
func (g ripgrep) hint(ctx context.Context, dir *os.Root, p place, s *search) hint {
	tree, err := syntax.Parse(s.re.String(), syntax.Perl)
	if g.path == "" || err != nil {
		return nil
	}
	expression, ok := rustExpression(tree)
	if !ok || !plainRules(dir) {
		return nil
	}
	at, err := dir.Open(".")
	if err != nil {
		return nil
	}
	defer at.Close()
	args := []string{g.path, "--no-config", "--files-with-matches", "--null", "--no-messages", "--color=never",
		"--hidden", "--no-follow", "--no-require-git", "--no-ignore-parent", "--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot",
		"--binary", "--encoding=none", "--no-mmap", "--case-sensitive", "--glob=!.git"}
	if plainGlob(s.glob) {
		args = append(args, "--glob="+s.glob)
	}
	args = append(args, "--regexp="+expression, "--", ".")

	ctx, cancel := context.WithTimeout(ctx, rgTime)
	defer cancel()
	out := &limited{cancel: cancel}
	process, err := g.group.Start(proc.Cmd{Args: args, Dir: folderPath(at, p.real), Stdout: out})
	if err != nil {
		return nil
	}
	limitMemory(process.Pid(), rgMemory)
	select {
	case <-process.Done():
	case <-ctx.Done():
		end(process)
		return nil
	}
	// 1 is "nothing found". 2 may be a folder that cannot be read, or an expression that it does not take.
	if e := process.Wait(); e.Err != nil || e.Code != 0 && e.Code != 1 || ctx.Err() != nil {
		return nil
	}
	return readHint(out.text.Bytes())
}

func readHint(names []byte) hint {
	h := hint{}
	for name := range bytes.SplitSeq(names, []byte{0}) {
		rel := strings.TrimPrefix(filepath.ToSlash(string(name)), "./")
		for rel != "" && !h[rel] {
			h[rel] = true
			rel = rel[:max(strings.LastIndexByte(rel, '/'), 0)]
		}
	}
	return h
}

// plainRules says whether the .gitignore of a folder means the same to everybody.
func plainRules(dir *os.Root) bool {
	if info, err := dir.Lstat(".gitignore"); err == nil && !info.Mode().IsRegular() {
		return false
	}
	for line := range strings.Lines(readSmall(dir, ".gitignore")) {
		rule := strings.TrimRight(line, "\r\n")
		if !strings.HasPrefix(rule, "#") && (strings.ContainsAny(plainClass().ReplaceAllString(rule, ""), `\{}[]`) || strings.TrimSpace(rule) != rule) {
			return false
		}
	}
	return true
}

var plainClass = pattern.Lazy(`\[[A-Za-z0-9]+(-[A-Za-z0-9]+)*\]`)

// plainGlob says whether a glob means the same to everybody.
func plainGlob(glob string) bool {
	return glob != "" && strings.Trim(glob, "*._-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" && !strings.Contains(glob, "**")
}

// A limited writer takes so much and no more.
type limited struct {
	text   bytes.Buffer
	cancel func()
}

func (l *limited) Write(p []byte) (int, error) {
	if l.text.Len()+len(p) > rgNames {
		l.cancel() // nearly every file matches: our own search will soon have enough
		return 0, io.ErrShortWrite
	}
	return l.text.Write(p)
}
