package gate

import (
	"testing"

	"github.com/sluice-dev/sluice/event"
)

// What a face reads from rules of its own counts as one rule before all others: what is denied elsewhere stays denied, and what
// it denies nobody allows.
func TestOwnRulesOfAFace(t *testing.T) {
	own := func(action string) func(Access) *event.Rule {
		return func(a Access) *event.Rule {
			if a.Target != "x" {
				return nil
			}
			return &event.Rule{Permission: "theirs", Pattern: "x", Action: action}
		}
	}
	rules := func(action string) []event.Rule {
		return []event.Rule{{Permission: "bash", Pattern: "*", Action: action}}
	}
	for _, c := range []struct {
		own, other, target, want string
		by                       string // permission of the rule that decides
	}{
		{Allow, "", "x", Allow, "theirs"},
		{Ask, "", "x", Ask, "theirs"},
		{Deny, Allow, "x", Deny, "theirs"},
		{Allow, Deny, "x", Deny, "bash"},
		{Allow, Ask, "x", Ask, "bash"},
		{Ask, Allow, "x", Allow, "bash"},
		{Allow, "", "y", Ask, ""},
		{Deny, Allow, "y", Allow, "bash"},
	} {
		p := Policy{Own: own(c.own)}
		if c.other != "" {
			p.Rules = rules(c.other)
		}
		d := p.Decide([]Access{{Permission: "bash", Target: c.target, Class: event.ClassExec}})
		by := ""
		if d.Rule != nil {
			by = d.Rule.Permission
		}
		if d.Action != c.want || by != c.by {
			t.Errorf("own %s, others %q, %s: %s by %q, want %s by %q", c.own, c.other, c.target, d.Action, by, c.want, c.by)
		}
	}
	protected := Policy{Mode: ModeYolo, Own: func(Access) *event.Rule { return &event.Rule{Permission: "*", Pattern: "*", Action: Allow} }}
	if d := protected.Decide([]Access{{Permission: "edit", Target: ".git/config", Class: event.ClassEdit}}); d.Action != Deny {
		t.Errorf("what is protected is %s", d.Action)
	}
}

// A permission is told by the name that the face has for it, in decisions and in questions, and decided by ours.
func TestPermissionIsCalled(t *testing.T) {
	a := []Access{{Permission: "edit", Target: "main.go", Class: event.ClassEdit, Called: "write"}}
	g := New(Policy{Rules: []event.Rule{{Permission: "edit", Pattern: "*.go", Action: Allow}}})
	if b, ok := g.Decide(a).Event("write", nil).(event.GateAllowed); !ok || b.Permission != "write" {
		t.Errorf("it is told as %+v", b)
	}
	if q := New(Policy{}).Ask(event.GateAsked{Request: "q1"}, a, "").Asked(); q.Permission != "write" {
		t.Errorf("it is asked as %q", q.Permission)
	}
}
