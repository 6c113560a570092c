package modelserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// one is a script of one step with a fault.
func one(fault string) string {
	return `
model: m
steps:
  - content: [{thinking: Thinking.}, {text: "Hello, you!!"}, {call: {tool: bash, input: {command: ls}}}]
    chunk: 2
    fault: ` + fault + "\n"
}

var signed = Options{AccessKey: testAccessKey, SecretKey: testSecretKey}

func TestStatus(t *testing.T) {
	words := map[string]string{
		"anthropic": "overloaded_error", "vertex": "overloaded_error", "bedrock": "ServiceUnavailableException",
		"chat": "server_overloaded", "responses": "server_overloaded", "gemini": "UNAVAILABLE", "gemini array": "UNAVAILABLE",
	}
	each(t, func(t *testing.T, format string, talk func(string) talker, stream bool) {
		srv := serve(t, one(`{status: 529, message: busy, headers: {retry-after: 7, x-odd: "yes"}, times: 1}`), signed)
		k := talk(srv.URL)
		_, err := k.ask(soon(t), stream)
		if status, kind, message := refusalOf(err); status != 529 || kind != words[format] || message != "busy" {
			t.Errorf("%d %q %q", status, kind, message)
		}
		if h := headerOf(err); h.Get("Retry-After") != "7" || h.Get("X-Odd") != "yes" {
			t.Errorf("headers: %v", h)
		}
		if _, err := k.ask(soon(t), stream); err != nil {
			t.Errorf("the second time: %v", err)
		}
		srv = serve(t, one(`{status: 418, type: teapot_error}`), signed)
		_, err = talk(srv.URL).ask(soon(t), stream)
		if status, kind, message := refusalOf(err); status != 418 || kind != "teapot_error" || message != "the script answers with status 418" {
			t.Errorf("%d %q %q", status, kind, message)
		}
	})
}

// An answer that breaks off has said what it said, and nothing of it looks like an end.
func TestCut(t *testing.T) {
	const thinking, text, call = "Thinking.", "Hello, you!!", `{"command":"ls"}`
	for _, c := range []struct {
		place string
		want  heard
	}{
		{"start", heard{}},
		{"thinking", heard{Thinking: thinking[:4]}},
		{"text", heard{Thinking: thinking, Text: text[:6]}},
		{"call", heard{Thinking: thinking, Text: text}},
		{"end", heard{Thinking: thinking, Text: text}},
	} {
		t.Run(c.place, func(t *testing.T) {
			each(t, func(t *testing.T, format string, talk func(string) talker, stream bool) {
				srv := serve(t, one("{cut: "+c.place+"}"), signed)
				got, err := talk(srv.URL).ask(soon(t), stream)
				if err == nil {
					t.Fatalf("no error: %+v", got)
				}
				if status, _, _ := refusalOf(err); status >= 400 {
					t.Errorf("it was refused: %v", err)
				}
				if !stream {
					return
				}
				for _, c := range got.Calls {
					if c.Input != call && c.Input != call[:8] && c.Input != "" {
						t.Errorf("the call's arguments are %q", c.Input)
					}
				}
				if diff := cmp.Diff(c.want, heard{Thinking: got.Thinking, Text: got.Text}); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		})
	}
}

// Each way of talking nonsense is noticed by a client that looks.
func TestNonsense(t *testing.T) {
	for _, c := range []struct{ fault, says string }{
		{"{malformed: true}", ""},
		{"{wrong_json: true}", ""},
		{"{in_stream: overloaded_error, message: so busy}", "so busy"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			each(t, func(t *testing.T, format string, talk func(string) talker, stream bool) {
				srv := serve(t, one(c.fault), signed)
				got, err := talk(srv.URL).ask(soon(t), stream)
				if err == nil {
					t.Fatalf("no error: %+v", got)
				}
				status, _, message := refusalOf(err)
				if !strings.Contains(message, c.says) {
					t.Errorf("the error says %q", message)
				}
				if stream && (got.Thinking != "Thinking." || got.Text != "") {
					t.Errorf("the first block is %+v", got)
				}
				if !stream && c.says != "" && status != 529 {
					t.Errorf("status %d", status)
				}
			})
		})
	}
	each(t, func(t *testing.T, format string, talk func(string) talker, stream bool) {
		srv := serve(t, "steps: [{fault: {in_stream: api_error}}]", signed)
		_, err := talk(srv.URL).ask(soon(t), stream)
		if _, _, message := refusalOf(err); !strings.Contains(message, "the script answers with an error: api_error") {
			t.Errorf("an answer of nothing but an error: %v", err)
		}
	})
}

// taken is a request as a client makes it, to be given to a server without a network.
func taken(t *testing.T, talk func(string) talker, stream bool) func(context.Context) *http.Request {
	t.Helper()
	got := make(chan Recorded, 1)
	o := signed
	o.Record = func(r Recorded) { got <- r }
	srv := serve(t, "steps: [{text: a}]", o)
	if _, err := talk(srv.URL).ask(soon(t), stream); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if strings.HasPrefix(r.Header.Get("Authorization"), "AWS4") {
		r.Header.Set("Authorization", "Bearer k") // a signature would not be of the bubble's time
	}
	return func(ctx context.Context) *http.Request {
		req := httptest.NewRequestWithContext(ctx, r.Method, r.Path, bytes.NewReader(r.Body))
		req.Header, req.Host = r.Header, strings.TrimPrefix(srv.URL, "http://")
		return req
	}
}

// A tape is a response that remembers what was written, and in which pieces.
type tape struct {
	header  http.Header
	status  int
	pieces  []string
	flushed int // pieces
	at      []time.Time
}

func (w *tape) Header() http.Header { return w.header }
func (w *tape) WriteHeader(s int)   { w.status = s }
func (w *tape) Flush()              { w.flushed = len(w.pieces) }

func (w *tape) Write(p []byte) (int, error) {
	if w.flushed != len(w.pieces) {
		return 0, errors.New("what was written before has not been flushed")
	}
	w.pieces, w.at = append(w.pieces, string(p)), append(w.at, time.Now())
	return len(p), nil
}

// handle gives a request to a server and says whether the connection was broken.
func handle(s *Server, w http.ResponseWriter, r *http.Request) (broken bool) {
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler {
				panic(p)
			}
			broken = true
		}
	}()
	s.ServeHTTP(w, r)
	return false
}

// An answer that hangs has said what it said, and ends when the client leaves.
func TestHang(t *testing.T) {
	for _, place := range []string{"start", "thinking", "text", "call", "end"} {
		t.Run(place, func(t *testing.T) {
			each(t, func(t *testing.T, format string, talk func(string) talker, stream bool) {
				req := taken(t, talk, stream)
				hang, cut := New(parse(t, one("{hang: "+place+"}")), signed), New(parse(t, one("{cut: "+place+"}")), signed)
				synctest.Test(t, func(t *testing.T) {
					want := &tape{header: http.Header{}}
					if !handle(cut, want, req(t.Context())) {
						t.Error("a cut breaks no connection")
					}
					ctx, leave := context.WithCancel(t.Context())
					got := &tape{header: http.Header{}}
					ended := false
					go func() {
						handle(hang, got, req(ctx))
						ended = true
					}()
					synctest.Wait()
					if ended {
						t.Error("it did not hang")
					}
					if diff := cmp.Diff(want.pieces, got.pieces); diff != "" || got.flushed != len(got.pieces) {
						t.Errorf("a hang says as much as a cut, and flushes it:\n%s", diff)
					}
					if (place == "start") != (got.status == 0) {
						t.Errorf("status %d", got.status)
					}
					leave()
					synctest.Wait()
					if !ended {
						t.Error("it hangs on after the client has gone")
					}
				})
			})
		})
	}
}

// On a real network too: the client leaves, or the server is closed, and no handler stays.
func TestHangOnTheNetwork(t *testing.T) {
	for _, leaver := range []string{"client", "server"} {
		t.Run(leaver, func(t *testing.T) {
			logged := make(chan Entry, 1)
			srv := serve(t, one("{hang: text}"), Options{Log: func(e Entry) { logged <- e }})
			ctx, leave := context.WithCancel(soon(t))
			defer leave()
			res, err := post(ctx, srv.URL+"/v1/chat/completions", map[string]any{
				"model": "m", "stream": true, "messages": []any{map[string]string{"role": "user", "content": "go"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var seen strings.Builder
			for buf := make([]byte, 1024); !strings.Contains(seen.String(), `"content":"o,"`); {
				n, err := res.Body.Read(buf)
				if err != nil {
					t.Fatalf("after %q: %v", seen.String(), err)
				}
				seen.Write(buf[:n])
			}
			if leaver == "client" {
				leave()
			} else {
				srv.CloseClientConnections()
			}
			select {
			case e := <-logged:
				if e.Fault != "hang text" || e.Status != 200 || e.Answer != 1 || e.Format != "openai-chat" {
					t.Errorf("%+v", e)
				}
			case <-soon(t).Done():
				t.Error("the handler did not end")
			}
		})
	}
}

// Every event is written in one piece and flushed, after its delay; a trickle comes byte by byte.
func TestPace(t *testing.T) {
	each(t, func(t *testing.T, format string, talk func(string) talker, stream bool) {
		req := taken(t, talk, stream)
		const text = "abcdefgh"
		slow := New(parse(t, "delay: 3s\nchunk: 2\nsteps: [{text: "+text+"}]"), signed)
		trickle := New(parse(t, "chunk: 2\nsteps: [{text: "+text+", fault: {trickle: 2ms}}]"), signed)
		synctest.Test(t, func(t *testing.T) {
			w := &tape{header: http.Header{}}
			began := time.Now()
			if handle(slow, w, req(t.Context())) || w.flushed != len(w.pieces) {
				t.Fatal("it broke, or was not flushed")
			}
			want := 4 * 3 * time.Second
			if !stream {
				want = 3 * time.Second
			}
			if took := time.Since(began); took != want {
				t.Errorf("it took %v, not %v", took, want)
			}
			for _, p := range w.pieces {
				if stream && format != "bedrock" && format != "gemini array" && (!strings.HasSuffix(p, "\n\n") || strings.Count(p, "\n\n") != 1) {
					t.Errorf("not one event: %q", p)
				}
			}
			drops := &tape{header: http.Header{}}
			began = time.Now()
			handle(trickle, drops, req(t.Context()))
			if n := len(strings.Join(drops.pieces, "")); len(drops.pieces) != n || time.Since(began) != time.Duration(n)*2*time.Millisecond {
				t.Errorf("%d bytes in %d pieces and %v", n, len(drops.pieces), time.Since(began))
			}
		})
	})
}

// A cut is a broken connection to whoever reads bytes: neither an end nor a status of its own.
func TestCutOnTheWire(t *testing.T) {
	srv := serve(t, one("{cut: end}"), Options{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}]}`
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	data, err := io.ReadAll(conn)
	text := string(data)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text, "HTTP/1.1 200 OK\r\n") || !strings.Contains(text, `"finish_reason":"tool_calls"`) {
		t.Errorf("got %q", text)
	}
	if strings.Contains(text, "[DONE]") || strings.HasSuffix(text, "0\r\n\r\n") {
		t.Error("the stream has an end")
	}
}
