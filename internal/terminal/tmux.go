//go:build unix

package terminal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-dev/sluice/internal/proc"
)

// OpenTmux starts a program in a pane of a tmux server that nobody else uses.
func OpenTmux(o Options) (Terminal, error) {
	program, err := exec.LookPath("tmux")
	if err != nil {
		return nil, errors.New("there is no tmux here; without it a pseudo-terminal is used")
	}
	dir, err := os.MkdirTemp(o.Temp, "sluice-tmux-")
	if err != nil {
		return nil, err
	}
	t := &tmux{group: o.Group, program: program, socket: filepath.Join(dir, "s"), dir: dir, changed: make(chan struct{}, 1), exited: make(chan struct{})}
	cols, rows := o.size()
	args := []string{"new-session", "-d", "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows), "-s", "guest", "-c", o.Dir}
	// More than one argument is a list that tmux starts as it is; a single one would be a line for a shell.
	args = append(args, "--")
	args = append(args, "env", "--")
	args = append(args, o.Args...)
	t.env = o.Env
	if _, err := t.ask(nil, append([]string{"set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "status", "off", ";"}, args...)...); err != nil {
		t.Close()
		return nil, fmt.Errorf("tmux: %w", err)
	}
	said, err := t.ask(nil, "display-message", "-p", "-t", "guest", "#{pane_pid}")
	if t.pid, _ = strconv.Atoi(strings.TrimSpace(said)); err != nil || t.pid <= 1 {
		t.Close()
		return nil, errors.New("tmux: the program did not start")
	}
	if err := t.follow(); err != nil {
		t.Close()
		return nil, fmt.Errorf("tmux: %w", err)
	}
	return t, nil
}

// A tmux is a pane. Its server dies with it.
type tmux struct {
	group   *proc.Group
	program string
	socket  string
	dir     string
	env     []string
	changed chan struct{}
	exited  chan struct{}
	once    sync.Once
	exit    proc.Exit
	pid     int          // of the program
	dead    atomic.Int64 // when it was first seen to be gone and not how it ended, in milliseconds
	busy    sync.WaitGroup

	client *proc.Process // is told when the pane changes
}

const (
	tmuxTime = 10 * time.Second // how long it may take to do what it is asked
	tmuxDead = 3 * time.Second  // and to learn how a program ended: it may never, of one that ended as soon as it began
)

// ask gives tmux commands and returns what it says.
func (t *tmux) ask(stdin io.Reader, args ...string) (string, error) {
	var out, errs bytes.Buffer
	p, err := t.group.Start(proc.Cmd{
		Args: append([]string{t.program, "-S", t.socket, "-f", "/dev/null"}, args...), Env: t.env, Stdin: stdin, Stdout: &out, Stderr: &errs,
	})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), tmuxTime)
	defer cancel()
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Signal(os.Kill)
		return "", errors.New("it does not answer")
	}
	if exit := p.Wait(); exit.Code != 0 {
		return "", errors.New(strings.TrimSpace(errs.String() + " " + exit.String()))
	}
	return out.String(), nil
}

// follow attaches a client that hears when the pane changes, so that nobody has to look again and again.
func (t *tmux) follow() error {
	r, w := io.Pipe()
	var err error
	t.client, err = t.group.Start(proc.Cmd{
		Args: []string{t.program, "-S", t.socket, "-C", "attach-session", "-f", "read-only", "-t", "guest"}, Env: t.env, Pipe: true, Stdout: w,
	})
	if err != nil {
		return err
	}
	t.busy.Go(func() {
		<-t.client.Done()
		w.Close()
	})
	t.busy.Go(func() {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			select {
			case t.changed <- struct{}{}:
			default:
			}
			if !strings.HasPrefix(lines.Text(), "%output") {
				t.look()
			}
		}
		io.Copy(io.Discard, r)
		t.over(proc.Exit{Code: -1, Err: errors.New("tmux has ended")})
	})
	t.busy.Go(func() { // a pane that dies is not told to everybody
		for {
			select {
			case <-t.exited:
				return
			case <-time.After(250 * time.Millisecond):
				t.look()
			}
		}
	})
	return nil
}

// look sees whether the program is still there. That it is gone is known a moment before how it ended.
func (t *tmux) look() {
	said, err := t.ask(nil, "display-message", "-p", "-t", "guest", "#{pane_dead},#{pane_dead_status},#{pane_dead_signal},#{pid}")
	if err != nil {
		t.over(proc.Exit{Code: -1, Err: err})
		return
	}
	words := strings.Split(strings.TrimSpace(said)+",,,", ",")
	code, err := strconv.Atoi(words[1])
	server, _ := strconv.Atoi(words[3])
	switch {
	case words[0] != "1":
	case err == nil:
		t.over(proc.Exit{Code: code})
	case words[2] != "":
		t.over(proc.Exit{Code: -1, Signal: words[2]})
	case t.dead.CompareAndSwap(0, time.Now().UnixMilli()):
	case time.Now().UnixMilli()-t.dead.Load() > tmuxDead.Milliseconds():
		t.over(proc.Exit{Code: -1, Err: errors.New("tmux does not say how")})
	case server > 1: // it sometimes misses that a child has died, and asks when it is told again
		_ = syscall.Kill(server, syscall.SIGCHLD)
	}
}

func (t *tmux) over(e proc.Exit) {
	t.once.Do(func() {
		t.exit = e
		close(t.exited)
	})
}

func (t *tmux) Kind() string { return "tmux" }

func (t *tmux) Screen() string {
	said, err := t.ask(nil, "capture-pane", "-p", "-t", "guest")
	if err != nil {
		return ""
	}
	return trimmed(said)
}

func (t *tmux) Changed() <-chan struct{} { return t.changed }

func (t *tmux) Type(keys string) error {
	select {
	case <-t.exited:
		return ErrExited
	default:
	}
	for _, k := range strings.SplitAfter(keys, Enter) {
		text, enter := strings.CutSuffix(k, Enter)
		if text == Escape {
			if _, err := t.ask(nil, "send-keys", "-t", "guest", "Escape"); err != nil {
				return err
			}
		} else if text != "" {
			if _, err := t.ask(nil, "send-keys", "-t", "guest", "-l", "--", text); err != nil {
				return err
			}
		}
		if enter {
			if _, err := t.ask(nil, "send-keys", "-t", "guest", "Enter"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tmux) Paste(text string) error {
	_, err := t.ask(strings.NewReader(printable(text)), "load-buffer", "-b", "prompt", "-", ";", "paste-buffer", "-p", "-d", "-b", "prompt", "-t", "guest")
	return err
}

func (t *tmux) Exited() <-chan struct{} { return t.exited }

func (t *tmux) Exit() proc.Exit {
	<-t.exited
	return t.exit
}

func (t *tmux) Close() {
	_, err := t.ask(nil, "kill-server")
	_ = err // it may have ended by itself; whatever is left, the group kills
	t.over(proc.Exit{Code: -1, Signal: "killed"})
	if t.client != nil {
		t.client.Kill()
	}
	t.busy.Wait()
	t.bury()
	os.RemoveAll(t.dir)
}

// bury waits until the program is gone: the server that it belonged to is. One that does not go is killed, with its session.
func (t *tmux) bury() {
	if t.pid <= 1 {
		return
	}
	for range 50 {
		if syscall.Kill(-t.pid, 0) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = syscall.Kill(-t.pid, syscall.SIGKILL) // it went at the last moment
	for range 100 {
		if syscall.Kill(-t.pid, 0) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
