package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/internal/proc"
)

// A reader asks git, and reads files of the work tree.
type reader struct {
	top   string
	root  *os.Root
	group proc.Group
	since time.Time
	kept  int // bytes of text
}

func newReader(top string) (*reader, error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	return &reader{top: top, root: root, group: proc.Group{Grace: -1}, since: time.Now()}, nil
}

func (r *reader) close() {
	r.group.Close()
	r.root.Close()
}

// harmless are settings under which git runs nothing that the repository names.
var harmless = []string{
	"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat", "-c", "core.sshCommand=false", "-c", "core.askPass=",
	"-c", "diff.external=", "-c", "protocol.allow=never", "-c", "credential.helper=", "-c", "core.quotePath=false",
}

// environment has what git needs to find its user's settings, and nothing that points it to another repository.
func (r *reader) environment() []string {
	env := []string{
		"GIT_WORK_TREE=" + r.top, // whatever core.worktree says
		"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_PAGER=cat", "LC_ALL=C",
	}
	for _, name := range []string{"PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "SystemRoot", "USERPROFILE"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// maxAnswer bounds what git may say: names of some hundred thousand files.
const maxAnswer = 128 << 20

// ask runs git and returns what it says.
func (r *reader) ask(ctx context.Context, stdin string, args ...string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out, problem answer
	c := proc.Cmd{Args: append(append([]string{"git", "-C", r.top}, harmless...), args...), Env: r.environment(), Stdout: &out, Stderr: &problem}
	if stdin != "" {
		c.Stdin = strings.NewReader(stdin)
	}
	p, err := r.group.Start(c)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		return nil, ctx.Err()
	}
	if e := p.Wait(); e.Code != 0 {
		first, _, _ := strings.Cut(strings.TrimSpace(problem.String()), "\n")
		return nil, fmt.Errorf("%s: %v: %s", args[0], e, strings.ToValidUTF8(first, "\uFFFD"))
	}
	if out.full {
		return nil, fmt.Errorf("%s: too much to read", args[0])
	}
	return out.Bytes(), nil
}

// An answer is kept up to a bound.
type answer struct {
	bytes.Buffer
	full bool
}

func (a *answer) Write(p []byte) (int, error) {
	if a.Len()+len(p) > maxAnswer {
		a.full = true
		return 0, io.ErrShortWrite
	}
	return a.Buffer.Write(p)
}

// head is the commit that the work tree is at; empty before the first one.
func (r *reader) head(ctx context.Context) string {
	out, err := r.ask(ctx, "", "rev-parse", "--verify", "--quiet", "HEAD")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// files lists what is tracked, or neither tracked nor ignored, as it is now.
func (r *reader) files(ctx context.Context) (map[string]file, error) {
	index, err := r.ask(ctx, "", "ls-files", "--stage", "--debug", "-z")
	if err != nil {
		return nil, err
	}
	files, err := parseIndex(index)
	if err != nil {
		return nil, err
	}
	others, err := r.ask(ctx, "", "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	for path := range strings.SplitSeq(string(others), "\x00") {
		if path != "" && !strings.HasSuffix(path, "/") { // a folder is another repository
			files[path] = file{}
		}
	}
	for path, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !filepath.IsLocal(filepath.FromSlash(path)) {
			delete(files, path)
			continue
		}
		files[path] = r.look(path, f)
	}
	return files, nil
}

// parseIndex reads the index as git shows it: mode, hash, stage and path of each entry, and in lines after it the dates and size
// that the file had when it was last seen to be clean.
func parseIndex(data []byte) (map[string]file, error) {
	files := map[string]file{}
	in := bufio.NewReader(bytes.NewReader(data))
	for {
		entry, err := in.ReadString(0)
		if errors.Is(err, io.EOF) && entry == "" {
			return files, nil
		}
		head, path, ok := strings.Cut(strings.TrimSuffix(entry, "\x00"), "\t")
		part := strings.Fields(head)
		if err != nil || !ok || len(part) != 3 {
			return nil, fmt.Errorf("ls-files: an index that cannot be read at %.80q", entry)
		}
		f := file{tracked: true, index: part[1]}
		for {
			if next, err := in.Peek(2); err != nil || string(next) != "  " {
				break
			}
			line, _ := in.ReadString('\n')
			f.clean.parse(line)
		}
		if part[0] != "160000" { // another repository
			files[path] = f
		}
	}
}

// parse reads one of the lines that describe a file.
func (s *stat) parse(line string) {
	for field := range strings.SplitSeq(strings.TrimSpace(line), "\t") {
		name, value, _ := strings.Cut(field, ": ")
		switch name {
		case "mtime":
			s.mtime = nanos(value)
		case "ctime":
			s.ctime = nanos(value)
		case "size":
			s.size, _ = strconv.ParseInt(value, 10, 64)
		}
	}
}

// nanos reads seconds:nanoseconds.
func nanos(s string) int64 {
	sec, frac, _ := strings.Cut(s, ":")
	a, _ := strconv.ParseInt(sec, 10, 64)
	b, _ := strconv.ParseInt(frac, 10, 64)
	return a*1e9 + b
}

// maxOld bounds the old contents that are asked for.
const maxOld = 1 << 20

// contents returns old contents by their hash, of files that were clean.
func (r *reader) contents(ctx context.Context, changed []difference) map[string]string {
	var ask strings.Builder
	for _, d := range changed {
		if d.before.there && d.before.sum == d.before.index && d.before.index != "" {
			ask.WriteString(d.before.index + "\n")
		}
	}
	old := map[string]string{}
	if ask.Len() == 0 {
		return old
	}
	sizes, err := r.ask(ctx, ask.String(), "cat-file", "--batch-check=%(objectname) %(objectsize)")
	if err != nil {
		return old
	}
	ask.Reset()
	total := int64(0)
	for line := range strings.Lines(string(sizes)) {
		hash, size, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(size, 10, 64)
		if total += n; err == nil && n <= maxOld && total <= maxAnswer/2 {
			ask.WriteString(hash + "\n")
		}
	}
	if ask.Len() == 0 {
		return old
	}
	data, err := r.ask(ctx, ask.String(), "cat-file", "--batch")
	if err != nil {
		return old
	}
	for in := bytes.NewBuffer(data); ; {
		head, err := in.ReadString('\n')
		part := strings.Fields(head)
		if err != nil || len(part) != 3 {
			return old
		}
		n, err := strconv.Atoi(part[2])
		if err != nil || n < 0 || n >= in.Len() {
			return old
		}
		old[part[0]] = string(in.Next(n))
		in.Next(1)
	}
}
