package control

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/sluice-dev/sluice/internal/rpc"
)

// A Client talks to a [Server].
type Client struct {
	conn    *rpc.Conn
	running sync.WaitGroup
}

// An Event is what a subscriber is told.
type Event struct {
	RuntimeID string          `json:"runtime_id"`
	Seq       uint64          `json:"seq"`
	More      bool            `json:"more"`           // the same event says more
	Line      json.RawMessage `json:"line,omitempty"` // as the run said it; nil in avenor's dialect, where it is Raw
	Raw       json.RawMessage `json:"-"`              // as it came
}

// Dial connects to a socket. Events are given to told, which may be nil, in order; as long as it has not returned, nothing else
// is read. If nobody serves the socket the error is an [ErrNobody].
func Dial(ctx context.Context, path string, told func(Event)) (*Client, error) {
	c, err := dial(ctx, path)
	if err != nil {
		return nil, err
	}
	cl := &Client{}
	cl.conn = rpc.New(c, c, rpc.Options{Handle: func(r *rpc.Request) {
		e := Event{Raw: r.Params}
		if r.Method != "event" || told == nil {
			return
		}
		if err := json.Unmarshal(r.Params, &e); err == nil {
			told(e)
		}
	}, Stray: func([]byte) {}})
	cl.running.Go(func() { _ = cl.conn.Run() }) // who waits for an answer hears of it
	return cl, nil
}

// Close ends the connection. It must not be called by who is being told an event.
func (c *Client) Close() {
	c.conn.Close()
	c.running.Wait()
}

// Done is closed when the server is gone.
func (c *Client) Done() <-chan struct{} { return c.conn.Done() }

// Call calls any method. What the server says went wrong is an [*rpc.Error].
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	return c.conn.Call(ctx, method, params, result)
}

// Identity says who serves the socket.
func (c *Client) Identity(ctx context.Context) (i Identity, err error) {
	return i, c.Call(ctx, "identity", nil, &i)
}

// Status says where a run stands; without an id the only one.
func (c *Client) Status(ctx context.Context, run string) (s Status, err error) {
	err = c.Call(ctx, "status", target{run}, &s)
	return s, err
}

// Result is the whole of what the agent said in its last reply.
func (c *Client) Result(ctx context.Context, run string) (string, error) {
	var r Result
	err := c.Call(ctx, "result", target{run}, &r)
	return r.FinalOutput, err
}

// List says where every run stands.
func (c *Client) List(ctx context.Context) ([]Status, error) {
	var l List
	err := c.Call(ctx, "list", nil, &l)
	return l.Runtimes, err
}

// Subscribe asks for events. It returns the number of the last event that was there.
func (c *Client) Subscribe(ctx context.Context, s Subscribe) (latest uint64, err error) {
	var a subscribed
	err = c.Call(ctx, "subscribe", s, &a)
	return a.LatestSeq, err
}

// History returns a part of what a run said.
func (c *Client) History(ctx context.Context, s Subscribe) (h History, err error) {
	err = c.Call(ctx, "history", s, &h)
	return h, err
}

// Prompt asks for a reply.
func (c *Client) Prompt(ctx context.Context, p Prompt) error { return c.Call(ctx, "prompt", p, nil) }

// Interrupt stops the reply that goes on and asks for another.
func (c *Client) Interrupt(ctx context.Context, p Prompt) error {
	return c.Call(ctx, "interrupt_and_prompt", p, nil)
}

// Cancel ends a run.
func (c *Client) Cancel(ctx context.Context, run string) error {
	return c.Call(ctx, "cancel", target{run}, nil)
}

// Answer answers a question.
func (c *Client) Answer(ctx context.Context, a Answer) error {
	return c.Call(ctx, "answer_permission", a, nil)
}

// Emit puts an event of one's own into a run: an object that has a name in "event".
func (c *Client) Emit(ctx context.Context, run string, event json.RawMessage) error {
	if !json.Valid(event) {
		return fmt.Errorf("the event is not JSON: %.80s", event)
	}
	return c.Call(ctx, "emit", map[string]any{"runtime_id": run, "event": event}, nil)
}

// Spawn begins a run.
func (c *Client) Spawn(ctx context.Context, p Spawn) (s Status, err error) {
	err = c.Call(ctx, "spawn", p, &s)
	return s, err
}

// Shutdown ends the server's process, "graceful" or "kill".
func (c *Client) Shutdown(ctx context.Context, mode string) error {
	return c.Call(ctx, "shutdown", map[string]string{"mode": mode}, nil)
}
