package guest

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/proc"
)

// versions are those that end a reply in different ways.
var versions = map[string][]string{"0.87": nil, "0.74": {"PI_OLD=1"}}

// visit invites pi, which may do what it likes.
func visit(t *testing.T, cfg Config) *party {
	t.Helper()
	cfg.Agent, cfg.Approve = "pi", true
	return invite(t, cfg, nil)
}

func TestPiSaysHello(t *testing.T) {
	for version, env := range versions {
		t.Run(version, func(t *testing.T) {
			p := visit(t, Config{Env: env})
			v := p.say("hello")
			p.want("events", p.told(), "prompt notice turn.started text.delta text.delta text(Hello.) turn.ended reply.done(end_turn)")
			cost, _ := v.Cost.Sum()
			if u := v.Usage; v.Outcome != event.Done || *u.Input != 110 || *u.Output != 10 || *u.Reasoning != 7 || *u.CacheRead != 1000 || u.CacheWrite != nil || cost != 1 {
				t.Errorf("%+v", v)
			}
			turn := p.await(kind("turn.ended")).Body.(event.TurnEnded)
			if turn.Model != "mock-model" || turn.Provider != "mock" || turn.Finish != event.FinishStop || *turn.Usage.Input != 110 {
				t.Errorf("%+v", turn)
			}
			p.wantOf()
		})
	}
}

// It asks nobody, so it is not started where somebody could believe that rules hold it.
func TestPiIsNotHeldByRules(t *testing.T) {
	standIn(t, "pi")
	deny := []event.Rule{allow("*", "*"), deny("bash", "rm *")}
	for _, c := range []struct {
		name    string
		policy  gate.Policy
		approve bool
		want    string
	}{
		{"default", gate.Policy{}, false, "--mode yolo"},
		{"auto_edit", gate.Policy{Mode: gate.ModeAutoEdit, Rules: []event.Rule{allow("*", "*")}}, false, "--mode yolo"},
		{"a rule denies", gate.Policy{Mode: gate.ModeYolo, Rules: deny}, false, "bash(rm *) cannot hold"},
		{"a rule denies what is approved", gate.Policy{Rules: deny}, true, "bash(rm *) cannot hold"},
		{"yolo", gate.Policy{Mode: gate.ModeYolo, Rules: []event.Rule{allow("read", "*")}}, false, ""},
		{"approved", gate.Policy{}, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := event.NewSource("s", 0, &party{seen: make(chan struct{})}, nil, time.Now)
			var group proc.Group
			defer group.Close()
			s, err := Open(t.Context(), Config{Agent: "pi", Workspace: t.TempDir(), Env: []string{playVar + "=pi"}, Group: &group, Gate: gate.New(c.policy), Approve: c.approve}, src)
			if s != nil {
				s.Close()
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v", err)
			}
		})
	}
	p := visit(t, Config{})
	p.inbox <- event.SetMode{Mode: gate.ModeDefault}
	p.await(func(e event.Event) bool {
		x, ok := e.Body.(event.Error)
		return ok && strings.Contains(x.Message, "would not hold it")
	})
	p.say("hello")
}

func TestPiCallsTools(t *testing.T) {
	for command, want := range map[string]string{
		"make":  "tool.called tool.started tool.output tool.output tool.done",
		"false": "tool.called tool.started tool.output tool.output tool.failed",
	} {
		p := visit(t, Config{})
		v := p.say("run " + command)
		p.want("calls", p.told(calls...), want)
		p.want("texts", p.told("text"), "text(I run it.) text(That was it.)")
		called := p.await(kind("tool.called"))
		if b := called.Body.(event.ToolCalled); called.Call != "call_1" || b.Name != "bash" || b.Class != event.ClassExec || string(b.Input) != `{"command":"`+command+`"}` {
			t.Errorf("%+v", called)
		}
		var output string
		for _, e := range p.journal() {
			if b, ok := e.Body.(event.ToolOutput); ok {
				output += b.Text
			}
			if b, ok := e.Body.(event.ToolFailed); ok && (b.Exit == nil || *b.Exit != 7 || !strings.HasPrefix(b.Output, "one\ntwo")) {
				t.Errorf("%+v", b)
			}
		}
		if in, _ := v.Usage.InputAll(); v.Outcome != event.Done || output != "one\ntwo\n" || in != 2220 {
			t.Errorf("%+v, output %q", v, output)
		}
	}
}

func TestPiBlocks(t *testing.T) {
	p := visit(t, Config{})
	p.say("think")
	p.want("events", p.told(), "prompt notice turn.started thought.delta thought.delta thought text.delta text(So be it.) text(And more.) turn.ended reply.done(end_turn)")
	if b := p.await(kind("thought")).Body.(event.Thought); b.Text != "Hm, well." || b.Partial {
		t.Errorf("%+v", b)
	}
}

// A run that failed and is tried again is not the end.
func TestPiTriesAgain(t *testing.T) {
	for version, env := range versions {
		t.Run(version, func(t *testing.T) {
			p := visit(t, Config{Env: env})
			if v := p.say("retry"); v.Outcome != event.Done {
				t.Errorf("%+v", v)
			}
			p.want("events", p.told("text", "retry", "error", "turn.ended", "reply.done", "reply.failed"),
				"text(Half an ans) turn.ended retry text(Hello after all.) turn.ended reply.done(end_turn)")
			if r := p.await(kind("retry")).Body.(event.Retry); r.Attempt != 1 || r.Limit != 3 || r.Wait != 20 || r.Status != 429 || r.Class != "rate_limit" {
				t.Errorf("%+v", r)
			}
			if b := p.await(kind("text")).Body.(event.Text); !b.Partial {
				t.Errorf("%+v", b)
			}
			p = visit(t, Config{Env: env})
			p.say("compact")
			p.want("events", p.told("compacted", "error", "text", "reply.done", "reply.failed"), "compacted text(There is room.) reply.done(end_turn)")
		})
	}
}

// Whatever pi's exit code is, the outcome is the last answer's.
func TestPiEnds(t *testing.T) {
	for _, c := range []struct {
		prompt, want, reason string
		outcome              event.Outcome
	}{
		{"error 401: {\"code\":\"invalid_api_key\"}", "error reply.failed(error)", "401: ", event.Failed},
		{"error 503 busy", "error reply.failed(error)", "503 busy", event.Unavailable},
		{"error Connection error.", "error reply.failed(error)", "Connection error.", event.Unavailable},
		{"error something else", "error reply.failed(error)", "something else", event.Failed},
		{"stops length", "error reply.failed(max_tokens)", "max_tokens", event.Failed},
		{"stops toolUse", "error reply.failed(tool_use)", "tool_use", event.Failed},
		{"stops from_tomorrow", "error reply.failed(from_tomorrow)", "from_tomorrow", event.Failed},
		{"stops aborted", "reply.cancelled(cancelled)", "interrupted", event.Cancelled},
		{"silent", "error reply.failed(error)", "without an answer", event.Failed},
		{"refuse", "error reply.failed(error)", "No API key found", event.Failed},
		{"/command", "reply.done(end_turn)", "", event.Done},
		{"die", "tool.cancelled? error reply.failed(error)?", "ended before it had answered (exit status 0)", event.Failed},
		{"killed", "tool.cancelled? error reply.failed(error)?", "ended before it had answered (signal: killed)", event.Failed},
		{"cut", "error reply.failed(error)?", "ended before it had answered", event.Failed},
		{"liar", "error reply.failed(error)?", "said that it was done, and then failed (exit status 3)", event.Failed},
		{"stay", "reply.done(end_turn)", "", event.Done},
	} {
		for version, env := range versions {
			t.Run(version+" "+c.prompt, func(t *testing.T) {
				p := visit(t, Config{Grace: 500 * time.Millisecond, Env: env})
				v := p.say(c.prompt)
				p.want("events", p.told("tool.done", "tool.cancelled", "error", "reply.done", "reply.failed", "reply.cancelled"), c.want)
				if v.Outcome != c.outcome || !strings.Contains(v.Reason, c.reason) {
					t.Errorf("%+v", v)
				}
			})
		}
	}
}

func TestPiIsStopped(t *testing.T) {
	for version, env := range versions {
		for _, c := range []struct {
			prompt string
			until  event.Kind
			want   string
		}{
			{"slow", "tool.started", "tool.called tool.cancelled reply.cancelled(cancelled)"},
			{"wait", "retry", "reply.cancelled(cancelled)"},
			{"late", "prompt", "reply.cancelled(cancelled)"},
		} {
			t.Run(version+" "+c.prompt, func(t *testing.T) {
				p := visit(t, Config{Env: env})
				p.inbox <- event.Message{Text: c.prompt}
				p.await(kind(c.until))
				if c.prompt == "late" {
					p.await(func(e event.Event) bool {
						f, ok := e.Body.(event.Foreign)
						return ok && strings.Contains(f.Line, `"command":"prompt"`)
					})
				}
				p.inbox <- event.Stop{}
				p.await(kind("reply.cancelled"))
				p.want("events", p.told("tool.called", "tool.failed", "tool.cancelled", "error", "reply.cancelled", "reply.failed"), c.want)
				if v := p.say("who"); v.Outcome != event.Done { // the same process goes on
					t.Errorf("%+v", v)
				}
				p.want("process", p.told("text")[strings.LastIndex(p.told("text"), "text("):], "text(01a1dc7f-0000-7000-8000-000000000001 false )")
			})
		}
	}
}

// One that does not stop is killed with its child, and called back to its session.
func TestPiThatDoesNotStop(t *testing.T) {
	p := visit(t, Config{Grace: 200 * time.Millisecond})
	p.inbox <- event.Message{Text: "deaf"}
	p.await(kind("tool.started"))
	p.inbox <- event.Stop{}
	p.await(kind("reply.cancelled"))
	p.say("who")
	p.want("events", p.told("tool.cancelled", "reply.cancelled", "text", "reply.done"),
		"tool.cancelled? reply.cancelled(cancelled)? text(01a1dc7f-0000-7000-8000-000000000001 true ) reply.done(end_turn)")
	p = visit(t, Config{Grace: 200 * time.Millisecond})
	p.inbox <- event.Message{Text: "deaf"}
	p.await(kind("tool.started"))
	p.cancel(&outcome.Cause{Outcome: event.Timeout, Reason: "it took too long"})
	if v := p.wait(); v.Outcome != event.Timeout || v.Stop != "timeout" {
		t.Errorf("%+v", v)
	}
}

func TestPiFollowsUpAndResumes(t *testing.T) {
	for version, env := range versions {
		t.Run(version, func(t *testing.T) {
			p := visit(t, Config{Env: env, Model: "mock/big"})
			p.say("hello", "/command", "run make", "who")
			p.want("replies", p.told("reply.done", "reply.failed", "text"), "text(Hello.) reply.done(end_turn) reply.done(end_turn) "+
				"text(I run it.) text(That was it.) reply.done(end_turn) text(01a1dc7f-0000-7000-8000-000000000001 false mock/big) reply.done(end_turn)")
			id := ""
			for _, e := range p.journal() {
				if s, ok := SessionOf(e); ok {
					id = s
				}
			}
			p = visit(t, Config{Env: env, Resume: id})
			p.say("who")
			p.want("text", p.told("text"), "text(01a1dc7f-0000-7000-8000-000000000001 true )")
		})
	}
}

func TestPiDoesNotBegin(t *testing.T) {
	p := visit(t, Config{Env: []string{"PI_MUTE=1"}})
	if v := p.say("hello"); v.Outcome != event.Failed || !strings.Contains(v.Reason, "ended before it had answered (exit status 1)") {
		t.Errorf("%+v", v)
	}
	p = visit(t, Config{Profile: "plan"})
	if v := p.say("hello"); v.Outcome != event.Failed || !strings.Contains(v.Reason, "leave --agent out") {
		t.Errorf("%+v", v)
	}
}

func TestPiMakesNoise(t *testing.T) {
	p := visit(t, Config{})
	if v := p.say("garbage"); v.Outcome != event.Done {
		t.Errorf("%+v", v)
	}
	p.want("custom", p.told("custom"), "custom(pi.from_tomorrow) custom(pi.queue_update)")
	var all strings.Builder
	for _, e := range p.journal() {
		if d, ok := e.Body.(event.Diag); ok {
			all.WriteString(d.Source + ": " + d.Text + "\n")
		}
	}
	for _, want := range []string{"pi stdout: starting…", "pi stdout: [1]", `pi stdout: {"no":"type"}`, "pi stdout: {broken", "pi stderr: a complaint"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no %q in\n%s", want, all.String())
		}
	}
}

// An extension that asks is answered at once, and what it says is told.
func TestPiDialogs(t *testing.T) {
	p := visit(t, Config{})
	p.say("dialog")
	p.want("events", p.told("custom", "text"), "custom(pi.setStatus) text(u3 true)")
	var notices []string
	for _, e := range p.journal() {
		if n, ok := e.Body.(event.Notice); ok {
			notices = append(notices, n.Text)
		}
	}
	p.want("notices", strings.Join(notices[1:], "; "), "Watch out.; an extension of pi asks, and nobody answers: Sure? Really.; an extension of pi failed: oops")
}

// A version that repeats the whole answer with every piece of it does not blow up the journal.
func TestPiRepeatsItself(t *testing.T) {
	sizes := map[string]int{}
	for version, env := range versions {
		p := visit(t, Config{Env: env})
		p.say("long")
		for _, e := range p.journal() {
			sizes[version] += len(event.Append(nil, e))
			if f, ok := e.Body.(event.Foreign); ok && strings.Contains(f.Line, `"partial"`) {
				t.Fatalf("%s", f.Line)
			}
		}
		p.wantOf()
	}
	if old, new := sizes["0.74"], sizes["0.87"]; old > new*11/10 || new > 400*600 {
		t.Errorf("%v", sizes)
	}
}

// What the real pi said, as it was recorded.
func TestPiRecorded(t *testing.T) {
	const final = "text(Done. This is the final answer from the mock model.) reply.done(end_turn)"
	for name, want := range map[string]string{
		"tools3": "text(I will run a command.) tool.called tool.started tool.output tool.done text(Now I read a file.) tool.called tool.started tool.done " +
			"text(Now I write a file.) tool.called tool.started tool.done " + final,
		"parallel": "text(Three at once.) tool.called tool.called tool.called tool.started tool.started tool.started " +
			"tool.output tool.done tool.output tool.done tool.output tool.done " + final,
		"error401":  "error reply.failed(error)",
		"error429":  "retry text(Hello after a rate limit.) reply.done(end_turn)",
		"maxtokens": "text(This answer was truncated) error reply.failed(max_tokens)",
	} {
		t.Run(name, func(t *testing.T) {
			file, err := filepath.Abs(filepath.Join("testdata", "pi", name+".ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			p := visit(t, Config{})
			p.say("replay " + file)
			p.want("events", p.told("text", "tool.called", "tool.started", "tool.output", "tool.done", "tool.failed", "tool.cancelled", "retry", "error", "reply.done", "reply.failed"), want)
			p.wantOf()
		})
	}
}
