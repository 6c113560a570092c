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

func TestClaudeSaysHello(t *testing.T) {
	p := invite(t, Config{Agent: "claude"}, nil)
	v := p.say("hello")
	if v.Outcome != event.Done || v.Stop != "end_turn" {
		t.Errorf("%+v", v)
	}
	deltas := strings.Repeat(" text.delta", 6)
	p.want("events", p.told(), "prompt catalog turn.started"+deltas+" text(Hello.) turn.ended reply.done(end_turn)")
	if in, _ := v.Usage.InputAll(); in != 10 {
		t.Errorf("usage is %+v", v.Usage)
	}
	p.wantOf()
}

func TestClaudeFollowUps(t *testing.T) {
	p := invite(t, Config{Agent: "claude"}, nil)
	p.say("hello", "who", "hello")
	p.want("replies", p.told("reply.done", "reply.failed"), "reply.done(end_turn) reply.done(end_turn) reply.done(end_turn)")
	cost := 0.0
	for _, e := range p.journal() {
		if r, ok := event.AsReplyEnd(e.Body); ok && r.Cost.Total != nil {
			cost += *r.Cost.Total
		}
	}
	if cost != 0.5 {
		t.Errorf("cost is counted as %v: it is told from the start of the process", cost)
	}
}

// A session that served once comes back to its conversation.
func TestClaudeServesAgain(t *testing.T) {
	p := invite(t, Config{Agent: "claude"}, nil)
	p.inbox <- event.Message{Text: "who"}
	close(p.inbox)
	<-p.done
	p.inbox = make(chan event.Command, 1)
	go func() { p.done <- p.s.Serve(t.Context(), p.inbox) }()
	p.say("who")
	p.want("texts", p.told("text"), "text(c0ffee00-0000-4000-8000-000000000001 false ) text(c0ffee00-0000-4000-8000-000000000001 true )")
}

// One that is to stay is there between replies, and leaves when it is told; one that has gone meanwhile comes back.
func TestGuestStays(t *testing.T) {
	for agent, want := range map[string]string{"claude": "text(c0ffee00-0000-4000-8000-000000000001 false )", "acp:": "text(acp-1 default )"} {
		p := invite(t, Config{Agent: agent, Stay: true}, nil)
		serve := func() {
			p.t.Helper()
			close(p.inbox)
			if v := <-p.done; v.Outcome != event.Done {
				t.Errorf("%+v", v)
			}
			p.inbox = make(chan event.Command, 1)
			go func() { p.done <- p.s.Serve(t.Context(), p.inbox) }()
		}
		p.inbox <- event.Message{Text: "who"}
		serve()
		p.inbox <- event.Message{Text: "who"}
		serve()
		p.want("texts", p.told("text"), want+" "+want) // nothing was resumed
		close(p.inbox)
		<-p.done
		p.s.Close()
		p.s.Close()
		p.check()
	}
}

func TestClaudeIsResumedAndNotConfused(t *testing.T) {
	t.Setenv("CLAUDECODE", "1")
	t.Setenv("CLAUDE_CODE_ENTRYPOINT", "cli")
	t.Setenv("CLAUDE_CONFIG_DIR", "/mine")
	p := invite(t, Config{Agent: "claude", Resume: "5e55"}, nil)
	p.say("who")
	p.want("text", p.told("text"), "text(5e55 true /mine)")
	q := invite(t, Config{Agent: "claude"}, nil)
	q.say("who")
	id := ""
	for _, e := range q.events {
		if s, ok := SessionOf(e); ok {
			id = s
		}
	}
	if id != "c0ffee00-0000-4000-8000-000000000001" || q.s.ID() != id {
		t.Errorf("the session is %q, %q", id, q.s.ID())
	}
}

func TestClaudeAsksTheGate(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, prompt string
		rules        []event.Rule
		who          gate.Answerer
		want         string
		outcome      event.Outcome
		denials      int
	}{
		{"allowed by a rule", "run go test ./...", []event.Rule{allow("bash", "go test *")}, nil, "gate.allowed(rule) tool.done", event.Done, 0},
		{"denied by a rule", "run rm -rf x", []event.Rule{allow("*", "*"), deny("bash", "rm *")}, nil, "gate.denied(rule) tool.denied", event.Done, 1},
		{"one part is denied", "run go test ./... && rm -rf x", []event.Rule{allow("bash", "*"), deny("bash", "rm *")}, nil, "gate.denied(rule) tool.denied", event.Done, 1},
		{"nobody is there", "run make", nil, nil, "gate.asked gate.denied(nobody) tool.denied", event.Done, 1},
		{"somebody allows", "run make", nil, gate.Auto{}, "gate.asked gate.allowed(auto) tool.done", event.Done, 0},
		{"a file in the workspace", "write a/b.txt", []event.Rule{allow("edit", "a/**")}, nil, "gate.allowed(rule) tool.done", event.Done, 0},
		{"a file outside", "write /etc/motd", []event.Rule{allow("edit", "*")}, nil, "gate.asked gate.denied(nobody) tool.denied", event.Done, 1},
		{"a protected file", "write " + filepath.Join(dir, ".git/hooks/pre-commit"), []event.Rule{allow("*", "*")}, nil, "gate.denied(rule) tool.denied", event.Done, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var who []gate.Answerer
			if c.who != nil {
				who = append(who, c.who)
			}
			p := invite(t, Config{Agent: "claude", Workspace: dir}, c.rules, who...)
			v := p.say(c.prompt)
			p.want("calls", p.told("gate.asked", "gate.allowed", "gate.denied", "tool.done", "tool.failed", "tool.denied", "tool.cancelled"), c.want)
			if v.Outcome != c.outcome || v.Denials != c.denials {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestClaudeOnAskFail(t *testing.T) {
	p := invite(t, Config{Agent: "claude", OnAsk: "fail"}, nil)
	if v := p.say("open"); v.Outcome != event.Denied || !strings.Contains(v.Reason, "nobody could answer") {
		t.Errorf("%+v", v)
	}
}

// Five questions at once, answered backwards, by whomever.
func TestClaudeFiveQuestions(t *testing.T) {
	p := invite(t, Config{Agent: "claude"}, nil, gate.AnswererFunc(func(event.GateAsked, func(gate.Answer) error) {}))
	p.inbox <- event.Message{Text: "five"}
	p.awaitAll("gate.asked", 5)
	open := p.gate.Open()
	if len(open) != 5 {
		t.Fatalf("%d are open", len(open))
	}
	for i := 4; i >= 0; i-- {
		if i == 2 { // through the inbox, by the call
			for _, e := range p.journal() {
				if a, ok := e.Body.(event.GateAsked); ok && a.Request == open[i].Request {
					p.inbox <- event.Deny{Call: e.Call, Reason: "not this"}
				}
			}
			continue
		}
		if err := p.gate.Answer(open[i].Request, gate.Answer{Allow: true, By: event.ByControl}); err != nil {
			t.Error(err)
		}
	}
	close(p.inbox)
	v := p.wait()
	ends := p.told("tool.done", "tool.denied")
	if strings.Count(ends, "tool.done") != 4 || strings.Count(ends, "tool.denied") != 1 || v.Denials != 1 || v.Denied != "not this" {
		t.Errorf("%s, %+v", ends, v)
	}
	if err := p.gate.Answer(open[0].Request, gate.Answer{}); err == nil {
		t.Error("a late answer is taken")
	}
}

func TestClaudeIsStopped(t *testing.T) {
	for _, c := range []struct{ prompt, want string }{
		{"slow", "tool.called tool.cancelled reply.cancelled(cancelled)"},
		{"open", "tool.called gate.asked gate.denied(nobody) tool.cancelled reply.cancelled(cancelled)"},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			p := invite(t, Config{Agent: "claude"}, nil, gate.AnswererFunc(func(event.GateAsked, func(gate.Answer) error) {}))
			p.inbox <- event.Message{Text: c.prompt}
			last := event.Kind("tool.called")
			if c.prompt == "open" {
				last = "gate.asked"
			}
			p.await(kind(last))
			p.inbox <- event.Stop{}
			p.await(kind("reply.cancelled"))
			p.want("events", p.told("tool.called", "gate.asked", "gate.denied", "tool.done", "tool.failed", "tool.cancelled", "reply.cancelled", "reply.failed"), c.want)
			if v := p.say("hello"); v.Outcome != event.Done { // the same process goes on
				t.Errorf("%+v", v)
			}
		})
	}
}

// A guest that does not stop is killed with its child, and called back for the next message.
func TestClaudeThatDoesNotStop(t *testing.T) {
	p := invite(t, Config{Agent: "claude", Grace: 200 * time.Millisecond}, nil)
	p.inbox <- event.Message{Text: "deaf"}
	p.await(kind("tool.called"))
	p.inbox <- event.Stop{}
	p.await(kind("reply.cancelled"))
	v := p.say("who")
	p.want("events", p.told("tool.cancelled", "reply.cancelled", "text", "reply.done"),
		"tool.cancelled? reply.cancelled(cancelled)? text(c0ffee00-0000-4000-8000-000000000001 true ) reply.done(end_turn)")
	if v.Outcome != event.Done {
		t.Errorf("%+v", v)
	}
}

func TestClaudeUnderASignal(t *testing.T) {
	p := invite(t, Config{Agent: "claude", Grace: 200 * time.Millisecond}, nil)
	p.inbox <- event.Message{Text: "deaf"}
	p.await(kind("tool.called"))
	p.cancel(&outcome.Cause{Outcome: event.Timeout, Reason: "it took too long"})
	if v := p.wait(); v.Outcome != event.Timeout || v.Stop != "timeout" {
		t.Errorf("%+v", v)
	}
	p.want("events", p.told("tool.cancelled", "error", "reply.failed"), "tool.cancelled? error reply.failed(timeout)?")
}

// Whatever becomes of the process, there is one true end.
func TestClaudeEnds(t *testing.T) {
	for _, c := range []struct {
		prompt, want, reason string
		outcome              event.Outcome
	}{
		{"die", "tool.cancelled? error reply.failed(error)?", "ended before it had answered (exit status 0)", event.Failed},
		{"killed", "tool.cancelled? error reply.failed(error)?", "ended before it had answered (signal: killed)", event.Failed},
		{"cut", "error reply.failed(error)?", "ended before it had answered", event.Failed},
		{"liar", "error reply.failed(error)?", "said that it was done, and then failed (exit status 3)", event.Failed},
		{"stay", "reply.done(end_turn)", "", event.Done},
		{"broke", "error reply.failed(error)", "API Error: 529 overloaded", event.Unavailable},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			p := invite(t, Config{Agent: "claude", Grace: 500 * time.Millisecond}, nil)
			v := p.say(c.prompt)
			p.want("events", p.told("tool.done", "tool.cancelled", "error", "reply.done", "reply.failed"), c.want)
			if v.Outcome != c.outcome || !strings.Contains(v.Reason, c.reason) {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestClaudeMakesNoise(t *testing.T) {
	p := invite(t, Config{Agent: "claude"}, nil)
	if v := p.say("noise"); v.Outcome != event.Done {
		t.Errorf("%+v", v)
	}
	var noise []string
	for _, e := range p.journal() {
		if d, ok := e.Body.(event.Diag); ok {
			noise = append(noise, d.Source+": "+d.Text)
		}
	}
	all := strings.Join(noise, "\n")
	for _, want := range []string{"claude stdout: starting up…", "claude stdout: [31mwarning[0m", "claude stdout: 17", "claude stderr: a complaint", `no line of type "from_tomorrow" is known`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}

func TestClaudeHugeLine(t *testing.T) {
	p := invite(t, Config{Agent: "claude"}, nil)
	p.say("huge")
	e := p.await(kind("text"))
	if n := len(e.Body.(event.Text).Text); n != 4<<20 {
		t.Errorf("%d bytes", n)
	}
}

func TestClaudeSubAgents(t *testing.T) {
	p := invite(t, Config{Agent: "claude"}, []event.Rule{allow("bash", "make *")})
	if v := p.say("agent"); v.Outcome != event.Done {
		t.Errorf("%+v", v)
	}
	p.want("events", p.told("agent.started", "gate.allowed", "tool.done", "agent.ended", "text", "reply.done"),
		"agent.started tool.done text(It works on it.) gate.allowed(rule) tool.done agent.ended text(It is done.) reply.done(end_turn)")
	for _, e := range p.journal() {
		if e.Kind == "gate.allowed" && e.Agent != "t1" {
			t.Errorf("the question is of %q", e.Agent)
		}
	}
}

func TestNoSuchAgent(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for spec, want := range map[string]string{
		"cluade": "did you mean claude?", "acp:": "names no command", `acp:"x`: "close its quote", "acp:nope --acp": "nope is not installed", "gemini": "gemini is not installed",
		"zzz": "write acp: and a command",
	} {
		if _, err := parse(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	got, err := words(`a "b c" d\ e '' 'f"g'`)
	if err != nil || strings.Join(got, "|") != `a|b c|d e||f"g` {
		t.Errorf("%q %v", got, err)
	}
}
