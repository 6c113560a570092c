package guest

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
)

func TestCodexSaysHello(t *testing.T) {
	p := invite(t, Config{Agent: "codex"}, nil)
	v := p.say("hello", "hello")
	once := "prompt turn.started text.delta text.delta text(Hello.) turn.ended reply.done(end_turn)"
	p.want("events", p.told(), once+" "+once)
	if u := v.Usage; v.Outcome != event.Done || *u.Input != 10 || *u.CacheRead != 100 || *u.CacheWrite != 0 || *u.Output != 10 || *u.Reasoning != 7 {
		t.Errorf("%+v", v)
	}
	if c := p.await(kind("turn.ended")).Body.(event.TurnEnded).Context; c.Used != 110 || c.Limit != 1000 {
		t.Errorf("%+v", c)
	}
	p.wantOf()
}

// It is told to ask for everything and, once it is asked, to put up no walls; the marks of another codex are kept from it. What it counted before it was resumed is not counted again.
func TestCodexIsSetUp(t *testing.T) {
	t.Setenv("CODEX_THREAD_ID", "another")
	p := invite(t, Config{Agent: "codex", Model: "big"}, nil)
	p.say("who")
	p.want("text", p.told("text"), "text(01a1-thread false untrusted user read-only dangerFullAccess big )")
	if p.s.ID() != "01a1-thread" {
		t.Errorf("the session is %q", p.s.ID())
	}
	p = invite(t, Config{Agent: "codex", Resume: "01a1-old"}, nil)
	v := p.say("who")
	p.want("text", p.told("text", "turn.ended"), "text(01a1-old true untrusted user read-only dangerFullAccess  ) turn.ended")
	if *v.Usage.CacheRead != 100 {
		t.Errorf("%+v", v.Usage)
	}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Env: []string{"NOTHREAD=1"}, Resume: "01a1-gone"}, "codex: the thread cannot be opened: no rollout found"},
		{Config{Profile: "careful"}, "leave --agent out"},
	} {
		c.cfg.Agent = "codex"
		if v := invite(t, c.cfg, nil).say("who"); v.Outcome != event.Failed || !strings.Contains(v.Reason, c.want) {
			t.Errorf("%+v", v)
		}
	}
}

// A session that served once comes back to its thread.
func TestCodexServesAgain(t *testing.T) {
	p := invite(t, Config{Agent: "codex"}, nil)
	p.inbox <- event.Message{Text: "hello"}
	close(p.inbox)
	<-p.done
	p.inbox = make(chan event.Command, 1)
	go func() { p.done <- p.s.Serve(t.Context(), p.inbox) }()
	p.say("who")
	if !strings.HasPrefix(p.told("text"), "text(Hello.) text(01a1-thread true ") {
		t.Error(p.told("text"))
	}
}

func TestCodexAsksTheGate(t *testing.T) {
	dir := t.TempDir()
	ran, declined := "tool.started tool.output tool.done", "tool.denied"
	for _, c := range []struct {
		name, prompt string
		rules        []event.Rule
		who          []gate.Answerer
		want, text   string
		denials      int
	}{
		{"a rule for what is in the wrapper", "run go test './...'", []event.Rule{allow("bash", "go test *")}, nil, "tool.called gate.allowed(rule) " + ran, "accept", 0},
		{"a command fails", "run false", []event.Rule{allow("bash", "*")}, nil, "tool.called gate.allowed(rule) tool.started tool.output tool.failed", "accept", 0},
		{"one part is denied", "run go test && rm x", []event.Rule{allow("*", "*"), deny("bash", "rm *")}, nil, "tool.called gate.denied(rule) " + declined, "decline", 1},
		{"nobody", "run make", nil, nil, "tool.called gate.asked gate.denied(nobody) " + declined, "decline", 1},
		{"somebody", "run make", nil, []gate.Answerer{gate.Auto{}}, "tool.called gate.asked gate.allowed(auto) " + ran, "accept", 0},
		{"a file", "patch " + dir + "/a.txt", []event.Rule{allow("edit", "a.txt")}, nil, "tool.called gate.allowed(rule) tool.started tool.done", "accept", 0},
		{"a file outside", "patch /etc/motd", []event.Rule{allow("edit", "*")}, nil, "tool.called gate.asked gate.denied(nobody) " + declined, "decline", 1},
		{"a patch that grows", "patch a.txt /etc/motd", []event.Rule{allow("edit", "*")}, nil, "tool.called gate.asked gate.denied(nobody) " + declined, "decline", 1},
		{"a file that is moved out", "moved /etc/motd", []event.Rule{allow("edit", "*")}, nil, "tool.called gate.asked gate.denied(nobody) " + declined, "decline", 1},
		{"a protected file", "patch " + dir + "/.git/hooks/x", []event.Rule{allow("*", "*")}, nil, "tool.called gate.denied(rule) " + declined, "decline", 1},
		{"the older forms", "old make", []event.Rule{allow("bash", "make"), allow("edit", "*")}, nil, "tool.called gate.allowed(rule) tool.started tool.called gate.asked gate.denied(nobody) tool.denied tool.cancelled?", "approved true", 1},
		{"permissions", "wants b.txt", []event.Rule{allow("edit", "b.txt")}, nil, "tool.called gate.allowed(rule) tool.done", "granted 1", 0},
		{"permissions outside", "wants /etc", []event.Rule{allow("edit", "*")}, nil, "tool.called gate.asked gate.denied(nobody) tool.denied", "granted 0", 1},
		{"a tool of a server's", "mcp", []event.Rule{allow("s_m2", "*")}, nil, "tool.called tool.called gate.allowed(rule) tool.started tool.failed tool.failed", "accept -32601", 0},
		{"and not this one", "mcp", []event.Rule{allow("*", "*"), deny("s_m2", "*")}, nil, "tool.called tool.called gate.denied(rule) tool.failed tool.denied", "decline -32601", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := invite(t, Config{Agent: "codex", Workspace: dir}, c.rules, c.who...)
			v := p.say(c.prompt)
			p.want("calls", p.told(calls...), c.want)
			if !strings.Contains(p.told("text"), c.text) {
				t.Errorf("codex was told %s", p.told("text"))
			}
			if v.Outcome != event.Done || v.Denials != c.denials {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestCodexFiveQuestions(t *testing.T) {
	p := invite(t, Config{Agent: "codex"}, nil, gate.AnswererFunc(func(event.GateAsked, func(gate.Answer) error) {}))
	p.inbox <- event.Message{Text: "five"}
	p.awaitAll("gate.asked", 5)
	open := p.gate.Open()
	for i := len(open) - 1; i >= 0; i-- {
		if err := p.gate.Answer(open[i].Request, gate.Answer{Allow: i != 3, Reason: "no", By: event.ByControl}); err != nil {
			t.Error(err)
		}
	}
	close(p.inbox)
	v := p.wait()
	ends := p.told("tool.done", "tool.denied")
	if strings.Count(ends, "tool.done") != 4 || strings.Count(ends, "tool.denied") != 1 || v.Denials != 1 {
		t.Errorf("%s, %+v", ends, v)
	}
}

// A call that codex never ends after an interrupt is ended with the reply; the same process takes the next prompt.
func TestCodexIsStopped(t *testing.T) {
	for _, c := range []struct{ prompt, wait, want, text string }{
		{"slow", "tool.started", "tool.called tool.started tool.cancelled?", ""},
		{"open", "gate.asked", "tool.called tool.started gate.asked gate.denied(nobody) tool.cancelled?", "text(cancel)"},
		{"early", "foreign", "tool.called tool.started tool.cancelled?", ""},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			p := invite(t, Config{Agent: "codex"}, nil, gate.AnswererFunc(func(event.GateAsked, func(gate.Answer) error) {}))
			p.inbox <- event.Message{Text: c.prompt}
			p.await(func(e event.Event) bool {
				f, ok := e.Body.(event.Foreign)
				return string(e.Kind) == c.wait && (!ok || strings.Contains(f.Line, `"early"`))
			})
			p.inbox <- event.Stop{}
			p.await(kind("reply.cancelled"))
			p.want("calls", p.told(calls...), c.want)
			p.want("text", p.told("text"), c.text)
			if v := p.say("who"); v.Outcome != event.Done || !strings.Contains(p.told("text"), "01a1-thread false") { // which was not called back
				t.Errorf("%+v %s", v, p.told("text"))
			}
		})
	}
}

// One that does not stop is killed with its child, and called back to its thread.
func TestCodexThatDoesNotStop(t *testing.T) {
	p := invite(t, Config{Agent: "codex", Grace: 200 * time.Millisecond}, nil)
	p.inbox <- event.Message{Text: "deaf"}
	p.await(kind("tool.started"))
	p.inbox <- event.Stop{}
	p.await(kind("reply.cancelled"))
	if v := p.say("who"); v.Outcome != event.Done || !strings.HasPrefix(p.told("text"), "text(01a1-thread true") {
		t.Errorf("%+v %s", v, p.told("text"))
	}
	q := invite(t, Config{Agent: "codex", Grace: 200 * time.Millisecond}, nil)
	q.inbox <- event.Message{Text: "deaf"}
	q.await(kind("tool.started"))
	q.cancel(&outcome.Cause{Outcome: event.Timeout, Reason: "it took too long"})
	if v := q.wait(); v.Outcome != event.Timeout {
		t.Errorf("%+v", v)
	}
	q.want("events", q.told("tool.cancelled", "error", "reply.failed"), "tool.cancelled? error reply.failed(timeout)?")
}

func TestCodexItems(t *testing.T) {
	p := invite(t, Config{Agent: "codex"}, nil)
	v := p.say("kinds")
	p.want("events", p.told(), "prompt turn.started thought.delta thought.delta thought.delta thought thought plan plan tool.called tool.done tool.called tool.failed "+
		"tool.called tool.done tool.called tool.done compacted turn.ended turn.started tool.called tool.done turn.ended turn.started text.delta text.delta text(Done.) turn.ended reply.done(end_turn)")
	if *v.Usage.CacheRead != 300 { // of three answers, and not of another turn's
		t.Errorf("%+v", v.Usage)
	}
	var thoughts, names []string
	for _, e := range p.journal() {
		switch b := e.Body.(type) {
		case event.Thought:
			thoughts = append(thoughts, b.Text)
		case event.ToolCalled:
			names = append(names, b.Name)
		case event.ToolDone:
			if b.Name == "mcp__s__t" && b.Output != "found" {
				t.Errorf("%+v", b)
			}
		}
	}
	p.want("thoughts", strings.Join(thoughts, "|"), "Hm.\n\nSo.|Aha.")
	p.want("tools", strings.Join(names, " "), "mcp__s__t mcp__s__t web_search view_image view_image")
	if plan := p.await(kind("plan")).Body.(event.Plan); string(plan.Fields) != `{"explanation":null,"plan":[{"status":"inProgress","step":"think"}]}` {
		t.Errorf("%s", plan.Fields)
	}
	p = invite(t, Config{Agent: "codex"}, nil)
	p.say("unknown")
	p.want("events", p.told("custom", "text", "error"), "custom(codex.fromTomorrow) text(-32601)")
	p = invite(t, Config{Agent: "codex"}, nil, gate.AnswererFunc(func(event.GateAsked, func(gate.Answer) error) {}))
	p.say("withdrawn")
	p.want("events", p.told("gate.asked", "gate.denied", "tool.failed", "tool.denied", "reply.done"), "gate.asked gate.denied(nobody) tool.failed reply.done(end_turn)")
}

// Threads beside ours are sub-agents; what they ask is asked here.
func TestCodexSubAgents(t *testing.T) {
	p := invite(t, Config{Agent: "codex"}, []event.Rule{allow("bash", "make *")})
	v := p.say("agent")
	p.want("events", p.told("agent.started", "gate.allowed", "tool.done", "agent.ended", "text", "reply.done"),
		"tool.done agent.started gate.allowed(rule) tool.done text(Looked.) agent.ended text(It is done.) reply.done(end_turn)")
	if e := p.await(kind("gate.allowed")); e.Agent != "01a1-child" || v.Outcome != event.Done || *v.Usage.CacheRead != 200 {
		t.Errorf("%+v %+v", e, v)
	}
}

// Whatever becomes of it, there is one true end.
func TestCodexEnds(t *testing.T) {
	for _, c := range []struct {
		prompt, want, reason string
		outcome              event.Outcome
	}{
		{"retry", "retry retry reply.done(end_turn)", "", event.Done},
		{"fails unauthorized", "error reply.failed(error)", "it went wrong", event.Failed},
		{`fails {"responseTooManyFailedAttempts":{"httpStatusCode":401}}`, "error reply.failed(error)", "it went wrong", event.Failed},
		{`fails {"responseTooManyFailedAttempts":{"httpStatusCode":502}}`, "error reply.failed(error)", "it went wrong", event.Unavailable},
		{`fails {"responseStreamDisconnected":{"httpStatusCode":null}}`, "error reply.failed(error)", "it went wrong", event.Unavailable},
		{"fails serverOverloaded", "error reply.failed(error)", "it went wrong", event.Unavailable},
		{"fails from_tomorrow", "error reply.failed(error)", "it went wrong", event.Failed},
		{"gives-up", "retry error reply.failed(error)", "it was cut", event.Unavailable},
		{"says Incomplete response returned, reason: max_output_tokens", "error reply.failed(max_tokens)", "max_output_tokens", event.Failed},
		{`says {"error":{"message":"no such model","type":"invalid_request_error"}}`, "error reply.failed(error)", "no such model", event.Failed},
		{"silent", "error reply.failed(error)", "it went wrong", event.Failed},
		{"strange", "error reply.failed(error)", "codex says that it failed", event.Failed},
		{"refused", "error reply.failed(error)", "thread not found", event.Failed},
		{"die", "tool.cancelled? error reply.failed(error)?", "ended before it had answered (exit status 0)", event.Failed},
		{"killed", "tool.cancelled? error reply.failed(error)?", "ended before it had answered (signal: killed)", event.Failed},
		{"cut", "error reply.failed(error)?", "ended before it had answered", event.Failed},
		{"liar", "error reply.failed(error)?", "said that it was done, and then failed (exit status 101)", event.Failed},
		{"stay", "reply.done(end_turn)", "", event.Done},
		{"noise", "reply.done(end_turn)", "", event.Done},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			p := invite(t, Config{Agent: "codex", Grace: 500 * time.Millisecond}, nil)
			v := p.say(c.prompt)
			p.want("events", p.told("tool.cancelled", "retry", "error", "reply.done", "reply.failed"), c.want)
			if v.Outcome != c.outcome || !strings.Contains(v.Reason, c.reason) {
				t.Errorf("%+v", v)
			}
			if c.prompt == "retry" {
				if r := p.await(kind("retry")).Body.(event.Retry); r.Attempt != 1 || r.Limit != 5 || r.Status != 429 || r.Class != "rate_limit" {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// What the real one said, as it was recorded.
func TestCodexRecorded(t *testing.T) {
	unasked := "tool.called tool.started tool.done "
	for _, c := range []struct {
		name, want, text string
		more             int // prompts after the first
		who              []gate.Answerer
	}{
		{"permission-accept", "tool.called gate.asked gate.allowed(auto) tool.started tool.done tool.called gate.asked gate.allowed(auto) tool.started tool.done", "text(I will create a file with a command.) text(Now I write a file.) text(Done. This is the final answer from the mock model.) text(Hello from the mock model.) text(Hello from the mock model.)", 2, []gate.Answerer{gate.Auto{}}},
		{"permission-decline", "tool.called gate.asked gate.denied(nobody) tool.denied tool.called gate.asked gate.denied(nobody) tool.denied", "text(I will create a file with a command.) text(Now I write a file.) text(Done. This is the final answer from the mock model.) text(Hello from the mock model.) text(Hello from the mock model.)", 2, nil},
		{"no-asking", unasked + unasked, "", 2, nil},
		{"readonly", unasked + "tool.called tool.started tool.output tool.failed", "text(a) text(b) text(c) text(Done.)", 0, nil},
		{"interrupt", "tool.called tool.started tool.cancelled?", "text(Running a long command.) text(Hello from the mock model.)", 1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := filepath.Abs(filepath.Join("testdata", "codex", c.name+".ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			p := invite(t, Config{Agent: "codex"}, nil, c.who...)
			p.inbox <- event.Message{Text: "replay " + file}
			if c.name == "interrupt" {
				p.await(kind("tool.started"))
				p.inbox <- event.Stop{}
				p.await(kind("reply.cancelled"))
			}
			var more []string
			for range c.more {
				more = append(more, "replay")
			}
			v := p.say(more...)
			p.want("calls", p.told(calls...), strings.TrimSpace(c.want))
			if c.text != "" {
				p.want("text", p.told("text"), c.text)
			}
			if ends := strings.Count(p.told("reply.done", "reply.cancelled"), "reply"); v.Outcome != event.Done || ends != 1+c.more || *v.Usage.Input == 0 {
				t.Errorf("%d ends, %+v", ends, v)
			}
			for _, e := range p.journal() {
				if b, ok := e.Body.(event.ToolCalled); ok && strings.Contains(string(b.Input), "-lc") {
					t.Errorf("%s is told in its wrapper: %s", e.Call, b.Input)
				}
			}
			p.wantOf()
		})
	}
}

func TestCodexUnwraps(t *testing.T) {
	for command, want := range map[string]string{
		`/bin/bash -lc 'touch a && ls'`:                        "touch a && ls",
		`/bin/bash -lc "printf %s 'x' > \"b\" && echo \$HOME"`: `printf %s 'x' > "b" && echo $HOME`,
		`/bin/bash -lc 'a'"'"'b'`:                              "a'b",
		"/bin/sh -c ls":                                        "ls",
		"bash -lc make more":                                   "bash -lc make more",
		"/tmp/bash -lc ls":                                     "/tmp/bash -lc ls",
		"bash --rcfile x":                                      "bash --rcfile x",
		"make":                                                 "make",
		"/bin/bash -lc 'not whole":                             "/bin/bash -lc 'not whole",
	} {
		if got := unwrapped(command); got != want {
			t.Errorf("%s: %s", command, got)
		}
	}
}
