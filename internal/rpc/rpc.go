// Package rpc is JSON-RPC 2.0, one message to a line. Both sides may ask, and both may be asked.
//
//	reader ──line──▶ Run ──▶ Handle(*Request) ──Reply──┐
//	                  └────▶ the Call that waits        ├──▶ queue ──one write a line──▶ writer
//	                         Call, Notify ──────────────┘
//
// # Order
//
// Messages are taken in the order of their lines, one after another: a notification that stands before an answer has been
// handled when the [Conn.Call] returns that the answer is for. What is sent by one goroutine goes out in its order.
//
// # Nobody waits for ever
//
// Answers are queued, so that a side which writes before it reads does not stop the other. A queue that has grown too long
// is waited for. Close ends whatever waits.
package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/sluice-dev/sluice/internal/wire"
)

// Errors of a connection.
var (
	ErrClosed   = errors.New("the connection is closed")
	ErrAnswered = errors.New("the request has been answered")
)

// The codes that the protocol itself has, and the one for whatever else went wrong.
const (
	CodeParse   = -32700 // not JSON
	CodeInvalid = -32600 // JSON, but no request
	CodeMethod  = -32601 // no such method
	CodeParams  = -32602 // parameters that the method does not take
	CodeFailed  = -32000 // it could not be done
)

// An Error is what the other side is told, or told us.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error without data.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Options say how a connection behaves. The zero Options are those of a strict server that knows no method.
type Options struct {
	// Handle takes what the other side asks, in order, on the goroutine that reads: it must not wait for the other side. It
	// answers now, or later from any goroutine. Nil: there is no method.
	Handle func(*Request)

	// Stray takes lines that are no message: a program's chatter, a line that is too long (only its beginning), an answer
	// that nobody waits for. A line is good until Stray returns. Nil: the other side is told that it sent something wrong.
	Stray func(line []byte)

	Lenient bool // "jsonrpc":"2.0" may be missing
	MaxLine int  // bytes; 0 means 64 MiB
}

const (
	maxLine = 64 << 20
	backlog = 16 << 20 // of what is queued and not written
)

// A Conn is one connection. It may be used by many goroutines at once.
type Conn struct {
	r io.Reader
	w io.Writer
	o Options

	ended  chan struct{} // Run has returned: nothing is answered any more
	closed chan struct{}
	once   sync.Once
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex
	last    uint64
	waiting map[string]chan<- message // by id
	gone    bool                      // no answer will come

	out queue
}

// New makes a connection of a reader and a writer. [Conn.Run] makes it work.
func New(r io.Reader, w io.Writer, o Options) *Conn {
	if o.MaxLine == 0 {
		o.MaxLine = maxLine
	}
	c := &Conn{r: r, w: w, o: o, ended: make(chan struct{}), closed: make(chan struct{}), waiting: map[string]chan<- message{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.out.init()
	go c.out.drain(w, c.closed)
	return c
}

// A message is any line: a request, a notification or an answer.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

const version = "2.0"

// Call asks, and waits for the answer. The result is decoded into result, unless that is nil. What the other side says went
// wrong is an [*Error]. If ctx ends first, an answer that still comes is forgotten.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	answer := make(chan message, 1)
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return c.err()
	}
	c.last++
	id := fmt.Sprint(c.last)
	c.waiting[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	if err := c.send(ctx, message{ID: json.RawMessage(id), Method: method, Params: raw(params)}); err != nil {
		return err
	}
	select {
	case m := <-answer:
		return m.into(result)
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ended:
	case <-c.out.broken:
	}
	select {
	case m := <-answer: // it was the last thing that came
		return m.into(result)
	default:
		return c.err()
	}
}

func (m message) into(result any) error {
	if m.Error != nil {
		return m.Error
	}
	if result == nil || len(m.Result) == 0 {
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

// Notify tells something that has no answer. It returns when the line has been written, so that who tells much is held up by
// a reader who reads slowly.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	if err := c.send(ctx, message{Method: method, Params: raw(params)}); err != nil {
		return err
	}
	return c.Flush(ctx)
}

// Flush waits until all that was sent so far has been written.
func (c *Conn) Flush(ctx context.Context) error { return c.out.wait(ctx, c.out.end()) }

func raw(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	return wire.Append(nil, v)
}

// send queues a message.
func (c *Conn) send(ctx context.Context, m message) error {
	m.Version = version
	end, err := c.out.add(append(wire.Append(nil, m), '\n'))
	if err != nil {
		return err
	}
	return c.out.wait(ctx, end-backlog)
}

// Run reads and handles messages until the other side has no more, and then returns nil; or until something breaks, or Close.
// After it nothing is answered any more, but answers that we owe can still be sent, until Close.
func (c *Conn) Run() error {
	defer func() {
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
		close(c.ended)
	}()
	lines := wire.NewLines(c.r)
	lines.Keep = func(head []byte) bool { return len(head) < c.o.MaxLine }
	for {
		line, err := lines.Next()
		select {
		case <-c.closed:
			return ErrClosed
		default:
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case lines.Cut():
			c.tooLong(line)
		default:
			c.take(line)
		}
	}
}

// Done is closed when Run has returned.
func (c *Conn) Done() <-chan struct{} { return c.ended }

// Close ends the connection: calls, Run and everything else that waits return. It closes the reader and the writer if they can
// be closed, and does not wait for what is still queued: see [Conn.Flush].
func (c *Conn) Close() error {
	var err error
	c.once.Do(func() {
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
		c.cancel()
		c.out.fail(ErrClosed)
		close(c.closed)
		w, _ := c.w.(io.Closer)
		if w != nil {
			err = w.Close()
		}
		if r, ok := c.r.(io.Closer); ok && r != w {
			err = errors.Join(err, r.Close())
		}
	})
	return err
}

// err says why nothing is answered any more.
func (c *Conn) err() error {
	if err := c.out.error(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the other side is gone", ErrClosed)
}

// A Request is what the other side asks, or tells.
type Request struct {
	Method string
	Params json.RawMessage // as they were sent; nil if there were none
	ID     json.RawMessage // as it was sent; nil if no answer is wanted
	Conn   *Conn

	answered atomic.Bool
}

// Context ends when the connection is closed.
func (r *Request) Context() context.Context { return r.Conn.ctx }

// Decode reads the parameters into v. If they were left out, v stays as it is. The error is one to answer with.
func (r *Request) Decode(v any) error {
	if len(r.Params) == 0 {
		return nil
	}
	err := json.Unmarshal(r.Params, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &wrong):
		return Errorf(CodeParams, "the parameters of %s: %v", r.Method, err)
	case wrong.Field == "":
		return Errorf(CodeParams, "the parameters of %s are an object, and not %s", r.Method, wrong.Value)
	}
	e := Errorf(CodeParams, "the parameters of %s: %s cannot be %s", r.Method, wrong.Field, wrong.Value)
	e.Data = raw(map[string]string{"required": wrong.Field})
	return e
}

// Reply answers with a result. Who wants no answer gets none.
func (r *Request) Reply(result any) error {
	body := raw(result)
	if body == nil {
		body = json.RawMessage("null")
	}
	return r.answer(message{Result: body})
}

// Fail answers with an error; one that is no [*Error] has CodeFailed.
func (r *Request) Fail(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		e = Errorf(CodeFailed, "%v", err)
	}
	return r.answer(message{Error: e})
}

func (r *Request) answer(m message) error {
	if r.answered.Swap(true) {
		return ErrAnswered
	}
	if r.ID == nil {
		return nil
	}
	m.ID = r.ID
	return r.Conn.send(r.Conn.ctx, m)
}
