package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-dev/sluice/internal/proc"
)

// cancelled is what a server is told of a call that nobody waits for any more.
const cancelled = "notifications/cancelled"

const (
	messageLimit = 16 << 20 // bytes of one message
	stuckTime    = 500 * time.Millisecond
	leaveTime    = 200 * time.Millisecond // many servers do not leave when their stdin ends: they wait for TERM
)

// A child is a server that we started: its stdin and stdout carry one message a line. A line that is none is noise, which many
// servers make when they start; it is kept, and does no harm.
type child struct {
	link    *link
	process *proc.Process
	errors  lineWriter
	out     *io.PipeReader // its stdout
	lines   *bufio.Reader  // of that
	queue   []jsonrpc.Message
	writing chan struct{} // whoever has put something in may write
	closed  chan struct{}
	once    sync.Once
	cancels atomic.Int32

	mu    sync.Mutex
	fault error // why we broke the connection
}

func openChild(l *link) (*child, error) {
	r, w := io.Pipe()
	c := &child{link: l, out: r, lines: bufio.NewReaderSize(r, 64<<10), writing: make(chan struct{}, 1), closed: make(chan struct{})}
	c.errors.line = l.notes.line
	env := slices.Clone(l.hub.opt.Env)
	for _, name := range slices.Sorted(maps.Keys(l.server.Env)) {
		env = append(env, name+"="+l.server.Env[name])
	}
	dir := l.server.Dir
	if dir == "" {
		dir = l.hub.opt.Workspace
	}
	var err error
	c.process, err = l.hub.opt.Group.Start(proc.Cmd{Args: l.server.Command, Dir: dir, Env: env, Pipe: true, Stdout: w, Stderr: &c.errors})
	if err != nil {
		return nil, err
	}
	l.hub.work.Go(func() {
		<-c.process.Done()
		c.errors.flush()
		w.Close()
	})
	return c, nil
}

// Connect makes the child a transport.
func (c *child) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID makes it a connection.
func (c *child) SessionID() string { return "" }

// Read returns the next message.
func (c *child) Read(context.Context) (jsonrpc.Message, error) {
	for len(c.queue) == 0 {
		line, err := c.next()
		if err != nil {
			return nil, err
		}
		if list, err := decode(line); err == nil {
			c.queue = list
		} else {
			c.heard(line)
		}
	}
	m := c.queue[0]
	c.queue = c.queue[1:]
	return m, nil
}

// next reads a line. One that is too long to be kept ends the connection: nobody can say whom it would have answered.
func (c *child) next() (line []byte, err error) {
	for {
		piece, err := c.lines.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > messageLimit:
			c.cut(fmt.Errorf("it sent a message of more than %d MB", messageLimit>>20))
			return nil, io.EOF
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(bytes.TrimSpace(line)) > 0: // the last line has no newline
			return line, nil
		default:
			return line, err
		}
	}
}

// decode reads a line as a message, or as a list of them, as old servers may send it.
func decode(line []byte) ([]jsonrpc.Message, error) {
	line = bytes.TrimSpace(line)
	parts := []json.RawMessage{line}
	if len(line) > 0 && line[0] == '[' {
		if err := json.Unmarshal(line, &parts); err != nil {
			return nil, err
		}
	}
	var list []jsonrpc.Message
	for _, part := range parts {
		m, err := jsonrpc.DecodeMessage(part)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// heard keeps a line that is not a message.
func (c *child) heard(line []byte) {
	text := oneLine(string(line[:min(len(line), 4*noteLimit)]), noteLimit)
	if text == "" {
		return
	}
	c.link.notes.line(text)
	c.link.sayOnce("writes to stdout what is not MCP: %s", cut(text, 120))
}

// Write sends a message. A server that does not read is one that has ended.
func (c *child) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return io.EOF
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := c.process.Stdin().Write(append(data, '\n'))
		<-c.writing
		wrote <- err
	}()
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == cancelled {
		defer c.cancels.Add(1)
	}
	select {
	case err = <-wrote:
		return err
	case <-ctx.Done():
	case <-c.closed:
	}
	select {
	case err = <-wrote:
		return err
	case <-time.After(stuckTime): // half a message is no message
		c.cut(errors.New("it does not read what it is sent"))
		return errors.Join(ctx.Err(), io.ErrShortWrite)
	}
}

// Close ends the connection: a server whose stdin has ended is to leave.
func (c *child) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.process.Stdin().Close()
		c.out.CloseWithError(io.EOF)
	})
	return nil
}

func (c *child) cut(why error) {
	c.mu.Lock()
	if c.fault == nil {
		c.fault = why
	}
	c.mu.Unlock()
	c.Close()
}

// shut waits a moment for the process to leave, and kills what is there then: it, and what it started.
func (c *child) shut() {
	c.Close()
	select {
	case <-c.process.Done():
	case <-time.After(leaveTime):
	}
	c.process.Kill()
}

func (c *child) told() int32 { return c.cancels.Load() }

func (c *child) ended() <-chan struct{} { return c.process.Done() }

func (c *child) why() string {
	c.mu.Lock()
	fault := c.fault
	c.mu.Unlock()
	var text string
	select {
	case <-c.process.Done():
		text = "it ended, " + c.process.Wait().String()
	default:
	}
	if fault != nil {
		text = fault.Error()
	}
	if last := c.link.notes.latest(); last != "" && text != "" {
		text += "; the last that it wrote: " + cut(last, 200)
	}
	return text
}
