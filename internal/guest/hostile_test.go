package guest

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// A guest may be broken, or mean. Whatever it does, it ends, and what it asks is answered.
func TestACPHostile(t *testing.T) {
	defer func(size int) { postSize = size }(postSize)
	postSize = 1 << 20
	for _, c := range []struct {
		prompt, want, reason string
		outcome              event.Outcome
	}{
		{"closes", "error reply.failed(error)?", "it closed its stdout", event.Failed},
		{"deaf", "error reply.failed(error)?", "it did not read what it was told", event.Failed},
		{"word", "error reply.failed(error)", `"error":"no"`, event.Failed},
		{"empty", "text(Hello.) reply.done(end_turn)", "", event.Done},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			p := invite(t, Config{Agent: "acp:", Grace: 500 * time.Millisecond}, nil)
			v := p.say(c.prompt)
			p.want("events", p.told("text", "error", "reply.done", "reply.failed", "reply.cancelled"), c.want)
			if v.Outcome != c.outcome || !strings.Contains(v.Reason, c.reason) {
				t.Errorf("%+v", v)
			}
		})
	}
}

// TestACPAsksTwice: two questions that the guest calls by one name are two.
func TestACPAsksTwice(t *testing.T) {
	p := invite(t, Config{Agent: "acp:"}, nil, watcher{})
	p.inbox <- event.Message{Text: "twice"}
	p.awaitAll("gate.asked", 2)
	for i, e := range p.only("gate.asked") {
		if err := p.gate.Answer(e.Body.(event.GateAsked).Request, gate.Answer{Allow: i == 0, By: event.ByControl}); err != nil {
			t.Fatal(err)
		}
		p.awaitAll([]event.Kind{"gate.allowed", "gate.denied"}[i], 1)
	}
	v := p.say()
	p.want("text", p.told("text"), "text(selected yes, selected no)")
	if v.Outcome != event.Done || v.Denials != 1 {
		t.Errorf("%+v", v)
	}
}

// TestACPDoesNotWaitForAnAnswer: who is done with a question open was denied, whether or not a no was on its way.
func TestACPDoesNotWaitForAnAnswer(t *testing.T) {
	p := invite(t, Config{Agent: "acp:"}, nil, watcher{})
	v := p.say("impatient")
	p.want("calls", p.told(calls...), "tool.called gate.asked gate.denied(nobody) tool.denied")
	if v.Outcome != event.Done || v.Denials != 1 {
		t.Errorf("%+v", v)
	}
}

// TestACPNeverReady: a guest that does not answer the greeting is not waited for for ever.
func TestACPNeverReady(t *testing.T) {
	p := invite(t, Config{Agent: "acp:", Greeting: 200 * time.Millisecond, Grace: 500 * time.Millisecond, Env: []string{"MUTE=1"}}, nil)
	if v := p.say("hello"); v.Outcome != event.Failed || !strings.Contains(v.Reason, "did not become ready, and said nothing for 200ms") {
		t.Errorf("%+v", v)
	}
}

// TestACPNoiseIsBounded: of what is no message on stdout some is kept, and that the rest is not is said.
func TestACPNoiseIsBounded(t *testing.T) {
	p := invite(t, Config{Agent: "acp:"}, nil)
	v := p.say("babbles")
	size, last := 0, ""
	for _, e := range p.only("diag") {
		last = e.Body.(event.Diag).Text
		size += len(last)
	}
	if v.Outcome != event.Done || size > noiseSize+noiseLine || !strings.Contains(last, "the rest is left out") {
		t.Errorf("%d bytes, the last %q: %+v", size, last, v)
	}
}

// TestACPEndsByWhatCameFirst: a run that is ended by what the guest says is not done because the guest says so in the same breath.
func TestACPEndsByWhatCameFirst(t *testing.T) {
	for range 5 {
		p := invite(t, Config{Agent: "acp:"}, nil)
		stop := p.src.Watch(func(e event.Event) {
			if e.Kind == "text.delta" {
				p.cancel(&outcome.Cause{Outcome: event.Failed, Reason: "it says the same for ever"})
			}
		})
		if v := p.say("hello"); v.Outcome != event.Failed || v.Reason != "it says the same for ever" {
			t.Errorf("%+v", v)
		}
		stop()
	}
}

// only returns the events of a kind so far.
func (p *party) only(k event.Kind) (list []event.Event) {
	for _, e := range p.journal() {
		if e.Kind == k {
			list = append(list, e)
		}
	}
	return list
}

// A watcher may answer, later.
type watcher struct{}

func (watcher) Asked(event.GateAsked, func(gate.Answer) error) {}
