// Package proc runs child processes and leaves none behind.
//
// A [Group] is everything that one run started. Each process gets a session of its own, an environment that was given and not
// inherited, and a stdin that is not ours. When the group is closed, all that is left of it is killed, to the last descendant:
// TERM, a while of grace, KILL, and another look until nothing is there.
//
// What belongs to a group? On Linux this process makes itself the one that orphans are given to, so every descendant has a
// chain of parents that ends here. The last but one in the chain decides for all behind it:
//
//	started by the group                        its own
//	in our session                              somebody else's: a group's processes have left it and cannot come back
//	in a session that the group opened          the group's, its parent is gone
//	has the group's mark in its environment     the group's: it called setsid as well
//	none of these                               it also wiped its environment: taken by the last open group
//
// So whatever else in this program starts a process in a new session must do it through this package. On macOS there is no
// such adoption: descendants are found by parent and by session, and a process that forks twice and calls setsid between two
// looks is lost. On other systems the process group is killed, on Windows only the process.
//
// If this program itself dies by KILL, Linux kills the processes that it started directly, and the guard kills their
// descendants, if there is one: see [Guard]. It finds them by their mark, and knows those that were given to us by the time the
// last process ended. What stays is a process with more privileges than ours, one that wiped its environment, left its session
// and lost its parent since then, and what the very first process forked if we die before the guard, which is started behind
// it, is there. On other systems there is no guard.
package proc

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Mark is the environment variable by which a descendant is known.
const Mark = "SLUICE_RUN"

// program is what the marks of all groups begin with.
var program = sync.OnceValue(rand.Text)

var groups atomic.Int64 // how many there were

// A Cmd is a process to be started.
type Cmd struct {
	Args   []string  // the program, looked up in our PATH if it has no slash, and its arguments
	Dir    string    // empty: ours
	Env    []string  // all of it: nothing is inherited
	Stdin  io.Reader // nil: empty, unless Pipe is set
	Pipe   bool      // stdin is [Process.Stdin]
	Stdout io.Writer // nil: thrown away
	Stderr io.Writer // nil: thrown away; the same as Stdout: interleaved as it was written

	Terminal *os.File // instead of all of them: the process's own terminal; it is closed here once the process has it
}

// A Group is the processes of one run. The zero value is ready for use.
type Group struct {
	Grace time.Duration // between TERM and KILL; 0: half a second; negative: none

	mu     sync.Mutex
	id     string
	starts chan func() // to the thread that starts them
	count  int
	ours   map[*os.File]bool // our ends of pipes
	closed bool
}

// A Process is one that was started.
type Process struct {
	group *Group
	cmd   *exec.Cmd   // until it was waited for: of the dead little is kept, and there may be many
	proc  *os.Process // the same for those who signal it
	pid   int
	mark  string
	stdin io.WriteCloser
	mute  <-chan struct{}
	alone int           // it has ended, and nobody descended from it: since which look
	gone  chan struct{} // it has left the system's table
	done  chan struct{}
	exit  Exit
}

// An Exit is how a process ended.
type Exit struct {
	Code   int    // -1 if a signal ended it
	Signal string // its name
	Err    error  // not nil: nobody can say how it ended
}

func (e Exit) String() string {
	switch {
	case e.Err != nil:
		return e.Err.Error()
	case e.Signal != "":
		return "signal: " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// ErrClosed says that the group is over.
var ErrClosed = errors.New("proc: the run is over: nothing can be started any more")

// Start starts a process.
func (g *Group) Start(c Cmd) (*Process, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("proc: no program to start")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	if g.starts == nil {
		g.id = fmt.Sprintf("%s.%d", program(), groups.Add(1))
		g.starts = make(chan func())
		g.ours = map[*os.File]bool{}
		go starter(g.starts)
	}
	g.count++
	p := &Process{group: g, mark: fmt.Sprintf("%s.%d", g.id, g.count), gone: make(chan struct{}), done: make(chan struct{})}
	p.cmd = exec.Command(c.Args[0], c.Args[1:]...)
	p.cmd.Dir = c.Dir
	p.cmd.Env = append(slices.DeleteFunc(slices.Clone(c.Env), isMark), Mark+"="+outerMark(c.Env)+p.mark)
	setAttributes(p.cmd)

	var l lines
	err := l.connect(p, c)
	if err == nil {
		started := make(chan error)
		g.starts <- func() { started <- register(p) }
		err = <-started
	}
	closeAll(l.theirs)
	if err != nil {
		closeAll(l.ours)
		return nil, fmt.Errorf("proc: %w", err)
	}
	for _, f := range l.ours {
		g.ours[f] = true
	}
	for _, o := range l.outputs {
		go func() {
			o.copy()
			g.mu.Lock()
			delete(g.ours, o.from)
			g.mu.Unlock()
		}()
	}
	if l.feed != nil {
		go l.feed()
	}
	if c.Stdout != nil && len(l.outputs) > 0 {
		p.mute = l.outputs[0].done
	}
	go p.wait(l.outputs)
	return p, nil
}

// starter starts processes, all on one thread: Linux kills a child when the thread that started it ends. The thread ends with
// this function, since it is never unlocked.
func starter(starts <-chan func()) {
	runtime.LockOSThread()
	for f := range starts {
		f()
	}
}

// wait learns how the process ended, and has what it wrote before that read to the end.
func (p *Process) wait(outputs []*output) {
	err := p.cmd.Wait()
	unregister(p)
	close(p.gone)
	for _, o := range outputs {
		o.finish()
	}
	p.exit = exitOf(p.cmd.ProcessState, err)
	p.cmd = nil
	close(p.done)
}

func exitOf(s *os.ProcessState, err error) Exit {
	var ended *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &ended) || s == nil:
		return Exit{Code: -1, Err: err}
	case s.Exited():
		return Exit{Code: s.ExitCode()}
	}
	return Exit{Code: -1, Signal: strings.TrimPrefix(s.String(), "signal: ")}
}

// Pid returns the process's number.
func (p *Process) Pid() int { return p.pid }

// Silent is closed when nobody can write to the process's stdout any more; at the latest when it has ended. If its [Cmd] has no Stdout
// it is nil.
func (p *Process) Silent() <-chan struct{} { return p.mute }

// Stdin writes to the process, if its [Cmd] asked for a pipe.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Done is closed when the process has ended and what it wrote has been read. Descendants that hold its output open are not
// waited for: what they write from then on is thrown away.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until the process is done.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// Signal sends a signal to the process alone.
func (p *Process) Signal(s os.Signal) error { return p.proc.Signal(s) }

// outerMark is what a run around this one has put there: its processes stay known as its own.
func outerMark(env []string) string {
	for _, kv := range slices.Backward(env) {
		if isMark(kv) {
			return kv[len(Mark)+1:] + ","
		}
	}
	if outer := os.Getenv(Mark); outer != "" {
		return outer + ","
	}
	return ""
}

func isMark(kv string) bool { return strings.HasPrefix(kv, Mark+"=") }
