package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

var calls = []event.Kind{"tool.called", "gate.asked", "gate.allowed", "gate.denied", "tool.started", "tool.output", "tool.done", "tool.failed", "tool.denied", "tool.cancelled"}

func TestACPSaysHello(t *testing.T) {
	p := invite(t, Config{Agent: "acp:"}, nil)
	v := p.say("hello")
	p.want("events", p.told(), "prompt custom(_auth/status_update) turn.started text.delta text(Hello.) turn.ended reply.done(end_turn)")
	in, _ := v.Usage.InputAll()
	out, _ := v.Usage.OutputAll()
	if v.Outcome != event.Done || in != 1410 || out != 17 {
		t.Errorf("%+v", v)
	}
	p.wantOf()
}

// An agent that would do things unasked is put into the mode in which it asks; model and session are set.
func TestACPIsSetUp(t *testing.T) {
	p := invite(t, Config{Agent: "acp:", Model: "big"}, nil)
	p.say("who")
	p.want("text", p.told("text"), "text(acp-1 default big)")
	p = invite(t, Config{Agent: "acp:", Resume: "acp-7", Profile: "yolo"}, nil)
	p.say("who")
	p.want("text", p.told("text", "prompt"), "prompt text(acp-7 yolo )")
	for env, want := range map[string]string{"NOLOAD=1": "cannot go on with a session", "NOAUTH=1": "Authentication required"} {
		cfg := Config{Agent: "acp:", Env: []string{env}}
		if env == "NOLOAD=1" {
			cfg.Resume = "acp-7"
		}
		p = invite(t, cfg, nil)
		if v := p.say("who"); v.Outcome != event.Failed || !strings.Contains(v.Reason, want) {
			t.Errorf("%s: %+v", env, v)
		}
	}
}

func TestACPAsksTheGate(t *testing.T) {
	for _, c := range []struct {
		name, prompt string
		rules        []event.Rule
		who          []gate.Answerer
		want, text   string
		denials      int
	}{
		{"a rule", "run go test", []event.Rule{allow("bash", "go *")}, nil, "tool.called gate.allowed(rule) tool.started tool.output tool.output tool.output tool.done", "selected yes", 0},
		{"a command fails", "run false", []event.Rule{allow("bash", "*")}, nil, "tool.called gate.allowed(rule) tool.started tool.output tool.output tool.output tool.failed", "selected yes", 0},
		{"a deny rule", "run rm x", []event.Rule{allow("*", "*"), deny("bash", "rm *")}, nil, "tool.called gate.denied(rule) tool.denied", "selected no", 1},
		{"nobody", "run make", nil, nil, "tool.called gate.asked gate.denied(nobody) tool.denied", "selected no", 1},
		{"auto", "run make", nil, []gate.Answerer{gate.Auto{}}, "tool.called gate.asked gate.allowed(auto) tool.started tool.output tool.output tool.output tool.done", "selected yes", 0},
		{"a call that is never told", "reject /etc/x", nil, nil, "tool.called gate.asked gate.denied(nobody) tool.denied", "selected no", 1},
		{"no way to allow", "closed", []event.Rule{allow("*", "*")}, nil, "tool.called gate.denied(nobody) tool.denied", "selected no", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := invite(t, Config{Agent: "acp:"}, c.rules, c.who...)
			v := p.say(c.prompt)
			p.want("calls", p.told(calls...), c.want)
			if !strings.HasSuffix(p.told("text"), "text("+c.text+")") {
				t.Errorf("the agent was told %s", p.told("text"))
			}
			if v.Outcome != event.Done || v.Denials != c.denials {
				t.Errorf("%+v", v)
			}
		})
	}
}

// The question has the guest's own options, and the one that is chosen is the one that is sent.
func TestACPOptionsAreTheGuests(t *testing.T) {
	p := invite(t, Config{Agent: "acp:"}, nil, gate.AnswererFunc(func(q event.GateAsked, answer func(gate.Answer) error) {
		answer(gate.Answer{Option: "yes-and-always", By: event.ByFile})
	}))
	p.say("run make")
	asked := p.await(kind("gate.asked")).Body.(event.GateAsked)
	if len(asked.Options) != 3 || asked.Options[1].ID != "yes" || asked.Tool != "bash" || !strings.Contains(asked.Question, "make") {
		t.Errorf("%+v", asked)
	}
	if !strings.HasSuffix(p.told("text"), "text(selected yes-and-always)") {
		t.Error(p.told("text"))
	}
}

func TestACPFiveQuestions(t *testing.T) {
	p := invite(t, Config{Agent: "acp:"}, nil, gate.AnswererFunc(func(event.GateAsked, func(gate.Answer) error) {}))
	p.inbox <- event.Message{Text: "five"}
	p.awaitAll("gate.asked", 5)
	for i, q := range p.gate.Open() {
		if err := p.gate.Answer(q.Request, gate.Answer{Allow: i != 3, Reason: "no", By: event.ByControl}); err != nil {
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

func TestACPIsStopped(t *testing.T) {
	for _, c := range []struct{ prompt, want, text string }{
		{"slow", "tool.called tool.started tool.cancelled", ""},
		{"open", "tool.called tool.started gate.asked gate.denied(nobody) tool.cancelled", "text(cancelled)"},
		{"quiet", "tool.called tool.cancelled?", ""},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			p := invite(t, Config{Agent: "acp:"}, nil, gate.AnswererFunc(func(event.GateAsked, func(gate.Answer) error) {}))
			p.inbox <- event.Message{Text: c.prompt}
			last := event.Kind("tool.called")
			if c.prompt == "open" {
				last = "gate.asked"
			}
			p.await(kind(last))
			p.inbox <- event.Stop{}
			p.await(kind("reply.cancelled"))
			p.want("calls", p.told(calls...), c.want)
			p.want("text", p.told("text"), c.text)
			if v := p.say("hello"); v.Outcome != event.Done {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestACPUpdateKinds(t *testing.T) {
	p := invite(t, Config{Agent: "acp:"}, nil)
	v := p.say("kinds")
	p.want("events", p.told(), "prompt custom(_auth/status_update) custom(acp.available_commands_update) custom(acp.current_mode_update) plan turn.started thought.delta "+
		"custom(acp.from_tomorrow) thought text.delta custom(acp.usage_update) prompt text(First.) text.delta text([resource_link file:///x]) turn.ended reply.done(end_turn)")
	if c, _ := v.Cost.Sum(); c != 0.25 {
		t.Errorf("%+v", v)
	}
	plan := p.await(kind("plan")).Body.(event.Plan)
	if string(plan.Fields) != `{"entries":[{"content":"think","priority":"high","status":"pending"}]}` {
		t.Errorf("%s", plan.Fields)
	}
}

func TestACPOrder(t *testing.T) {
	p := invite(t, Config{Agent: "acp:"}, nil)
	p.say("order")
	p.want("events", p.told("tool.called", "tool.done", "tool.failed", "text", "custom", "reply.done"),
		"custom(_auth/status_update) tool.called tool.done text(Done.) reply.done(end_turn) custom(acp.available_commands_update)")
	if last := p.events[len(p.events)-2]; last.Kind != "foreign" { // the late chunk: kept, and told nobody
		t.Errorf("the last event is %s", last.Kind)
	}
}

func TestACPIdsStayUnique(t *testing.T) {
	p := invite(t, Config{Agent: "acp:"}, nil)
	p.s.Recall(event.Event{Header: event.Header{Call: "item_0"}, Body: event.ToolCalled{}})
	p.say("again", "again")
	var ids []string
	for _, e := range p.journal() {
		if e.Kind == "tool.called" || e.Kind == "tool.done" {
			ids = append(ids, e.Call)
		}
	}
	p.want("calls", strings.Join(ids, " "), "item_0-2 item_0-2 item_0-3 item_0-3")
}

func TestACPEnds(t *testing.T) {
	for _, c := range []struct {
		prompt, want, reason string
		outcome              event.Outcome
	}{
		{"stops max_tokens", "error reply.failed(max_tokens)", "max_tokens", event.Failed},
		{"stops refusal", "error reply.failed(refusal)", "refusal", event.Failed},
		{"stops max_turn_requests", "error reply.failed(max_turn_requests)", "max_turn", event.Failed},
		{"stops from_tomorrow", "error reply.failed(from_tomorrow)", "from_tomorrow", event.Failed},
		{"stops cancelled", "reply.cancelled(cancelled)", "interrupted", event.Cancelled},
		{"error", "error reply.failed(error)", "Internal error (the model is gone)", event.Failed},
		{"die", "tool.cancelled? error reply.failed(error)?", "ended before it had answered (exit status 0)", event.Failed},
		{"stay", "reply.done(end_turn)", "", event.Done},
		{"noise", "reply.done(end_turn)", "", event.Done},
		{"huge", "reply.done(end_turn)", "", event.Done},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			p := invite(t, Config{Agent: "acp:", Grace: 500 * time.Millisecond}, nil)
			v := p.say(c.prompt)
			p.want("events", p.told("tool.cancelled", "error", "reply.done", "reply.failed", "reply.cancelled"), c.want)
			if v.Outcome != c.outcome || !strings.Contains(v.Reason, c.reason) {
				t.Errorf("%+v", v)
			}
		})
	}
}

// What real agents said, as it was recorded.
func TestACPRecorded(t *testing.T) {
	for name, want := range map[string]string{
		"claude-acp.tools3.allow":  "tool.called tool.done tool.called tool.done tool.called gate.asked gate.allowed(auto) tool.done",
		"claude-acp.tools3.reject": "tool.called tool.done tool.called tool.done tool.called gate.asked gate.denied(nobody) tool.denied",
		"opencode.tools3.allow":    "tool.called tool.started gate.asked gate.allowed(auto) tool.output tool.done tool.called tool.started tool.done tool.called tool.started gate.asked gate.allowed(auto) tool.done",
		"gemini.tools3.allow":      "tool.called tool.started tool.output tool.done tool.called tool.started tool.done tool.called tool.started tool.failed",
	} {
		t.Run(name, func(t *testing.T) {
			file, err := filepath.Abs(filepath.Join("testdata", "acp", name+".ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(file); err != nil {
				t.Fatal(err)
			}
			var who []gate.Answerer
			if strings.HasSuffix(name, "allow") {
				who = append(who, gate.Auto{})
			}
			p := invite(t, Config{Agent: "acp:"}, nil, who...)
			v := p.say("replay " + file)
			p.want("calls", p.told(calls...), want)
			if v.Outcome != event.Done || !strings.HasSuffix(p.told("text"), "text(Done. This is the final answer from the mock model.)") {
				t.Errorf("%+v: %s", v, p.told("text"))
			}
			for _, e := range p.journal() {
				if b, ok := e.Body.(event.ToolCalled); ok && strings.HasPrefix(name, "claude") && !strings.Contains(string(b.Input), `"`) {
					t.Errorf("%s is told without its input: %s", e.Call, b.Input)
				}
			}
		})
	}
}

// What goes wrong before anything is asked is told to who asks.
func TestACPRefusesBeforeItIsAsked(t *testing.T) {
	p := invite(t, Config{Agent: "acp:", Env: []string{"NOAUTH=1"}}, nil)
	p.await(func(e event.Event) bool {
		f, ok := e.Body.(event.Foreign)
		return ok && strings.Contains(string(f.Line), "Authentication required")
	})
	if v := p.say("who"); v.Outcome != event.Failed || !strings.Contains(v.Reason, "Authentication required") {
		t.Errorf("%+v", v)
	}
}
