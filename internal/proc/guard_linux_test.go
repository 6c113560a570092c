package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	parts["play-guarded"] = playGuarded
	parts["play-nothing"] = func([]string) {}
}

// playGuarded is a program with a guard. At each line of stdin it starts a few processes that do what they can to stay, and
// says who its guard is; at the end it says what it killed, and ends as it should.
func playGuarded(args []string) {
	exe, dir := args[0], args[1]
	dismiss := Guard()
	g := Group{Grace: -1}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		for _, how := range strings.Fields(lines.Text()) {
			c := []string{exe}
			for step := range strings.SplitSeq(how, "/") {
				c = append(c, "play-"+step)
			}
			p, err := g.Start(Cmd{Args: append(c, filepath.Join(dir, strings.ReplaceAll(how, "/", "-")))})
			if err != nil {
				panic(err)
			}
			if !strings.HasPrefix(how, "stubborn") {
				p.Wait()
			}
		}
		guard := 0
		for end := time.Now().Add(10 * time.Second); guard == 0 && time.Now().Before(end); {
			house.Lock()
			guard = house.guard
			house.Unlock()
			time.Sleep(time.Millisecond)
		}
		fmt.Println(guard)
	}
	fmt.Println(strings.Join(g.Close(), "; "))
	fmt.Println(alive(house.guard)) // the sweep has left it alone
	dismiss()
}

// A guarded is such a program.
type guarded struct {
	*testing.T
	dir, exe string
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Scanner
}

// startGuarded starts it from a file that is gone before it starts anything, and with a lock that it inherits.
func startGuarded(t *testing.T) *guarded {
	r := &guarded{T: t, dir: t.TempDir(), exe: self(t)}
	program := filepath.Join(r.dir, "program")
	data, err := os.ReadFile(r.exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, data, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(r.dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	r.cmd = exec.Command(program, "play-guarded", r.exe, r.dir)
	r.cmd.ExtraFiles = []*os.File{lock, lock}
	r.cmd.Env = append(os.Environ(), Mark+"=outer.1.1")
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.out = bufio.NewScanner(out)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.clean)
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	return r
}

// clean kills what a test that failed has left.
func (r *guarded) clean() {
	r.cmd.Process.Kill()
	r.cmd.Wait()
	files, _ := filepath.Glob(filepath.Join(r.dir, "*stubborn"))
	for _, file := range files {
		if pid := pidFrom(r.T, file); strings.Contains(commandLine(pid), r.dir) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// say has it start processes, and returns its guard when that has come to its post.
func (r *guarded) say(line string) (guard int) {
	r.Helper()
	fmt.Fprintln(r.in, line)
	if guard, _ = strconv.Atoi(r.hear()); guard == 0 {
		r.Fatal("it has no guard")
	}
	waitFor(r.T, "the guard not to hear TERM", func() bool {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", guard))
		_, set, _ := strings.Cut(string(status), "SigIgn:\t")
		set, _, _ = strings.Cut(set, "\n")
		ignored, _ := strconv.ParseUint(set, 16, 64)
		return ignored&(1<<(unix.SIGTERM-1)) != 0
	})
	return guard
}

func (r *guarded) hear() string {
	r.Helper()
	if !r.out.Scan() {
		r.Fatalf("it has nothing to say: %v", r.out.Err())
	}
	return r.out.Text()
}

func (r *guarded) pid(how string) int {
	r.Helper()
	return pidFrom(r.T, filepath.Join(r.dir, strings.ReplaceAll(how, "/", "-")))
}

// lives says whether a process is there. Whoever gets the orphans of the dead may not have reaped it yet.
func lives(pid int) bool {
	e, ok := readEntry(pid)
	if ok && e.dead && e.parent == os.Getpid() {
		reap(pid)
	}
	return ok && !e.dead
}

// If a program with a guard is killed, nothing that it started lives on: not by forking, nor in a session of its own, nor
// without an environment. Others are left alone.
func TestGuardKillsWhatIsLeft(t *testing.T) {
	stranger := exec.Command(self(t), "play-stubborn", filepath.Join(t.TempDir(), "pid"))
	stranger.Env = append(os.Environ(), Mark+"=outer.1.1") // a sibling, in the same run
	stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stranger.Process.Kill(); stranger.Wait() }()

	r := startGuarded(t)
	// The one that is a run itself has no guard of its own.
	hows := []string{"stubborn", "fork/stubborn", "fork/fork/stubborn", "wipe/stubborn", "wipe/fork/stubborn", "fork/run/fork/stubborn"}
	guard := r.say(strings.Join(hows, " "))
	var pids []int
	for _, how := range hows {
		pids = append(pids, r.pid(how))
	}
	r.say("nothing") // who has no environment is known when the next one has ended
	waitFor(t, "the guard to let go of what it inherited", func() bool {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", guard))
		return len(files) > 3 && !slices.ContainsFunc(files, func(f string) bool {
			to, _ := os.Readlink(f)
			return strings.HasSuffix(to, "lock") || strings.HasSuffix(f, "/0") && to != os.DevNull
		})
	})
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", guard)); dir != "/" {
		t.Errorf("the guard is in %s, %v", dir, err)
	}
	if e, _ := readEntry(guard); e.session != guard {
		t.Errorf("the guard is in session %d", e.session)
	}
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		if err := syscall.Kill(guard, s); err != nil {
			t.Error(err)
		}
	}
	for i, pid := range pids {
		if !lives(pid) {
			t.Fatalf("%s is gone before its time", hows[i])
		}
	}
	r.cmd.Process.Kill()
	r.cmd.Wait()
	for i, pid := range append(pids, guard) {
		waitFor(t, append(hows, "guard")[i]+" to die", func() bool { return !lives(pid) })
	}
	if !lives(stranger.Process.Pid) {
		t.Error("a stranger was killed")
	}
}

// Who ends as it should has no guard afterwards, and what it killed does not name one.
func TestGuardLeavesWithoutTrace(t *testing.T) {
	r := startGuarded(t)
	guard := r.say("stubborn fork/stubborn")
	pids := []int{r.pid("stubborn"), r.pid("fork/stubborn")}
	r.in.Close()
	killed := strings.Split(r.hear(), "; ")
	slices.Sort(killed)
	slices.Sort(pids)
	if len(killed) != 2 || !strings.HasPrefix(killed[0], strconv.Itoa(pids[0])+" ") || !strings.HasPrefix(killed[1], strconv.Itoa(pids[1])+" ") {
		t.Errorf("killed %q, want %d", killed, pids)
	}
	if r.hear() != "true" {
		t.Error("the group took the guard with it")
	}
	if err := r.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if alive(guard) {
		t.Error("the guard is still there")
	}
}

// A guard that somebody killed is replaced.
func TestGuardIsReplaced(t *testing.T) {
	r := startGuarded(t)
	first := r.say("fork/stubborn")
	syscall.Kill(first, syscall.SIGKILL)
	waitFor(t, "its end", func() bool { return !lives(first) })
	second := 0
	waitFor(t, "another one", func() bool {
		fmt.Fprintln(r.in, "nothing")
		second, _ = strconv.Atoi(r.hear())
		return second != first
	})
	pid := r.pid("fork/stubborn")
	r.cmd.Process.Kill()
	r.cmd.Wait()
	waitFor(t, "what the first one knew to die", func() bool { return !lives(pid) && !lives(second) })
}

// A session is ours if one of ours began it. A server that works for many is not, although its child has our mark.
func TestChargesBySession(t *testing.T) {
	dir := t.TempDir()
	begin := func(name, script string, env ...string) *exec.Cmd {
		c := exec.Command("/bin/sh", "-c", script, "sh", self(t), filepath.Join(dir, name))
		c.Env = append(env, "PATH="+os.Getenv("PATH"))
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		return c
	}
	mark := Mark + "=outer.1.1,ID.1.1"
	ours := begin("wiped", `(env -i "$1" play-stubborn "$2" &); exec sleep 600`, mark)
	server := begin("child", `env `+mark+` "$1" play-stubborn "$2" & exec sleep 600`)
	other := begin("other", `exec "$1" play-stubborn "$2"`, Mark+"=outer.1.1,IDENTICAL.1.1")
	wiped, child := pidFrom(t, filepath.Join(dir, "wiped")), pidFrom(t, filepath.Join(dir, "child"))
	pidFrom(t, filepath.Join(dir, "other"))
	t.Cleanup(func() {
		for _, pid := range []int{wiped, child} {
			syscall.Kill(pid, syscall.SIGKILL)
			waitFor(t, "its end", func() bool { return !lives(pid) })
		}
	})
	waitFor(t, "the shells to be other programs", func() bool {
		return strings.HasPrefix(commandLine(ours.Process.Pid), "sleep") && strings.HasPrefix(commandLine(server.Process.Pid), "sleep")
	})
	list, _ := charges("ID", "")()
	var got []int
	for _, e := range list {
		got = append(got, e.pid)
	}
	want := []int{ours.Process.Pid, wiped, child}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("takes %d, want %d: the session, its wiped member, the child; not the server %d, nor %d", got, want, server.Process.Pid, other.Process.Pid)
	}
}
