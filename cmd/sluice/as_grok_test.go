//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/script"
)

// A grokRun is a run of grok, as a process, against a scripted model behind a socket.
type grokRun struct {
	*run
	url      string
	mu       sync.Mutex
	requests []string // what the model was sent
	lines    []map[string]any
}

// newGrok makes a run of "grok --format json --prompt go"; args go behind. The model speaks as xAI's does.
func newGrok(t *testing.T, text string, args ...string) *grokRun {
	t.Helper()
	d, err := dialect.Lookup("grok")
	if err != nil {
		t.Fatal(err)
	}
	g := &grokRun{run: newRun(t, d)}
	s, err := script.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	server := httptest.NewServer(modelserver.New(s, modelserver.Options{Key: key, Record: func(r modelserver.Recorded) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.requests = append(g.requests, string(r.Body))
	}}))
	t.Cleanup(server.Close)
	g.url = server.URL + "/v1"
	g.set("ANTHROPIC_API_KEY", "")
	g.set("GROK_API_KEY", key)
	g.set("GROK_BASE_URL", g.url)
	g.program, g.args = "grok", append([]string{"--format", "json", "--prompt", "go"}, args...)
	return g
}

// asked is what the model was sent so far.
func (g *grokRun) asked() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.requests)
}

// again is another run in the same world.
func (g *grokRun) again(args ...string) *grokRun {
	r := *g.run
	r.args, r.gone, r.errs = append([]string{"--format", "json", "--prompt", "go on"}, args...), make(chan struct{}), bytes.Buffer{}
	return &grokRun{run: &r, url: g.url}
}

// play runs it to its end, which must have this exit code.
func (g *grokRun) play(exit int) *grokRun {
	g.Helper()
	g.start(nil)
	g.wait()
	return g.ended(exit)
}

// ended checks a run that has ended: whatever happened, the stream is what the document says, failure is its last line and no
// other, and nobody is left behind.
func (g *grokRun) ended(exit int) *grokRun {
	g.Helper()
	if g.exit != exit {
		g.Errorf("exit %d, want %d: %s", g.exit, exit, g.errs.Bytes())
	}
	g.lint(g.dialect, g.out)
	g.lines = g.parse(g.out)
	if n := len(g.only("error")); n > 1 || (n == 1) != (exit != 0) || exit != 0 && g.lines[len(g.lines)-1]["type"] != "error" {
		g.Errorf("%d errors, with exit %d", n, exit)
	}
	if starts, ends := len(g.only("step_start")), len(g.only("step_finish")); starts != ends {
		g.Errorf("%d steps began, and %d ended", starts, ends)
	}
	g.checkStrays()
	if g.Failed() {
		g.Logf("stdout:\n%s\nstderr:\n%s", clipped(g.out), g.errs.Bytes())
	}
	return g
}

// only are the lines of a type.
func (g *grokRun) only(typ string) (list []map[string]any) {
	for _, l := range g.lines {
		if l["type"] == typ {
			list = append(list, l)
		}
	}
	return list
}

// one is the only line of a type.
func (g *grokRun) one(typ string) map[string]any {
	g.Helper()
	list := g.only(typ)
	if len(list) != 1 {
		g.Fatalf("%d lines are %s, want one", len(list), typ)
	}
	return list[0]
}

// results are what the calls gave, in order, each as "name success: output".
func (g *grokRun) results() (list []string) {
	g.Helper()
	for _, l := range g.only("tool_use") {
		call, result := l["toolCall"].(map[string]any), l["toolResult"].(map[string]any)
		if call["id"] != result["id"] || call["id"] == "" {
			g.Errorf("the call is %v, its result %v", call["id"], result["id"])
		}
		if _, ok := call["args"].(map[string]any); !ok {
			g.Errorf("the arguments are no object: %v", call["args"])
		}
		list = append(list, fmt.Sprintf("%v %v: %v", call["name"], result["success"], result["output"]))
	}
	return list
}

// has sees to it that the results begin as they should.
func (g *grokRun) has(want ...string) {
	g.Helper()
	got := g.results()
	if len(got) != len(want) {
		g.Fatalf("%d results, want %d: %q", len(got), len(want), got)
	}
	for i, w := range want {
		if !strings.HasPrefix(got[i], w) {
			g.Errorf("result %d is %q, want %q", i+1, got[i], w)
		}
	}
}

// Every event of the document, with every field that it has and with no other.
func TestGrokSaysWhatItsDocumentSays(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `
usage: {input: 432, output: 187}
steps:
- {text: I will rename it., call: {id: call_01, tool: edit_file, input: {path: foo.txt, old_string: foo, new_string: bar}}}
- {text: No more., fault: {status: 400, message: that is enough}}`, "-m", "grok-4-fast", "--max-tool-rounds", "200")
	g.write("work/foo.txt", "foo\n")
	before := time.Now().UnixMilli()
	g.play(3)
	fields := map[string]string{
		"step_start": "type sessionID stepNumber timestamp", "text": "type sessionID stepNumber timestamp text",
		"tool_use":    "type sessionID stepNumber timestamp toolCall toolResult timing",
		"step_finish": "type sessionID stepNumber timestamp finishReason usage", "error": "type sessionID timestamp message",
	}
	var order []string
	for _, l := range g.lines {
		typ, _ := l["type"].(string)
		order = append(order, fmt.Sprint(typ, " ", l["stepNumber"]))
		for _, f := range strings.Fields(fields[typ]) {
			if _, ok := l[f]; !ok && (f != "usage" || l["finishReason"] != "error") {
				t.Errorf("%s has no %s: %v", typ, f, l)
			}
		}
		if n := len(strings.Fields(fields[typ])); len(l) > n {
			t.Errorf("%s has more than its fields: %v", typ, l)
		}
		if id, _ := l["sessionID"].(string); !strings.HasPrefix(id, "ses_") || id != g.lines[0]["sessionID"] {
			t.Errorf("the session is %q", id)
		}
		if at, _ := l["timestamp"].(float64); int64(at) < before || int64(at) > time.Now().UnixMilli() {
			t.Errorf("the time is %v", l["timestamp"])
		}
	}
	want := []string{"step_start 1", "text 1", "tool_use 1", "step_finish 1", "step_start 2", "step_finish 2", "error <nil>"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
	use := g.one("tool_use")
	call := map[string]any{"id": "call_01", "name": "edit_file", "args": map[string]any{"path": "foo.txt", "old_string": "foo", "new_string": "bar"}}
	if diff := cmp.Diff(call, use["toolCall"]); diff != "" {
		t.Error(diff)
	}
	if r := use["toolResult"].(map[string]any); r["success"] != true || !strings.Contains(r["output"].(string), "+bar") || len(r) != 3 {
		t.Errorf("the result is %v", r)
	}
	timing := use["timing"].(map[string]any)
	if timing["durationMs"].(float64) != timing["finishedAt"].(float64)-timing["startedAt"].(float64) {
		t.Errorf("the timing is %v", timing)
	}
	usage := map[string]any{"inputTokens": 432.0, "outputTokens": 187.0, "totalTokens": 619.0, "costUsdTicks": 180.0} // at 0.2 and 0.5 dollars
	if diff := cmp.Diff(usage, g.only("step_finish")[0]["usage"]); diff != "" {
		t.Error(diff)
	}
	if now, err := os.ReadFile(g.path("work/foo.txt")); err != nil || string(now) != "bar\n" {
		t.Errorf("%v, %q", err, now)
	}
	if !strings.Contains(g.one("error")["message"].(string), "that is enough") {
		t.Errorf("the error is %v", g.one("error"))
	}
}

func TestGrokCostIsAbsentWhenUnknown(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `{usage: {input: 432, output: 187}, steps: [{text: Hi.}]}`, "-m", "nobody-knows-it").play(0)
	want := map[string]any{"inputTokens": 432.0, "outputTokens": 187.0, "totalTokens": 619.0}
	if diff := cmp.Diff(want, g.one("step_finish")["usage"]); diff != "" {
		t.Error(diff)
	}
}

// Each reason is said in the document's words.
func TestGrokFinishReasons(t *testing.T) {
	t.Parallel()
	for step, want := range map[string]string{
		`{text: Hi.}`: "stop", `{text: Hi., finish: length}`: "length", `{text: No., finish: refusal}`: "content_filter",
		`{call: {tool: bash, input: {command: "true"}}}, {text: Hi.}`: "tool_calls",
	} {
		g := newGrok(t, `steps: [`+step+`]`)
		g.play(map[bool]int{true: 0, false: 3}[want == "stop" || want == "tool_calls"])
		if got := g.only("step_finish")[0]["finishReason"]; got != want {
			t.Errorf("%s finishes by %v, want %s", step, got, want)
		}
	}
}

// Three calls of a second each are made at once, told in call order, and their times are those of the real execution.
func TestGrokTimingWrapsTheExecution(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `
steps:
- calls: [{tool: bash, input: {command: sleep 1.2; echo a}}, {tool: bash, input: {command: sleep 1; echo b}}, {tool: bash, input: {command: sleep 1; echo c}}]
- {text: Done.}`).play(0)
	g.has("bash true: a", "bash true: b", "bash true: c")
	var first, last float64
	for _, l := range g.only("tool_use") {
		at := l["timing"].(map[string]any)
		if first == 0 {
			first = at["startedAt"].(float64)
		}
		first, last = min(first, at["startedAt"].(float64)), max(last, at["finishedAt"].(float64))
		if ms := at["durationMs"].(float64); ms < 1000 || l["stepNumber"] != 1.0 {
			t.Errorf("it took %v ms in step %v", ms, l["stepNumber"])
		}
	}
	if last-first > 3000 {
		t.Errorf("one after the other: %v ms", last-first)
	}
}

// A command that failed says what it wrote, and then why it failed: its exit code, or that its time was over.
func TestGrokFailedCallsSayWhy(t *testing.T) {
	t.Parallel()
	newGrok(t, `
steps:
- calls:
  - {tool: bash, input: {command: "echo no such luck >&2; exit 7"}}
  - {tool: bash, input: {command: "echo begun; sleep 60", timeout: 500}}
  - {tool: bash, input: {command: exit 9}}
- {text: Done.}`).play(0).has("bash false: no such luck\n\nexit status 7", "bash false: begun\n\ntimed out after 500ms", "bash false: exit status 9")
}

// A session is gone on with by its id or since it is the last one of the folder: same id, all that was said, steps from 1.
func TestGrokSessions(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `steps: [{text: One.}, {text: Two.}, {text: Three.}]`).play(0)
	id := g.lines[0]["sessionID"].(string)
	for i, args := range [][]string{{"-s", id}, {"--session", "latest"}} {
		next := g.again(args...).play(0)
		if l := next.one("text"); l["sessionID"] != id || l["stepNumber"] != 1.0 || l["text"] != []string{"Two.", "Three."}[i] {
			t.Errorf("%q goes on with %v", args, l)
		}
	}
	g.again("-s", "nope").play(1)
}

// Where there is no session yet, latest begins one, and says so.
func TestGrokLatest(t *testing.T) {
	t.Parallel()
	g := newGrok(t, greets, "-s", "latest").play(0)
	if said := g.errs.String(); !strings.Contains(said, "a new one begins") {
		t.Errorf("it says %q", said)
	}
}

// Raw has the pieces, and everything else as it was.
func TestGrokRaw(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `{chunk: 6, steps: [{text: Hello there.}]}`, "--format", "raw").play(0)
	var all string
	for _, l := range g.only("text_delta") {
		all += l["text"].(string)
	}
	if len(g.only("text_delta")) < 2 || all != "Hello there." || g.one("text")["text"] != all {
		t.Errorf("the pieces are %q", all)
	}
}

// serveFor is the address of another model, which wants another key.
func (g *grokRun) serveFor(key, text string) string {
	s, err := script.Parse([]byte(text))
	if err != nil {
		g.Fatalf("%v in %s", err, text)
	}
	server := httptest.NewServer(modelserver.New(s, modelserver.Options{Key: key}))
	g.Cleanup(server.Close)
	return server.URL + "/v1"
}
