package proc

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// lines are the pipes between us and a process.
type lines struct {
	ours, theirs []*os.File
	outputs      []*output
	feed         func() // writes stdin
}

func (l *lines) connect(p *Process, c Cmd) error {
	if c.Terminal != nil {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = c.Terminal, c.Terminal, c.Terminal
		l.theirs = append(l.theirs, c.Terminal)
		setTerminal(p.cmd)
		return nil
	}
	if c.Pipe || c.Stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		p.cmd.Stdin = r
		l.ours, l.theirs = append(l.ours, w), append(l.theirs, r)
		if c.Pipe {
			p.stdin = w
		} else {
			l.feed = func() { io.Copy(w, c.Stdin); w.Close() }
		}
	}
	if c.Stdout != nil {
		w, err := l.output(c.Stdout)
		if err != nil {
			return err
		}
		p.cmd.Stdout = w
	}
	switch {
	case c.Stderr == nil:
	case c.Stdout != nil && same(c.Stdout, c.Stderr):
		p.cmd.Stderr = p.cmd.Stdout
	default:
		w, err := l.output(c.Stderr)
		if err != nil {
			return err
		}
		p.cmd.Stderr = w
	}
	return nil
}

func (l *lines) output(to io.Writer) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	l.ours, l.theirs = append(l.ours, r), append(l.theirs, w)
	l.outputs = append(l.outputs, &output{from: r, to: to, done: make(chan struct{})})
	return w, nil
}

// same says whether two writers are one. Writers that cannot be compared are two.
func same(a, b io.Writer) (yes bool) {
	defer func() { recover() }()
	return a == b
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// An output is read to its end, which may be long after the process's: a descendant that still writes must not be stopped by
// a pipe that nobody reads.
type output struct {
	from *os.File
	to   io.Writer
	off  atomic.Bool // nobody wants the rest
	done chan struct{}
}

// drainTime is how long a system that cannot say whether a pipe is empty waits for its end.
const drainTime = 200 * time.Millisecond

// copy gives what comes to the writer, until the process is over and the pipe empty; then it reads on for nobody.
func (o *output) copy() {
	defer o.from.Close()
	buf := make([]byte, 32<<10)
	finished := false
	for {
		n, err := o.from.Read(buf)
		o.write(buf[:n])
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && !finished:
			ended := drain(o.from, buf, o.write)
			finished = true
			o.off.Store(true)
			close(o.done)
			if ended {
				return
			}
			o.from.SetReadDeadline(time.Time{})
		default:
			if !finished {
				close(o.done)
			}
			return
		}
	}
}

func (o *output) write(data []byte) {
	if len(data) > 0 && !o.off.Load() {
		if _, err := o.to.Write(data); err != nil {
			o.off.Store(true)
		}
	}
}

// finish returns when all that was written so far has been given to the writer, which is then left alone.
func (o *output) finish() {
	if o.from.SetReadDeadline(time.Unix(1, 0)) != nil {
		select {
		case <-o.done:
		case <-time.After(drainTime):
			o.off.Store(true)
		}
		return
	}
	<-o.done
}
