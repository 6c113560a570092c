package rpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-dev/sluice/internal/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns two connected sides, both running, closed at the end of the test.
func pair(t *testing.T, a, b rpc.Options) (*rpc.Conn, *rpc.Conn) {
	left, right := net.Pipe()
	x, y := rpc.New(left, left, a), rpc.New(right, right, b)
	var running sync.WaitGroup
	running.Go(func() { _ = x.Run() })
	running.Go(func() { _ = y.Run() })
	t.Cleanup(func() {
		x.Close()
		y.Close()
		running.Wait()
	})
	return x, y
}

// raw returns a side that runs, and the bare other end of its line.
func raw(t *testing.T, o rpc.Options) (*rpc.Conn, net.Conn, *bufio.Reader) {
	left, right := net.Pipe()
	c := rpc.New(left, left, o)
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run() })
	t.Cleanup(func() {
		c.Close()
		right.Close()
		running.Wait()
	})
	right.SetDeadline(time.Now().Add(20 * time.Second))
	return c, right, bufio.NewReader(right)
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func echo(r *rpc.Request) {
	switch r.Method {
	case "echo":
		_ = r.Reply(r.Params)
	case "fail":
		_ = r.Fail(&rpc.Error{Code: -32010, Message: "no", Data: json.RawMessage(`{"a":1}`)})
	default:
		_ = r.Fail(rpc.Errorf(rpc.CodeMethod, "there is no method %q", r.Method))
	}
}

func TestBothSidesAsk(t *testing.T) {
	x, y := pair(t, rpc.Options{Handle: echo}, rpc.Options{Handle: echo})
	var calls sync.WaitGroup
	for i := range 50 {
		for name, c := range map[string]*rpc.Conn{"x": x, "y": y} {
			calls.Go(func() {
				var got map[string]string
				want := fmt.Sprint(name, i)
				if err := c.Call(within(t), "echo", map[string]string{"v": want}, &got); err != nil || got["v"] != want {
					t.Errorf("%s: %v, %v", want, got, err)
				}
			})
		}
	}
	calls.Wait()
	var e *rpc.Error
	if err := x.Call(within(t), "fail", nil, nil); !errors.As(err, &e) || e.Code != -32010 || string(e.Data) != `{"a":1}` {
		t.Errorf("an error came as %v", err)
	}
	if err := x.Call(within(t), "other", nil, nil); !errors.As(err, &e) || e.Code != rpc.CodeMethod {
		t.Errorf("an unknown method: %v", err)
	}
}

func TestOrder(t *testing.T) {
	var seen []string
	x, _ := pair(t, rpc.Options{Handle: func(r *rpc.Request) { seen = append(seen, r.Method) }}, rpc.Options{Handle: func(r *rpc.Request) {
		for i := range 100 {
			if err := r.Conn.Notify(r.Context(), fmt.Sprint("n", i), nil); err != nil {
				t.Error(err)
			}
		}
		_ = r.Reply("done")
	}})
	if err := x.Call(within(t), "go", nil, nil); err != nil {
		t.Fatal(err)
	}
	// What stood before the answer has been handled when the call returns.
	if len(seen) != 100 || seen[0] != "n0" || seen[99] != "n99" {
		t.Errorf("saw %d: %v", len(seen), seen)
	}
}

// TestLines holds what a strict server answers to every kind of line.
func TestLines(t *testing.T) {
	_, peer, answers := raw(t, rpc.Options{Handle: echo, MaxLine: 1 << 20})
	for _, c := range []struct{ send, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":1}}`, `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`},
		{`{"jsonrpc":"2.0","id":"x y","method":"echo","params":[1, 2]}`, `{"jsonrpc":"2.0","id":"x y","result":[1,2]}`},
		{`{"jsonrpc":"2.0","id":12345678901234567890,"method":"echo"}`, `{"jsonrpc":"2.0","id":12345678901234567890,"result":null}`},
		{`{"jsonrpc":"2.0","id":null,"method":"echo"}`, `{"jsonrpc":"2.0","id":null,"result":null}`},
		{`{"method":"echo","id":7,"jsonrpc":"2.0","more":1}` + "\r", `{"jsonrpc":"2.0","id":7,"result":null}`},
		{`{"id":2,"method":"echo"}`, `{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"\"jsonrpc\":\"2.0\" is missing"}}`},
		{`{"jsonrpc":"1.0","id":2,"method":"echo"}`, `{"jsonrpc":"2.0","id":2,"error":{"code":-32600,`},
		{`hello`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{`{"jsonrpc":"2.0","id":3,`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{`[{"jsonrpc":"2.0","id":3,"method":"echo"}]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches`},
		{`17`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":4,"method":5}`, `{"jsonrpc":"2.0","id":4,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":4}`, `{"jsonrpc":"2.0","id":4,"error":{"code":-32600,"message":"a request names its method"`},
		{`{"jsonrpc":"2.0","id":{},"method":"echo"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":true,"method":"echo"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":6,"method":"echo","params":"` + strings.Repeat("x", 3<<20) + `"}`, `{"jsonrpc":"2.0","id":6,"error":{"code":-32600,"message":"the line is longer than 1048576 bytes"}}`},
		{`{"jsonrpc":"2.0","id":8,"method":"nope"}`, `{"jsonrpc":"2.0","id":8,"error":{"code":-32601,`},
	} {
		// What wants no answer gets none, so the next answer is to what was sent.
		none := "\n{\"jsonrpc\":\"2.0\",\"method\":\"echo\"}\n{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":1}\n"
		if _, err := io.WriteString(peer, none+c.send+"\n"); err != nil {
			t.Fatal(err)
		}
		got, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%.80s\n got %.200s\nwant %s", c.send, got, c.want)
		}
	}
}

func TestStray(t *testing.T) {
	var strays []string
	c, peer, sent := raw(t, rpc.Options{Lenient: true, Stray: func(line []byte) { strays = append(strays, string(line)) }, Handle: echo})
	type result struct {
		v   string
		err error
	}
	done := make(chan result)
	call := func() {
		var v string
		err := c.Call(within(t), "ask", nil, &v)
		done <- result{v, err}
	}
	for n, answer := range []string{`{"id":%d,"result":"yes"}`, `{"id":%d}`, `{"id":%d,"error":"broken"}`, `{"id":%d,"error":{"code":3,"message":"m"}}`} {
		go call()
		if _, err := sent.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(peer, "Loading model...\n[1]\n{\"level\":\"info\"}\n{\"id\":77,\"result\":0}\n"+answer+"\n", n+1)
		got := <-done
		var e *rpc.Error
		switch n {
		case 0:
			if got.v != "yes" || got.err != nil {
				t.Errorf("%+v", got)
			}
		case 1:
			if got.v != "" || got.err != nil {
				t.Errorf("%+v", got)
			}
		default:
			if !errors.As(got.err, &e) {
				t.Errorf("%+v", got)
			}
		}
	}
	if want := "Loading model...|[1]|{\"level\":\"info\"}|{\"id\":77,\"result\":0}"; strings.Join(strays[:4], "|") != want || len(strays) != 16 {
		t.Errorf("strays: %q", strays)
	}
}

// TestTooLongAnswer: who waits for an answer that is too long is told so.
func TestTooLongAnswer(t *testing.T) {
	c, peer, sent := raw(t, rpc.Options{MaxLine: 1 << 18, Stray: func([]byte) {}})
	done := make(chan error)
	go func() { done <- c.Call(within(t), "ask", nil, nil) }()
	if _, err := sent.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(peer, `{"jsonrpc":"2.0","id":1,"result":"%s"}`+"\n", strings.Repeat("x", 1<<20))
	if err := <-done; err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("%v", err)
	}
}

// TestFullPipes: two sides that both answer before they read do not stop each other.
func TestFullPipes(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	slow := func(r *rpc.Request) { _ = r.Reply(big) }
	x, y := pair(t, rpc.Options{Handle: slow}, rpc.Options{Handle: slow})
	var calls sync.WaitGroup
	for range 8 {
		for _, c := range []*rpc.Conn{x, y} {
			calls.Go(func() {
				if err := c.Call(within(t), "ask", big, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
	calls.Wait()
}

func TestCloseUnblocks(t *testing.T) {
	never := func(*rpc.Request) {}
	x, y := pair(t, rpc.Options{}, rpc.Options{Handle: never})
	done := make(chan error, 3)
	for range 3 {
		go func() { done <- x.Call(context.Background(), "wait", nil, nil) }()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := x.Call(ctx, "wait", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context ended: %v", err)
	}
	y.Close() // the other side is gone
	for range 3 {
		if err := <-done; !errors.Is(err, rpc.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%v", err)
		}
	}
	<-x.Done()
	if err := x.Call(context.Background(), "wait", nil, nil); err == nil {
		t.Error("a call on a dead connection went well")
	}
	x.Close()
	if err := x.Notify(context.Background(), "n", nil); !errors.Is(err, rpc.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

// TestCloseWhileNobodyReads: a notification that nobody takes is given up when the connection is closed.
func TestCloseWhileNobodyReads(t *testing.T) {
	c, _, _ := raw(t, rpc.Options{})
	done := make(chan error)
	go func() { done <- c.Notify(context.Background(), "n", "text") }()
	c.Close()
	if err := <-done; err == nil {
		t.Error("it was never read")
	}
}

// TestWriterBreaks: a call that cannot be sent does not wait for its answer.
func TestWriterBreaks(t *testing.T) {
	r, w := io.Pipe()
	c := rpc.New(r, broken{}, rpc.Options{})
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run() })
	if err := c.Call(context.Background(), "ask", nil, nil); err == nil || err.Error() != "no room" {
		t.Errorf("%v", err)
	}
	w.Close()
	running.Wait()
	c.Close()
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestHalfClosed: who says all at once and closes its side is answered.
func TestHalfClosed(t *testing.T) {
	var out strings.Builder
	later := make(chan *rpc.Request, 1)
	c := rpc.New(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ask"}`), &out, rpc.Options{Handle: func(r *rpc.Request) { later <- r }})
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	r := <-later
	if err := r.Reply(1); err != nil {
		t.Fatal(err)
	}
	if err := r.Reply(2); !errors.Is(err, rpc.ErrAnswered) {
		t.Errorf("a second answer: %v", err)
	}
	if err := c.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if got := out.String(); got != `{"jsonrpc":"2.0","id":1,"result":1}`+"\n" {
		t.Errorf("%q", got)
	}
}
