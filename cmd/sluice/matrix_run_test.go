//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/script"
	"github.com/sluice-dev/sluice/journal"
)

const (
	session = "018f4e6a-9b7c-7def-8123-456789abcdef"
	key     = "sk-ant-0123456789-matrix" // which nobody may ever see again
	greets  = `steps: [{text: Hello there.}]`
	patient = 60 * time.Second // for one run, on a machine that is busy
)

// A run is one run of the program in a world of its own.
type run struct {
	*testing.T
	dialect *dialect.Dialect
	dir     string // home, state, work, strays
	program string // sluice, or one that plays it
	mask    *mask  // the face that it has, if that is not its own
	session string
	args    []string // behind the program's name
	shell   string   // what a shell is told that starts it; empty: there is none
	env     []string
	stream  string // where its mask writes to, if that is its to say; -: stdout
	narrow  bool   // stdout is a pipe that holds little
	silent  bool   // stdin is a pipe that nobody writes to, but for who has its mouth
	says    string // on stdin, before it ends

	cmd   *exec.Cmd
	mouth *os.File      // the other end of stdin
	pipe  *os.File      // the program's stdout
	gone  chan struct{} // closed when the reader is to go, or to begin
	over  chan struct{} // closed when the program has ended
	read  chan []byte
	out   []byte
	errs  bytes.Buffer
	cause time.Time     // when that happened which ends the run; zero: nobody looks at the clock
	took  time.Duration // from then on
	exit  int
}

func newRun(t *testing.T, d *dialect.Dialect) *run {
	r := &run{T: t, dialect: d, dir: t.TempDir(), program: "sluice", session: session, gone: make(chan struct{})}
	for _, name := range []string{"home", "work", "strays", "tmp"} {
		if err := os.Mkdir(r.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.path("home"), "TMPDIR=" + r.path("tmp"), "XDG_STATE_HOME=" + r.path("state"),
		"XDG_CONFIG_HOME=" + r.path("home"), "ANTHROPIC_API_KEY=" + key, "STRAYS=" + r.path("strays"), "GORACE=" + os.Getenv("GORACE"),
	}
	r.args = append(r.flags(d, session), "Do it.")
	return r
}

// flags are what every run is told.
func (r *run) flags(d *dialect.Dialect, session string) []string {
	return []string{"run", "--format", d.Name, "--session-id", session, "--model", "anthropic/scripted", "--mode", "yolo", "-C", r.path("work")}
}

func (r *run) path(name string) string { return filepath.Join(r.dir, name) }

// journal is where the journal is. A face may give its session a name of its own.
func (r *run) journal() string {
	in := func(session string) string {
		return r.path(filepath.Join("state", "sluice", "sessions", session, "journal.ndjson"))
	}
	if r.mask != nil && !exists(in(r.session)) {
		if list, _ := filepath.Glob(in("*")); len(list) == 1 {
			return list[0]
		}
	}
	return in(r.session)
}

// awaitJournal waits until there is one.
func (r *run) awaitJournal() {
	for end := time.Now().Add(patient); r.mask != nil && !exists(r.journal()); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatal("the run has no journal")
		}
	}
}

// set sets a variable, or takes it away if the value is empty.
func (r *run) set(name, value string) {
	var env []string
	for _, kv := range r.env {
		if !strings.HasPrefix(kv, name+"=") {
			env = append(env, kv)
		}
	}
	if value != "" {
		env = append(env, name+"="+value)
	}
	r.env = env
}

// serve puts a model behind a socket.
func (r *run) serve(text string) {
	if text == "" {
		text = greets
	}
	if r.mask != nil {
		text = r.mask.script(text)
	}
	s, err := script.Parse([]byte(text))
	if err != nil {
		r.Fatalf("%v in %s", err, text)
	}
	server := httptest.NewServer(modelserver.New(s, modelserver.Options{Key: key}))
	r.Cleanup(server.Close)
	r.set("ANTHROPIC_BASE_URL", server.URL)
}

// start starts the program, with somebody who reads its stdout.
func (r *run) start(read func(*run, *os.File) []byte) {
	in, out, err := os.Pipe()
	if err != nil {
		r.Fatal(err)
	}
	if r.narrow {
		narrow(r.T, out)
	}
	program, args := r.program, r.args
	if r.mask != nil {
		args = r.mask.line(r, parse(args))
	}
	if r.shell != "" {
		program, args = "sh", append([]string{"-c", r.shell, "sh"}, args...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	r.Cleanup(cancel)
	r.cmd = exec.CommandContext(ctx, program, args...)
	r.cmd.Env, r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = r.env, r.path("work"), out, &r.errs
	if r.silent {
		in, mouth, err := os.Pipe()
		if err != nil {
			r.Fatal(err)
		}
		r.cmd.Stdin, r.mouth = in, mouth
		r.Cleanup(func() { in.Close(); mouth.Close() })
	}
	if r.says != "" {
		r.cmd.Stdin = strings.NewReader(r.says)
	}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to us is not one to it
	r.cmd.WaitDelay = 5 * time.Second
	if err := r.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	if read == nil {
		read = readAll
	}
	r.pipe, r.over, r.read = out, make(chan struct{}), make(chan []byte, 1)
	go func() {
		defer in.Close()
		r.read <- read(r, in)
	}()
}

func readAll(_ *run, in *os.File) []byte {
	all, _ := io.ReadAll(in) // a pipe of ours
	return all
}

// wait waits for the end of the program and of its stdout.
func (r *run) wait() {
	err := r.cmd.Wait()
	close(r.over)
	r.pipe.Close()
	if !r.cause.IsZero() {
		r.took = time.Since(r.cause)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.Fatal(err)
	}
	r.exit = r.cmd.ProcessState.ExitCode()
	select {
	case r.out = <-r.read:
	case <-time.After(patient):
		r.Fatal("the program has ended, and somebody holds its stdout open")
	}
	if r.stream != "" && r.stream != "-" {
		if r.out, err = os.ReadFile(r.stream); err != nil {
			r.Error(err)
		}
	}
}

// await waits until the journal has an event of a kind.
func (r *run) await(kind event.Kind) {
	r.awaitJournal()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	for line, err := range journal.Follow(ctx, r.journal(), journal.FollowOptions{}) {
		if err != nil {
			r.Fatal(err)
		}
		if l, err := event.Parse(line); err == nil && l.Kind == kind {
			return
		}
	}
	r.Fatalf("the journal never told %s", kind)
}

// signal sends a signal to the program alone.
func (r *run) signal(s syscall.Signal) {
	if err := r.cmd.Process.Signal(s); err != nil {
		r.Error(err)
	}
	if r.cause.IsZero() {
		r.cause = time.Now()
	}
}

// awaitFull waits until the program cannot write any more before somebody reads.
func (r *run) awaitFull() {
	for end := time.Now().Add(patient); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(r.pipe.Fd()), Events: unix.POLLOUT}}, 0)
		if err == nil && n == 0 {
			return
		}
	}
	r.Error("the pipe never filled")
}

// awaitStray waits until a stray has written its number.
func (r *run) awaitStray(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	for _, err := range journal.Follow(ctx, filepath.Join(r.path("strays"), name), journal.FollowOptions{}) {
		if err != nil {
			r.Fatal(err)
		}
		return
	}
	r.Fatalf("the stray %s never came", name)
}

// checkStrays sees to it that no process is left which the run started.
func (r *run) checkStrays() {
	files, err := os.ReadDir(r.path("strays"))
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(r.path("strays"), f.Name()))
		if err != nil {
			r.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil {
			r.Fatal(err)
		}
		if alive(pid) {
			r.Errorf("the stray %s (%d) is left behind", f.Name(), pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// alive says whether a process runs. One that is dead and waits for somebody to ask after it does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || !exists("/proc/self/stat")
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(state, []byte("Z")) && !bytes.HasPrefix(state, []byte("X"))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
