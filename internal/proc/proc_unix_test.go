//go:build unix

package proc

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test program plays the processes as well: what its first argument names.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "__guard" {
		Guard()
	}
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "play-") {
		play(os.Args[1], os.Args[2:])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// parts are what some systems play besides.
var parts = map[string]func(args []string){}

func play(part string, args []string) {
	switch part {
	case "play-stubborn": // ignores TERM, writes its pid to a file, stays for ever
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		if err := writePid(args[0]); err != nil {
			os.Exit(1)
		}
		time.Sleep(time.Hour)
	case "play-fork": // starts the rest in a new session and ends
		c := exec.Command(os.Args[0], args...)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			os.Exit(1)
		}
	case "play-wipe": // the same without an environment
		c := exec.Command(os.Args[0], args...)
		c.Env = []string{}
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			os.Exit(1)
		}
	case "play-run": // a program that uses this package; somebody kills it
		var g Group
		if _, err := g.Start(Cmd{Args: append([]string{os.Args[0]}, args...)}); err != nil {
			os.Exit(1)
		}
		time.Sleep(time.Hour)
	default:
		parts[part](args)
	}
}

// writePid writes the file in one go: who waits for it never sees half a number.
func writePid(file string) error {
	if err := os.WriteFile(file+".tmp", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".tmp", file)
}

func self(t *testing.T) string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain: %s", what)
}

func pidFrom(t *testing.T, file string) (pid int) {
	t.Helper()
	waitFor(t, "pid in "+filepath.Base(file), func() bool {
		data, err := os.ReadFile(file)
		if err == nil {
			pid, err = strconv.Atoi(string(data))
		}
		return err == nil
	})
	return pid
}

// alive says whether there is such a process: one that nobody waited for counts.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func start(t *testing.T, g *Group, c Cmd) *Process {
	t.Helper()
	p, err := g.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestExit(t *testing.T) {
	var g Group
	defer g.Close()
	for script, want := range map[string]string{"exit 0": "exit status 0", "exit 7": "exit status 7", "kill -9 $$": "signal: killed"} {
		if got := start(t, &g, Cmd{Args: []string{"/bin/sh", "-c", script}}).Wait(); got.String() != want {
			t.Errorf("%s: %v, want %s", script, got, want)
		}
	}
	if _, err := g.Start(Cmd{Args: []string{"/no/such/program"}}); err == nil || !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("no program: %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = u.Unwrap()
	}
}

func TestStdinIsNeverOurs(t *testing.T) {
	var g Group
	defer g.Close()
	var out bytes.Buffer
	start(t, &g, Cmd{Args: []string{"/bin/cat"}, Stdout: &out}).Wait()
	if out.Len() != 0 {
		t.Errorf("stdin had %q", out.String())
	}
	start(t, &g, Cmd{Args: []string{"/bin/cat"}, Stdin: strings.NewReader("given"), Stdout: &out}).Wait()
	p := start(t, &g, Cmd{Args: []string{"/bin/cat"}, Pipe: true, Stdout: &out})
	io.WriteString(p.Stdin(), ", said")
	p.Stdin().Close()
	p.Wait()
	if out.String() != "given, said" {
		t.Errorf("got %q", out.String())
	}
}

func TestEnvironmentIsGiven(t *testing.T) {
	t.Setenv("PROC_TEST_SECRET", "s3cret")
	t.Setenv(Mark, "outer.1")
	var g Group
	defer g.Close()
	var out bytes.Buffer
	start(t, &g, Cmd{Args: []string{"/usr/bin/env"}, Env: []string{"A=1"}, Stdout: &out}).Wait()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || lines[0] != "A=1" || !strings.HasPrefix(lines[1], Mark+"=outer.1,"+g.id+".") {
		t.Errorf("environment: %q", lines)
	}
}

func TestOutputIsInterleavedAndWhole(t *testing.T) {
	var g Group
	defer g.Close()
	var out bytes.Buffer
	start(t, &g, Cmd{Args: []string{"/bin/sh", "-c", "i=0; while [ $i -lt 500 ]; do echo out; echo err >&2; i=$((i+1)); done"}, Stdout: &out, Stderr: &out}).Wait()
	if want := strings.Repeat("out\nerr\n", 500); out.String() != want {
		t.Errorf("got %d bytes, want %d in turn", out.Len(), len(want))
	}
}

// slow is a writer that takes its time: what is in the pipe when the process ends must not be lost.
type slow struct{ bytes.Buffer }

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(20 * time.Millisecond)
	return s.Buffer.Write(p)
}

func TestGrandchildHoldsStdout(t *testing.T) {
	var g Group
	g.Grace = -1
	out := &slow{}
	// The one in the background writes for ever and keeps the pipe full.
	p := start(t, &g, Cmd{Args: []string{"/bin/sh", "-c", "sleep 600 & echo bg; exec sh -c 'echo last'"}, Stdout: out})
	select {
	case <-p.Done():
	case <-time.After(60 * time.Second):
		t.Fatal("wait hangs on the grandchild's pipe")
	}
	if out.String() != "bg\nlast\n" {
		t.Errorf("got %q", out.String())
	}
	killed := g.Close()
	if len(killed) != 1 || !strings.HasSuffix(killed[0], "sleep 600") {
		t.Errorf("killed %q", killed)
	}
}

func TestTalkativeGrandchildGoesOn(t *testing.T) {
	var g Group
	g.Grace = -1
	file := filepath.Join(t.TempDir(), "count")
	out := &bytes.Buffer{}
	script := `(i=0; while :; do i=$((i+1)); echo a long line that fills the pipe, again and again; echo $i > "$1.tmp"; mv "$1.tmp" "$1"; done) & exit 3`
	p := start(t, &g, Cmd{Args: []string{"/bin/sh", "-c", script, "sh", file}, Env: []string{"PATH=" + os.Getenv("PATH")}, Stdout: out})
	if e := p.Wait(); e.Code != 3 {
		t.Errorf("exit %v", e)
	}
	size := out.Len()
	count := func() int {
		data, _ := os.ReadFile(file)
		n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
		return n
	}
	from := count()
	waitFor(t, "the grandchild to go on writing", func() bool { return count() > from+20 })
	if out.Len() != size {
		t.Error("the writer was called after Wait")
	}
	g.Close()
}

func TestStubbornIsKilled(t *testing.T) {
	for _, how := range [][]string{nil, {"play-fork"}, {"play-fork", "play-fork"}, {"play-wipe"}, {"play-wipe", "play-fork"}} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			if len(how) > 0 && runtime.GOOS != "linux" {
				t.Skip("only Linux gives orphans to us")
			}
			g := Group{Grace: 50 * time.Millisecond}
			file := filepath.Join(t.TempDir(), "pid")
			args := append(append([]string{self(t)}, how...), "play-stubborn", file)
			p := start(t, &g, Cmd{Args: args, Env: os.Environ()})
			pid := pidFrom(t, file)
			if len(how) > 0 {
				p.Wait()
			}
			waitFor(t, "the ones between to end", func() bool { list, _ := left(&g, nil); return len(list) == 1 })
			begin := time.Now()
			killed := g.Close()
			if alive(pid) {
				t.Errorf("it lives")
			}
			if len(killed) != 1 || !strings.HasPrefix(killed[0], strconv.Itoa(pid)+" ") || !strings.Contains(killed[0], "play-stubborn") {
				t.Errorf("killed %q, want %d", killed, pid)
			}
			if d := time.Since(begin); d < 50*time.Millisecond || d > 30*time.Second {
				t.Errorf("took %v", d)
			}
			p.Wait()
			if again := g.Close(); again != nil {
				t.Errorf("closed twice: %q", again)
			}
			if _, err := g.Start(Cmd{Args: []string{"/bin/true"}}); err != ErrClosed {
				t.Errorf("started after the end: %v", err)
			}
		})
	}
}

func TestTermIsEnoughForThePolite(t *testing.T) {
	g := Group{Grace: time.Minute}
	file := filepath.Join(t.TempDir(), "bye")
	ready, says := io.Pipe()
	defer says.Close()
	p := start(t, &g, Cmd{Args: []string{"/bin/sh", "-c", `trap 'echo x > "$0"; exit 0' TERM; echo ready; while :; do sleep 0.01; done`, file}, Env: os.Environ(), Stdout: says})
	if _, err := ready.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	// A stopped process cannot answer TERM unless it is continued.
	p.Signal(syscall.SIGSTOP)
	begin := time.Now()
	g.Close()
	if time.Since(begin) > 30*time.Second {
		t.Error("the grace was waited for")
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("it could not say goodbye: %v", err)
	}
}

func TestKillWhileClosing(t *testing.T) {
	g := Group{Grace: time.Hour}
	file := filepath.Join(t.TempDir(), "pid")
	p := start(t, &g, Cmd{Args: []string{self(t), "play-stubborn", file}})
	pidFrom(t, file)
	closed := make(chan []string)
	go func() { closed <- g.Close() }()
	g.Kill()
	select {
	case killed := <-closed:
		if p.Wait().Signal != "killed" {
			t.Errorf("exit %v, close told %q", p.Wait(), killed)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("Close waits for the grace")
	}
}

func TestKillOneTree(t *testing.T) {
	g := Group{Grace: 20 * time.Millisecond}
	dir := t.TempDir()
	var pids []int
	var ps []*Process
	for i := range 2 {
		file := filepath.Join(dir, strconv.Itoa(i))
		script := `"$0" play-fork play-stubborn "$1.far"; "$0" play-stubborn "$1.near" & wait`
		ps = append(ps, start(t, &g, Cmd{Args: []string{"/bin/sh", "-c", script, self(t), file}, Env: os.Environ()}))
		pids = append(pids, pidFrom(t, file+".far"), pidFrom(t, file+".near"))
	}
	ps[0].Kill()
	if alive(pids[1]) || runtime.GOOS == "linux" && alive(pids[0]) {
		t.Error("of the first tree something lives")
	}
	if e := ps[0].Wait(); e.Signal == "" {
		t.Errorf("exit %v", e)
	}
	if !alive(pids[2]) || !alive(pids[3]) {
		t.Error("the second tree was touched")
	}
	if n := len(g.Close()); n != 3 && runtime.GOOS == "linux" {
		t.Errorf("%d killed, want the second tree: a shell and two", n)
	}
}

func TestSiblingsAreUntouched(t *testing.T) {
	// A child of ours that no group started, its child, and a process of another group.
	file := filepath.Join(t.TempDir(), "pid")
	other := exec.Command("/bin/sh", "-c", `"$0" play-stubborn "$1" & wait`, self(t), file)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	grandchild := pidFrom(t, file)
	defer func() {
		syscall.Kill(grandchild, syscall.SIGKILL)
		other.Process.Kill()
		other.Wait()
		syscall.Wait4(grandchild, nil, 0, nil) // on Linux it is ours now
	}()
	g2 := Group{Grace: -1}
	theirs := start(t, &g2, Cmd{Args: []string{self(t), "play-fork", "play-stubborn", file + "2"}, Env: os.Environ()})
	theirs.Wait()
	orphan := pidFrom(t, file+"2")

	g := Group{Grace: -1}
	start(t, &g, Cmd{Args: []string{"sleep", "600"}})
	if killed := g.Close(); len(killed) != 1 {
		t.Errorf("killed %q", killed)
	}
	for _, pid := range []int{other.Process.Pid, grandchild, orphan} {
		if !alive(pid) {
			t.Errorf("%d is gone", pid)
		}
	}
	if killed := g2.Close(); len(killed) != 1 && runtime.GOOS == "linux" {
		t.Errorf("the second group killed %q", killed)
	}
	if !alive(grandchild) {
		t.Error("the second group killed what is not its own")
	}
}

func TestFiftyAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	dir := t.TempDir()
	exe := self(t)
	for i := range 50 {
		wg.Go(func() {
			g := Group{Grace: 10 * time.Millisecond}
			var out bytes.Buffer
			text := fmt.Sprintf("run %d", i)
			p, err := g.Start(Cmd{Args: []string{"/bin/sh", "-c", `echo "$0"; setsid sleep 600 & sleep 600 & exit 4`, text}, Env: os.Environ(), Stdout: &out})
			if err != nil {
				t.Error(err)
				return
			}
			if e := p.Wait(); e.Code != 4 || out.String() != text+"\n" {
				t.Errorf("%v %q", e, out.String())
			}
			if i%10 == 0 {
				if _, err := g.Start(Cmd{Args: []string{exe, "play-fork", "play-stubborn", filepath.Join(dir, strconv.Itoa(i))}, Env: os.Environ()}); err != nil {
					t.Error(err)
				}
				pidFrom(t, filepath.Join(dir, strconv.Itoa(i)))
			}
			g.Close()
		})
	}
	wg.Wait()
	if runtime.GOOS != "linux" {
		return
	}
	table, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range table {
		if e.parent == os.Getpid() {
			t.Errorf("left behind: %d %s %+v", e.pid, commandLine(e.pid), e)
		}
	}
}

func TestOneLine(t *testing.T) {
	got := oneLine("sh\x00-c\x00a\nb\xff" + strings.Repeat("é", 300))
	if want := "sh -c a b\uFFFD" + strings.Repeat("é", 190) + "…"; got != want {
		t.Errorf("got %q", got)
	}
}
