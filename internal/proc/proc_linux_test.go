package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// If this program is killed, what it started directly goes with it.
func TestKilledWithoutWarning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	run := exec.Command(self(t), "play-run", "play-stubborn", file)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	pid := pidFrom(t, file)
	run.Process.Kill()
	run.Wait()
	// Whoever it is given to now reaps it; until then it is a zombie.
	waitFor(t, "the child to die", func() bool {
		e, ok := readEntry(pid)
		if ok && e.dead && e.parent == os.Getpid() {
			reap(pid)
		}
		return !ok || e.dead
	})
}

// A child goes on when threads of this program end: it hangs on the group's own thread.
func TestStarterThreadStays(t *testing.T) {
	var g Group
	defer g.Close()
	p := start(t, &g, Cmd{Args: []string{"sleep", "600"}})
	var here, gone sync.WaitGroup
	for range 100 { // more than there are idle ones, so that each of those is taken
		here.Add(1)
		gone.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			here.Done()
			here.Wait()
		})
	}
	gone.Wait()
	start(t, &g, Cmd{Args: []string{"/bin/true"}}).Wait()
	select {
	case <-p.Done():
		t.Errorf("it died: %v", p.Wait())
	case <-time.After(100 * time.Millisecond):
	}
}

// A process whose first thread has ended looks like a dead one.
func TestHeadlessProcessIsKilled(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3 to end one thread of two")
	}
	g := Group{Grace: -1}
	file := filepath.Join(t.TempDir(), "pid")
	script := `
import ctypes, os, sys, threading, time
def stay():
    time.sleep(0.05)
    open(sys.argv[1] + ".tmp", "w").write(str(os.getpid()))
    os.rename(sys.argv[1] + ".tmp", sys.argv[1])
    time.sleep(600)
threading.Thread(target=stay).start()
ctypes.CDLL(None).syscall(60, 0)
`
	start(t, &g, Cmd{Args: []string{python, "-c", script, file}, Env: os.Environ()})
	pid := pidFrom(t, file)
	if e, ok := readEntry(pid); !ok || e.dead {
		t.Errorf("it counts as dead: %v %v", e, ok)
	}
	begin := time.Now()
	if killed := g.Close(); len(killed) == 0 {
		t.Error("nothing was killed")
	}
	waitFor(t, "its end", func() bool { return syscall.Kill(pid, 0) != nil })
	if time.Since(begin) > 60*time.Second {
		t.Error("it took too long")
	}
}

// Zombies of orphans are reaped, those of os/exec are left to it.
func TestReaping(t *testing.T) {
	other := exec.Command("/bin/true")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	g := Group{Grace: -1}
	file := filepath.Join(t.TempDir(), "pid")
	start(t, &g, Cmd{Args: []string{"/bin/sh", "-c", `(setsid sh -c 'echo $$ > "$0.tmp"; mv "$0.tmp" "$0"' "$0" &)`, file}, Env: os.Environ()}).Wait()
	waitFor(t, "file", func() bool { _, err := os.Stat(file); return err == nil })
	waitFor(t, "both to be zombies", func() bool {
		e, ok := readEntry(other.Process.Pid)
		return ok && e.dead
	})
	g.Close()
	table, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range table {
		if e.parent == os.Getpid() && e.pid != other.Process.Pid {
			t.Errorf("a zombie stays: %d", e.pid)
		}
	}
	if err := other.Wait(); err != nil {
		t.Errorf("somebody took os/exec's child: %v", err)
	}
}

// Orphans that end on their own do not pile up until the group is closed.
func TestOrphansLeaveTheTable(t *testing.T) {
	var g Group
	defer g.Close()
	for range 30 {
		start(t, &g, Cmd{Args: []string{"sh", "-c", "setsid true &"}}).Wait()
	}
	waitFor(t, "the table to be empty", func() bool {
		start(t, &g, Cmd{Args: []string{"true"}}).Wait()
		table, err := processes()
		if err != nil {
			t.Fatal(err)
		}
		dead := 0
		for _, e := range table {
			if e.parent == os.Getpid() && e.dead {
				dead++
			}
		}
		return dead == 0
	})
}

// Numbers of sessions are used again. A stranger who has one that was ours once is left alone: what is ours descends from us.
func TestStrangerWithAnOldNumber(t *testing.T) {
	var g Group
	defer g.Close()
	p := start(t, &g, Cmd{Args: []string{"sleep", "600"}})
	stranger, ok := readEntry(1)
	if !ok {
		t.Fatal("there is no first process")
	}
	house.Lock()
	house.sessions[stranger.session] = p // as if it had been ours
	house.Unlock()
	list, _ := left(&g, nil)
	for _, e := range list {
		if e.pid != p.Pid() {
			t.Errorf("%d would be killed, of session %d", e.pid, e.session)
		}
	}
	if len(list) == 0 {
		t.Error("what is ours is not found")
	}
	house.Lock()
	delete(house.sessions, stranger.session)
	house.Unlock()
}

// Of processes that have ended nothing is kept, unless they left somebody behind: who did is known for as long as that one lives.
func TestTheDeadAreForgotten(t *testing.T) {
	var g Group
	defer g.Close()
	file := filepath.Join(t.TempDir(), "pid")
	first := start(t, &g, Cmd{Args: []string{"sh", "-c", `setsid sh -c 'printf %s $$ > "$0.tmp"; mv "$0.tmp" "$0"; exec sleep 600' "$0" &`, file}, Env: os.Environ()})
	first.Wait()
	pid := pidFrom(t, file)
	kept := func() (n int, known bool) {
		house.Lock()
		defer house.Unlock()
		for _, p := range house.sessions {
			if p.group == &g {
				n++
				known = known || p == first
			}
		}
		return n, known
	}
	waitFor(t, "the dead to be forgotten", func() bool {
		for range 20 {
			start(t, &g, Cmd{Args: []string{"true"}}).Wait()
		}
		n, _ := kept()
		return n <= 4 // the first with its two sessions, and the last
	})
	if _, known := kept(); !known {
		t.Error("one that left somebody behind was forgotten")
	}
	first.Kill()
	if e, ok := readEntry(pid); ok && !e.dead {
		t.Error("what it left behind was not killed with it")
	}
	waitFor(t, "the first to be forgotten", func() bool {
		start(t, &g, Cmd{Args: []string{"true"}}).Wait()
		_, known := kept()
		return !known
	})
}
