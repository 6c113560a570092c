package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/proc"
)

const (
	defaultTimeout = 2 * time.Minute
	defaultMost    = 10 * time.Minute
)

// bash runs commands. It never waits for a descendant that goes on in the background: that lives until the run ends.
type bash struct {
	w       *Workspace
	o       Options
	jobs    *jobs
	program func() string
}

func newBash(w *Workspace, o Options, j *jobs) bash { return bash{w, o, j, sync.OnceValue(shell)} }

// shell finds a shell.
func shell() string {
	for _, name := range []string{"bash", "sh"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return "/bin/sh"
}

func (t bash) Spec() Spec {
	return Spec{
		Name:  "bash",
		Class: event.ClassExec,
		Description: fmt.Sprintf("Runs a shell command in the workspace, each in a fresh shell: cd and variables do not last. There is no terminal and "+
			"no stdin, and nobody who could answer a question. It is killed after timeout milliseconds (default %d, at most %d). With "+
			"background it goes on while you do other things, and what it says goes to a file that you are told. Whatever runs is killed when the "+
			"run ends. "+
			"To read, find and change files use the other tools.", t.o.Timeout.Milliseconds(), t.o.MaxTimeout.Milliseconds()),
		Schema: event.Raw(`{"type":"object","properties":{` +
			`"command":{"type":"string","description":"The command."},` +
			`"description":{"type":"string","description":"What it does, in five to ten words."},` +
			`"timeout":{"type":"integer","minimum":1,"description":"Milliseconds until it is killed."},` +
			`"background":{"type":"boolean","description":"Do not wait for it."}},` +
			`"required":["command"]}`),
	}
}

type bashArgs struct {
	Command     string `json:"command"`
	Description string `json:"description"`
	Timeout     int64  `json:"timeout"`
	Background  bool   `json:"background"`
}

func (t bash) Plan(input event.Raw) (Plan, error) {
	var a bashArgs
	if err := decode(input, &a, "command"); err != nil {
		return Plan{}, err
	}
	switch {
	case strings.TrimSpace(a.Command) == "":
		return Plan{}, errors.New("the command is empty")
	case strings.ContainsRune(a.Command, 0):
		return Plan{}, errors.New("the command has a NUL in it")
	case a.Timeout < 0:
		return Plan{}, errors.New("timeout is in milliseconds, from 1 up")
	case t.w.err != nil:
		return Plan{}, fmt.Errorf("the workspace cannot be opened: %w", t.w.err)
	}
	limit := t.o.Timeout
	if a.Timeout > 0 {
		limit = min(time.Duration(min(a.Timeout, 1<<40))*time.Millisecond, t.o.MaxTimeout)
	}
	run := func(ctx context.Context, out func(string)) Result { return t.run(ctx, a.Command, limit, out) }
	if a.Background {
		run = func(context.Context, func(string)) Result { return t.begin(a.Command) }
	}
	judge := gate.Command
	if filepath.Base(t.program()) != "bash" {
		judge = gate.ShCommand // it may read some commands differently
	}
	return Plan{Title: title(a.Command), Access: judge(a.Command, t.w.Resolve), Run: run}, nil
}

// title is the first line of a command.
func title(command string) string {
	const most = 100
	line, rest, _ := strings.Cut(strings.TrimSpace(command), "\n")
	if r := []rune(line); len(r) > most {
		return string(r[:most]) + "…"
	}
	if rest != "" {
		line += " …"
	}
	return line
}

func (t bash) start(command string, to io.Writer) (*proc.Process, error) {
	env := t.o.Env()
	return t.o.Group.Start(proc.Cmd{
		Args: t.o.Sandbox([]string{t.program(), "-c", command}), Dir: t.w.base, Env: append(env[:len(env):len(env)], "PWD="+t.w.base),
		Stdout: to, Stderr: to,
	})
}

func (t bash) capture(out func(string)) *capture {
	return &capture{out: out, keep: t.o.Keep, spill: spill{dir: t.o.Spill, limit: t.o.MaxSpill}}
}

// lastWords is how long a command that was killed has for what it said to be read.
const lastWords = time.Second

func (t bash) run(ctx context.Context, command string, limit time.Duration, out func(string)) Result {
	if err := ctx.Err(); err != nil {
		return Result{Error: "cancelled before it began"}
	}
	c := t.capture(out)
	clean := t.o.Clean(c)
	p, err := t.start(command, clean)
	if err != nil {
		c.finish()
		return Result{Error: err.Error()}
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var r Result
	select {
	case <-p.Done():
		if e := p.Wait(); e.Code != 0 || e.Err != nil {
			r.Error = e.String()
			if e.Code >= 0 {
				r.Exit = &e.Code
			}
		} else {
			r.Exit = new(0)
		}
	case <-timer.C:
		r.Error = fmt.Sprintf("timed out after %v and was killed: set timeout (at most %d), or run it in the background", limit, t.o.MaxTimeout.Milliseconds())
		end(p)
	case <-ctx.Done():
		r.Error = "cancelled: it was killed"
		end(p)
	}
	var file string
	_ = clean.Close() // a capture takes everything
	r.Output, file, r.Truncated = c.finish()
	if file != "" {
		r.Metadata = metadata(map[string]string{"spill": file})
	}
	return r
}

// end kills a command and all that descends from it.
func end(p *proc.Process) {
	p.Kill()
	select {
	case <-p.Done():
	case <-time.After(lastWords):
	}
}
