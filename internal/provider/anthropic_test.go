package provider_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/script"
)

// A way is how the Messages API is reached.
type way struct {
	name  string
	model string
	env   func(t *testing.T, server string) map[string]string
}

var ways = []way{
	{"anthropic", "anthropic/claude-sonnet-4-5", func(_ *testing.T, server string) map[string]string {
		return map[string]string{"ANTHROPIC_API_KEY": theKey, "ANTHROPIC_BASE_URL": server}
	}},
	{"bedrock", "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", func(_ *testing.T, server string) map[string]string {
		return map[string]string{
			"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "not-a-secret", "AWS_SESSION_TOKEN": "a-session", "AWS_REGION": "eu-west-1",
			"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": server,
		}
	}},
	{"vertex", "vertex/claude-sonnet-4-5@20250929", func(t *testing.T, server string) map[string]string {
		return map[string]string{
			"GOOGLE_APPLICATION_CREDENTIALS": serviceAccount(t, server+"/token"), "VERTEX_PROJECT_ID": "p-1", "VERTEX_REGION": "europe-west1", "ANTHROPIC_VERTEX_BASE_URL": server,
		}
	}},
}

const theKey = "key-for-tests"

var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// serviceAccount writes a file of Google's credentials whose tokens are to be had at an address.
func serviceAccount(t *testing.T, tokens string) string {
	t.Helper()
	key, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p-of-the-file", "private_key_id": theKey, "client_email": "a@p-1.iam.example", "token_uri": tokens,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serve plays a script and returns the server's address and the bodies that it was sent.
func serve(t *testing.T, text string) (server string, sent *bodies) {
	t.Helper()
	s, err := script.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	sent = &bodies{}
	h := httptest.NewServer(modelserver.New(s, modelserver.Options{Key: theKey, AccessKey: "AKIDEXAMPLE", SecretKey: "not-a-secret", Record: sent.record}))
	t.Cleanup(h.Close)
	return h.URL, sent
}

type bodies struct {
	mu   sync.Mutex
	list []modelserver.Recorded
}

func (b *bodies) record(r modelserver.Recorded) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Path != "/token" {
		b.list = append(b.list, r)
	}
}

func (b *bodies) all() []modelserver.Recorded {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list
}

// open opens a model by a way.
func (w way) open(t *testing.T, server string, idle time.Duration) provider.Model {
	t.Helper()
	env := w.env(t, server)
	return openModel(t, provider.Options{Model: w.model, Env: func(name string) string { return env[name] }, Idle: idle})
}

func openModel(t *testing.T, o provider.Options) provider.Model {
	t.Helper()
	if o.Client == nil {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		o.Client = &http.Client{Transport: transport}
	}
	m, err := provider.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// collect asks for one answer. It holds it to what every answer promises: deltas add up to the block that follows them.
func collect(t *testing.T, ctx context.Context, m provider.Model, r provider.Request) (list []event.Event, err error) {
	t.Helper()
	var deltas strings.Builder
	for e, failed := range m.Answer(ctx, r) {
		if err != nil {
			t.Errorf("something came after the error: %+v", e)
		}
		if err = failed; err != nil {
			continue
		}
		whole, block := "", true
		switch b := e.Body.(type) {
		case event.TextDelta:
			deltas.WriteString(b.Text)
			block = false
		case event.ThoughtDelta:
			deltas.WriteString(b.Text)
			block = false
		case event.Text:
			whole = b.Text
		case event.Thought:
			whole = b.Text
		}
		if block {
			if deltas.String() != whole {
				t.Errorf("the deltas are %q, the block %+v", deltas.String(), e.Body)
			}
			deltas.Reset()
			list = append(list, e)
		}
	}
	return list, err
}

// brief says events in a few words.
func brief(list []event.Event) (lines []string) {
	for _, e := range list {
		switch b := e.Body.(type) {
		case event.Text:
			lines = append(lines, fmt.Sprintf("text %q%s", b.Text, partial(b.Partial)))
		case event.Thought:
			lines = append(lines, fmt.Sprintf("thought %q%s", b.Text, partial(b.Partial)))
		case event.ToolCalled:
			lines = append(lines, fmt.Sprintf("call %s %s %s", e.Call, b.Name, b.Input))
		case event.TurnEnded:
			lines = append(lines, fmt.Sprintf("end %s %s %s", b.Finish, b.Said, usage(b.Usage)))
		default:
			lines = append(lines, fmt.Sprintf("%+v", b))
		}
	}
	return lines
}

func partial(p bool) string {
	if p {
		return " partial"
	}
	return ""
}

func usage(u event.Usage) string {
	var parts []string
	for _, n := range []*int64{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite} {
		if n == nil {
			parts = append(parts, "-")
		} else {
			parts = append(parts, fmt.Sprint(*n))
		}
	}
	return strings.Join(parts, "/")
}

func prompt(text string) []event.Event { return []event.Event{{Body: event.Prompt{Text: text}}} }

// What a model says, by every way.
func TestMessagesAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		want   []string
	}{
		"text": {
			`steps: [{text: "Hellö, world", chunk: 3, usage: {input: 10, output: 4}}]`,
			[]string{`text "Hellö, world"`, `end stop end_turn 10/4/-/0/0`},
		},
		"thinking": {
			`steps: [{thinking: "let me see", text: "yes", chunk: 2, usage: {input: 1, output: 2, reasoning: 7, cache_read: 100, cache_write: 50}}]`,
			[]string{`thought "let me see"`, `text "yes"`, `end stop end_turn 1/2/7/100/50`},
		},
		"parallel calls": {
			`steps: [{text: "both", chunk: 4, calls: [{id: a, tool: read, input: {path: x}}, {id: b, tool: bash, input: {}}], no_usage: true}]`,
			[]string{`text "both"`, `call a read {"path":"x"}`, `call b bash {}`, `end tool_calls tool_use -/-/-/-/-`},
		},
		"arguments that are not JSON": {
			`steps: [{call: {id: a, tool: read, raw: '{"path": oops'}, no_usage: true}]`,
			[]string{`call a read "{\"path\": oops"`, `end tool_calls tool_use -/-/-/-/-`},
		},
		"no arguments": {
			`steps: [{call: {id: a, tool: read, raw: ""}, no_usage: true}]`,
			[]string{`call a read {}`, `end tool_calls tool_use -/-/-/-/-`},
		},
		"in another order": {
			`steps: [{content: [{text: one}, {call: {id: a, tool: x}}, {thinking: hm}, {text: two}], no_usage: true}]`,
			[]string{`text "one"`, `call a x {}`, `thought "hm"`, `text "two"`, `end tool_calls tool_use -/-/-/-/-`},
		},
		"length":   {`steps: [{text: "cut", finish: length, no_usage: true}]`, []string{`text "cut"`, `end length max_tokens -/-/-/-/-`}},
		"refusal":  {`steps: [{text: "no", finish: refusal, no_usage: true}]`, []string{`text "no"`, `end refusal refusal -/-/-/-/-`}},
		"sequence": {`steps: [{text: "no", finish: stop_sequence, no_usage: true}]`, []string{`text "no"`, `end stop_sequence stop_sequence -/-/-/-/-`}},
		"nothing":  {`steps: [{finish: stop, no_usage: true}]`, []string{`end stop end_turn -/-/-/-/-`}},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := serve(t, tt.script)
			for _, w := range ways {
				got, err := collect(t, t.Context(), w.open(t, server, 0), provider.Request{History: prompt("go")})
				if diff := cmp.Diff(tt.want, brief(got)); diff != "" || err != nil {
					t.Errorf("%s: %v (-want +got):\n%s", w.name, err, diff)
					continue
				}
				end := got[len(got)-1].Body.(event.TurnEnded)
				if want, model, _ := strings.Cut(w.model, "/"); end.Provider != want || end.Model != model {
					t.Errorf("it was %s/%s", end.Provider, end.Model)
				}
			}
		})
	}
}

// A conversation of three turns, by every way: thoughts go back with their seal, calls with their results; the server
// refuses a history that Anthropic would refuse.
func TestMessagesConversation(t *testing.T) {
	server, sent := serve(t, `
model: scripted-1
steps:
  - {thinking: first, text: I look., calls: [{tool: read, input: {path: a}}, {tool: read, raw: "oops"}]}
  - {thinking: second, call: {tool: "look.around", input: [1]}}
  - {text: done}
`)
	for _, w := range ways {
		m := w.open(t, server, 0)
		r := provider.Request{
			System: "Be brief.", Tools: []provider.Tool{{Name: "read", Schema: event.Raw(`{"type":"object"}`)}}, Thinking: "low",
			History: []event.Event{{Body: event.Prompt{Text: "go", Attached: []event.Attachment{{Path: "a.png", Type: "image/png", Data: "aW1hZ2U="}}}}},
		}
		for turn := range 3 {
			list, err := collect(t, t.Context(), m, r)
			if err != nil {
				t.Fatalf("%s, turn %d: %v", w.name, turn+1, err)
			}
			if end := list[len(list)-1].Body.(event.TurnEnded); end.Model != "scripted-1" {
				t.Errorf("%s: the model is %s", w.name, end.Model)
			}
			r.History = append(r.History, list[:len(list)-1]...)
			for i, e := range list {
				if b, ok := e.Body.(event.ToolCalled); ok {
					end := event.ToolEnd{Name: b.Name, Type: "image", Output: "aW1hZ2U=", Metadata: event.Raw(`{"mime":"image/png"}`)}
					r.History = append(r.History, event.Event{Header: event.Header{Call: e.Call}, Body: event.ToolDone(end)})
					if i%2 == 1 {
						r.History[len(r.History)-1].Body = event.ToolFailed{Name: b.Name, Error: "no"}
					}
				}
			}
		}
		if last, ok := r.History[len(r.History)-1].Body.(event.Text); !ok || last.Text != "done" {
			t.Errorf("%s: it ended with %+v", w.name, r.History[len(r.History)-1])
		}
	}
	if n := len(sent.all()); n != 9 {
		t.Errorf("%d requests", n)
	}
}

// A thought that another wire format sealed is not sent to Anthropic.
func TestMessagesForeignThought(t *testing.T) {
	server, _ := serve(t, `steps: [{text: a}, {text: b}]`)
	history := append(prompt("go"), event.Event{Body: event.Thought{Text: "hm", Signature: "responses:x"}}, event.Event{Body: event.Text{Text: "a"}}, prompt("more")[0])
	got, err := collect(t, t.Context(), ways[0].open(t, server, 0), provider.Request{History: history})
	if err != nil || brief(got)[0] != `text "b"` {
		t.Errorf("%v, %v", brief(got), err)
	}
}

// How an answer fails, by every way.
func TestMessagesFailures(t *testing.T) {
	const step = `{thinking: "let me", text: "half a text", call: {id: a, tool: read, input: {path: xyz}}`
	for name, tt := range map[string]struct {
		fault string
		want  []string
		class string
		is    provider.Error
	}{
		"cut at the start":  {"{cut: start}", nil, provider.Connection, provider.Error{}},
		"cut in a thought":  {"{cut: thinking}", []string{`thought "let" partial`}, provider.Cut, provider.Error{}},
		"cut in a text":     {"{cut: text}", []string{`thought "let me"`, `text "half " partial`}, provider.Cut, provider.Error{}},
		"cut in a call":     {"{cut: call}", []string{`thought "let me"`, `text "half a text"`}, provider.Cut, provider.Error{}},
		"cut at the end":    {"{cut: end}", []string{`thought "let me"`, `text "half a text"`, `call a read {"path":"xyz"}`}, provider.Cut, provider.Error{}},
		"malformed":         {"{malformed: true}", []string{`thought "let me"`}, provider.Server, provider.Error{}},
		"wrong JSON":        {"{wrong_json: true}", []string{`thought "let me"`}, provider.Server, provider.Error{}},
		"overloaded inside": {"{in_stream: overloaded_error, message: busy}", []string{`thought "let me"`}, provider.Overloaded, provider.Error{Message: "busy"}},
		"limit inside":      {"{in_stream: rate_limit_error}", []string{`thought "let me"`}, provider.RateLimit, provider.Error{}},
		"error inside":      {"{in_stream: api_error}", []string{`thought "let me"`}, provider.Server, provider.Error{}},
		"400":               {`{status: 400, message: "prompt is too long: 5 > 4"}`, nil, provider.Overflow, provider.Error{Status: 400}},
		"401":               {"{status: 401}", nil, provider.Auth, provider.Error{Status: 401}},
		"403":               {"{status: 403}", nil, provider.Auth, provider.Error{Status: 403}},
		"404":               {"{status: 404}", nil, provider.Invalid, provider.Error{Status: 404}},
		"429":               {`{status: 429, headers: {retry-after: "3"}, message: "slow\ndown"}`, nil, provider.RateLimit, provider.Error{Status: 429, After: 3 * time.Second, Message: "slow down"}},
		"429 not again":     {`{status: 429, headers: {x-should-retry: "false", retry-after-ms: "20"}}`, nil, provider.RateLimit, provider.Error{Status: 429, After: 20 * time.Millisecond, Final: true}},
		"500":               {"{status: 500}", nil, provider.Server, provider.Error{Status: 500}},
		"529":               {"{status: 529}", nil, provider.Overloaded, provider.Error{Status: 529}},
		"hang at the start": {"{hang: start}", nil, provider.Stalled, provider.Error{}},
		"hang in a text":    {"{hang: text}", []string{`thought "let me"`, `text "half " partial`}, provider.Stalled, provider.Error{}},
		"hang at the end":   {"{hang: end}", []string{`thought "let me"`, `text "half a text"`, `call a read {"path":"xyz"}`}, provider.Stalled, provider.Error{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, _ := serve(t, "chunk: 2\nsteps: ["+step+", fault: "+tt.fault+"}]")
			var idle time.Duration
			if strings.HasPrefix(name, "hang") {
				idle = 2 * time.Second
			}
			for _, w := range ways {
				got, err := collect(t, t.Context(), w.open(t, server, idle), provider.Request{History: prompt("go")})
				var e *provider.Error
				if !errors.As(err, &e) {
					t.Errorf("%s: %v", w.name, err)
					continue
				}
				if diff := cmp.Diff(tt.want, brief(got)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", w.name, diff)
				}
				if e.Class != tt.class || e.Status != tt.is.Status || e.After != tt.is.After || e.Final != tt.is.Final || !strings.Contains(e.Message, tt.is.Message) || e.Message == "" {
					t.Errorf("%s: %+v", w.name, e)
				}
			}
		})
	}
}

// A model that says each byte for itself is no stalled one.
func TestMessagesTrickle(t *testing.T) {
	server, _ := serve(t, `steps: [{text: hi, fault: {trickle: 1us}}]`)
	got, err := collect(t, t.Context(), ways[0].open(t, server, 30*time.Second), provider.Request{History: prompt("go")})
	if err != nil || len(got) != 2 {
		t.Errorf("%v, %v", brief(got), err)
	}
}

// Who stops asking gets the context's error, and the open block before it.
func TestMessagesCancelled(t *testing.T) {
	server, _ := serve(t, `{chunk: 2, steps: [{text: "half a text", fault: {hang: text}}]}`)
	for _, w := range ways {
		ctx, cancel := context.WithCancel(t.Context())
		var last event.Body
		var err error
		for e, failed := range w.open(t, server, 0).Answer(ctx, provider.Request{History: prompt("go")}) {
			if failed != nil {
				err = failed
				break
			}
			last = e.Body
			cancel()
		}
		if b, ok := last.(event.Text); !ok || !b.Partial || err != context.Canceled {
			t.Errorf("%s: %+v, %v", w.name, last, err)
		}
		cancel()
	}
}

// Who stops listening is told nothing more.
func TestMessagesNotHeard(t *testing.T) {
	server, _ := serve(t, `{chunk: 1, steps: [{text: "a long text", call: {tool: x}}]}`)
	n := 0
	for range ways[0].open(t, server, 0).Answer(t.Context(), provider.Request{History: prompt("go")}) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d events", n)
	}
}

// A key that is wrong is told, and not shown, also by a server that says it back.
func TestMessagesKey(t *testing.T) {
	server, _ := serve(t, `steps: [{text: a}]`)
	o := provider.Options{Model: "anthropic/x", BaseURL: server, Key: "wrong-key-here"}
	_, err := collect(t, t.Context(), openModel(t, o), provider.Request{History: prompt("go")})
	var e *provider.Error
	if !errors.As(err, &e) || e.Class != provider.Auth || e.Code != "authentication_error" || e.Retryable() {
		t.Errorf("%+v", err)
	}
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"type":"%[1]s","message":"the key %[1]s is not known"}}`, r.Header.Get("X-Api-Key"))
	}))
	defer echo.Close()
	o.BaseURL = echo.URL
	_, err = collect(t, t.Context(), openModel(t, o), provider.Request{History: prompt("go")})
	if !errors.As(err, &e) || strings.Contains(fmt.Sprintf("%+v %v", e, err), "wrong-key") || !strings.Contains(e.Message, "the key *** is not known") {
		t.Errorf("%+v", err)
	}
}

// Tokens, endpoints and base URLs as people write them.
func TestAnthropicAddress(t *testing.T) {
	server, sent := serve(t, `{advance: request, loop: true, steps: [{text: a}]}`)
	env := map[string]string{"ANTHROPIC_AUTH_TOKEN": theKey, "MINE": theKey}
	for _, o := range []provider.Options{
		{Model: "anthropic/x", BaseURL: server},
		{Model: "anthropic/x", BaseURL: server + "/"},
		{Model: "anthropic/x", BaseURL: server + "/v1"},
		{Model: "anthropic/x", BaseURL: server + "/v1/"},
		{Model: "mine/x", Endpoints: map[string]provider.Endpoint{"mine": {Type: "anthropic", BaseURL: server, KeyEnv: "MINE", Headers: map[string]string{"X-Team": "blue"}}}},
	} {
		o.Env = func(name string) string { return env[name] }
		if _, err := collect(t, t.Context(), openModel(t, o), provider.Request{History: prompt("go")}); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	all := sent.all()
	if h := all[0].Header; h.Get("Authorization") != "Bearer "+theKey || h.Get("X-Api-Key") != "" || h.Get("Anthropic-Version") == "" {
		t.Errorf("%v", h)
	}
	if h := all[len(all)-1].Header; h.Get("X-Team") != "blue" || h.Get("X-Api-Key") != theKey {
		t.Errorf("%v", h)
	}
}

// The endpoint of the document is one.
func TestDocumentedEndpoint(t *testing.T) {
	doc, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(doc), "```toml\n")
	block, _, _ = strings.Cut(block, "```")
	c, err := config.Parse([]byte(block))
	if err != nil || len(c.Endpoints) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	server, sent := serve(t, `steps: [{text: a}]`)
	e := provider.Endpoint(c.Endpoints["work"])
	e.BaseURL = server
	m := openModel(t, provider.Options{Model: "work/x", Endpoints: map[string]provider.Endpoint{"work": e}, Env: func(name string) string {
		return map[string]string{"WORK_KEY": theKey}[name]
	}})
	if _, err := collect(t, t.Context(), m, provider.Request{History: prompt("go")}); err != nil {
		t.Error(err)
	}
	if h := sent.all()[0].Header; h.Get("X-Team") != "blue" {
		t.Errorf("%v", h)
	}
}

// Turn after turn goes over one connection.
func TestMessagesKeepConnection(t *testing.T) {
	s, err := script.Parse([]byte(`{advance: request, loop: true, chunk: 1, steps: [{text: "some text"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int64
	h := httptest.NewUnstartedServer(modelserver.New(s, modelserver.Options{AccessKey: "AKIDEXAMPLE", SecretKey: "not-a-secret"}))
	h.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	h.Start()
	t.Cleanup(h.Close)
	for _, w := range ways {
		opened.Store(0)
		m := w.open(t, h.URL, time.Minute)
		for range 10 {
			if _, err := collect(t, t.Context(), m, provider.Request{History: prompt("go")}); err != nil {
				t.Fatal(err)
			}
		}
		if n := opened.Load(); n != 1 {
			t.Errorf("%s: %d connections", w.name, n)
		}
	}
}
