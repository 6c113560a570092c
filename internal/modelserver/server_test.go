package modelserver

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-dev/sluice/internal/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(t *testing.T, text string) *script.Script {
	t.Helper()
	s, err := script.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve starts a server of its own for a script.
func serve(t *testing.T, text string, o Options) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(New(parse(t, text), o))
	t.Cleanup(srv.Close)
	return srv
}

// soon is a context that ends long after any of these tests should.
func soon(t *testing.T) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(stop)
	return ctx
}

// What a request shows of itself is found in every format: the system prompt, the first and the last message, the model.
func TestSeen(t *testing.T) {
	each(t, func(t *testing.T, format string, talk func(string) talker, stream bool) {
		srv := serve(t, `
steps: [{text: nobody}]
conversations:
  - when: {system: ^be good$, prompt: ^go$, last: ^two$, model: ^asked}
    steps: [{text: too early}, {text: result}, {text: too late}]
  - when: {system: ^be good$, prompt: ^go$, last: ^more$}
    steps: [{text: too early}, {text: too early}, {text: more}]
  - when: {prompt: ^go$, last: ^go$}
    steps: [{calls: [{tool: a, id: x}, {tool: b, id: y}]}]
`, signed)
		k := talk(srv.URL)
		if got, err := k.ask(soon(t), stream); err != nil || len(got.Calls) != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
		k.results("one", "two")
		if got, err := k.ask(soon(t), stream); err != nil || got.Text != "result" {
			t.Errorf("after the results: %+v, %v", got, err)
		}
		k.tell("more")
		if got, err := k.ask(soon(t), stream); err != nil || got.Text != "more" {
			t.Errorf("after another message: %+v, %v", got, err)
		}
	})
}

// Two assistant messages in a row are one answer, as are the several items of a response.
func TestSeenAnswers(t *testing.T) {
	srv := serve(t, "steps: [{text: first}, {text: second}, {text: third}]", Options{})
	for path, body := range map[string]string{
		"/v1/messages":         `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]}`,
		"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]}`,
		"/v1/responses":        `{"model":"m","input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]}`,
		"/v1beta/models/m:generateContent": `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]},{"role":"model","parts":[{"text":"c"}]},
			{"role":"user","parts":[{"text":"d"}]}]}`,
	} {
		res, err := post(soon(t), srv.URL+path, []byte(body), "Anthropic-Version", "1")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(text), `"second"`) {
			t.Errorf("%s: %s, %v", path, text, err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	s := New(parse(t, story), Options{})
	s.most = 10
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("POST", "/v1/messages", strings.NewReader("01234567890")))
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), `"request_too_large"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A client that leaves in the middle of a long pause takes the handler with it.
func TestLeavingEarly(t *testing.T) {
	req := taken(t, func(url string) talker {
		k := talkers[0].talk(url)
		k.tell("go")
		return k
	}, true)
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		w := &tape{header: http.Header{}}
		ended := false
		go func() {
			handle(New(parse(t, "delay: 1h\nsteps: [{text: a}]"), Options{}), w, req(ctx))
			ended = true
		}()
		synctest.Wait()
		leave()
		synctest.Wait()
		if !ended || strings.Contains(strings.Join(w.pieces, ""), "message_stop") {
			t.Errorf("ended %v after %q", ended, w.pieces)
		}
	})
}

// Every status has its words, and every word its status.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		status int
		want   kind
	}{{400, kinds[0]}, {422, kinds[0]}, {418, kinds[0]}, {502, kindOf(500)}, {599, kindOf(500)}} {
		if got := kindOf(c.status); got != c.want {
			t.Errorf("%d: %+v", c.status, got)
		}
	}
	for word, want := range map[string]int{"overloaded_error": 529, "rate_limit_error": 429, "RESOURCE_EXHAUSTED": 429, "ThrottlingException": 429, "weather_error": 500} {
		if got := kindNamed(word).status; got != want {
			t.Errorf("%s: %d, want %d", word, got, want)
		}
	}
}

// A long answer in small pieces: what each of them costs.
func BenchmarkDeltas(b *testing.B) {
	s := New(&script.Script{Chunk: 4, Steps: []script.Step{{Text: strings.Repeat("abcd", 10000)}}}, Options{})
	body := `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", "/v1/messages", strings.NewReader(body))
		r.Header.Set("Anthropic-Version", "1")
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
}
