//go:build interop && linux

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything may take on a machine that has much to do.
const patience = 2 * time.Minute

// A world is a home, a project and a scripted model: all that a program sees of the machine.
type world struct {
	t                  *testing.T
	dir, home, project string
	mark               string // in the environment of whatever is started here
	base               string // where the model is
	served             string // file with what the model was asked
	env                []string
}

var worlds atomic.Int64

// newWorld makes one. Its folder has a short name: there will be sockets in it.
func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "io")
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), served: filepath.Join(dir, "served")}
	w.mark = fmt.Sprintf("INTEROP_MARK=%d-%d", os.Getpid(), worlds.Add(1))
	for _, d := range []string{w.home, w.project, filepath.Join(dir, "tmp")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		w.end(w.living()...)
		os.RemoveAll(dir)
	})
	w.env = []string{
		w.mark, "HOME=" + w.home, "TMPDIR=" + filepath.Join(dir, "tmp"), "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "USER=interop", "SHELL=/bin/sh",
		"DO_NOT_TRACK=1",
		"HTTPS_PROXY=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9", "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost", // there is no way out
		"GIT_AUTHOR_NAME=i", "GIT_AUTHOR_EMAIL=i@localhost", "GIT_COMMITTER_NAME=i", "GIT_COMMITTER_EMAIL=i@localhost",
	}
	w.ok(w.command("git", "init", "-q"))
	write(t, filepath.Join(w.project, "README.md"), "A project.\n")
	w.ok(w.command("git", "add", "."))
	w.ok(w.command("git", "commit", "-q", "-m", "begin"))
	return w
}

// with puts the programs of a set before all others.
func (w *world) with(set string) {
	w.set("PATH=" + filepath.Join(folder(), set, "node_modules", ".bin") + ":" + w.value("PATH"))
}

func (w *world) set(list ...string) {
	for _, kv := range list {
		name, _, _ := strings.Cut(kv, "=")
		kept := w.env[:0:0]
		for _, old := range w.env {
			if !strings.HasPrefix(old, name+"=") {
				kept = append(kept, old)
			}
		}
		w.env = append(kept, kv)
	}
}

func (w *world) value(name string) string {
	for _, kv := range w.env {
		if n, v, _ := strings.Cut(kv, "="); n == name {
			return v
		}
	}
	return ""
}

// command is one that is run in the project.
func (w *world) command(name string, args ...string) *exec.Cmd {
	if !strings.Contains(name, "/") {
		for _, dir := range filepath.SplitList(w.value("PATH")) {
			if path := filepath.Join(dir, name); exec.Command("test", "-x", path).Run() == nil {
				name = path
				break
			}
		}
	}
	c := exec.Command(name, args...)
	c.Dir, c.Env = w.project, w.env
	return c
}

func (w *world) ok(c *exec.Cmd) string {
	w.t.Helper()
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		w.t.Fatalf("%v: %v: %s%s", c.Args, err, out, said.String())
	}
	return string(out)
}

// model serves a script, by the program that users have.
func (w *world) model(script string) {
	w.t.Helper()
	file := filepath.Join(w.dir, "script.yaml")
	write(w.t, file, script)
	c := exec.Command(sluice(w.t), "model", "serve", "--requests", w.served, file)
	c.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := c.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(w.dir, "served.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	c.Stderr = log
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if base, ok := strings.CutPrefix(lines.Text(), "ANTHROPIC_BASE_URL="); ok {
			w.base = base
			return
		}
	}
	data, _ := os.ReadFile(log.Name())
	w.t.Fatalf("the model does not serve: %s", data)
}

// log is what the model says it answered.
func (w *world) log() string {
	data, _ := os.ReadFile(filepath.Join(w.dir, "served.log"))
	return string(data)
}

func (w *world) has(name string) bool {
	_, err := os.Stat(filepath.Join(w.project, name))
	return err == nil
}

// until waits for something that has no event.
func (w *world) until(what string, yes func() bool) bool {
	w.t.Helper()
	for end := time.Now().Add(patience); !yes(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Errorf("%s: it did not happen\nmodel: %s", what, w.log())
			return false
		}
	}
	return true
}

// living are the processes of this world.
func (w *world) living() (list []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range all {
		data, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, data...), []byte("\x00"+w.mark+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// told are the command lines of processes.
func told(pids []int) (list []string) {
	for _, pid := range pids {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		text := strings.ReplaceAll(strings.TrimRight(string(data), "\x00"), "\x00", " ")
		list = append(list, fmt.Sprintf("%d %.120s", pid, text))
	}
	return list
}

func (w *world) end(pids ...int) {
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// children are the processes that another one started.
func children(of int) (list []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range all {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		f := strings.Fields(rest)
		if len(f) > 1 && f[1] == strconv.Itoa(of) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			list = append(list, pid)
		}
	}
	return list
}

// A process runs in a world, with its output in memory.
type process struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	done     chan struct{}
	code     int
}

func (w *world) start(name string, args ...string) *process {
	w.t.Helper()
	p := &process{cmd: w.command(name, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = time.Second // for those who are left behind and hold the pipe
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		err := p.cmd.Wait()
		p.code = p.cmd.ProcessState.ExitCode()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
			p.code = 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
		}
	}()
	return p
}

// wait waits for the end of a process.
func (p *process) wait(limit time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(limit):
		return false
	}
}

// An entry is an event of ours, as far as it is looked at.
type entry struct {
	Seq  int             `json:"seq"`
	Call string          `json:"call"`
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body"`
}

func (e entry) String() string { return fmt.Sprintf("%d %s %s %.300s", e.Seq, e.Call, e.Kind, e.Body) }

// field is a word of an event's body.
func (e entry) field(name string) string {
	var m map[string]any
	json.Unmarshal(e.Body, &m)
	if m[name] == nil {
		return ""
	}
	return fmt.Sprint(m[name])
}

// journal is what our program has written down in this world so far: the only session that there is.
func (w *world) journal() (path string, list []entry) {
	all, _ := filepath.Glob(filepath.Join(w.home, ".local", "state", "sluice", "sessions", "*", "journal.ndjson"))
	if len(all) != 1 {
		return "", nil
	}
	data, err := os.ReadFile(all[0])
	if err != nil {
		return "", nil
	}
	for line := range bytes.Lines(data) {
		var e entry
		if json.Unmarshal(line, &e) == nil {
			list = append(list, e)
		}
	}
	return all[0], list
}

// kinds are the events of one of these kinds.
func kinds(list []entry, want ...string) (found []entry) {
	for _, e := range list {
		for _, k := range want {
			if e.Kind == k {
				found = append(found, e)
			}
		}
	}
	return found
}
