package gate

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-dev/sluice/event"
)

// A stricter gate lets nothing pass that the one above would not, however often it is made stricter, and is answered there.
func TestStricter(t *testing.T) {
	top := New(Policy{Rules: []event.Rule{{Action: Allow, Permission: "read"}, {Action: Deny, Permission: "bash"}}}, Inbox{})
	child := top.Stricter([]event.Rule{{Action: Deny, Permission: "edit"}, {Action: Allow, Permission: "bash"}})
	grandchild := child.Stricter([]event.Rule{{Action: Ask, Permission: "read"}, {Action: Allow, Permission: "edit"}})
	may := func(g *Gate, permission string) string {
		return g.Decide([]Access{{Permission: permission, Target: "x", Class: event.ClassInfo}}).Action
	}
	for _, tt := range []struct{ permission, top, child, grandchild string }{
		{"read", Allow, Allow, Ask},
		{"edit", Ask, Deny, Deny},
		{"bash", Deny, Deny, Deny},
	} {
		if a, b, c := may(top, tt.permission), may(child, tt.permission), may(grandchild, tt.permission); a != tt.top || b != tt.child || c != tt.grandchild {
			t.Errorf("%s: %s, %s, %s", tt.permission, a, b, c)
		}
	}
	q := grandchild.Ask(event.GateAsked{Request: "q1"}, []Access{{Permission: "read", Target: "x", Class: event.ClassInfo}}, event.ClassInfo)
	if open := top.Open(); len(open) != 1 || open[0].Request != "q1" {
		t.Errorf("open above: %v", open)
	}
	if err := top.Answer("q1", Answer{Allow: true, By: event.ByClient}); err != nil {
		t.Fatal(err)
	}
	if a, err := q.Wait(context.Background()); err != nil || !a.Allow {
		t.Errorf("%v, %v", a, err)
	}
	if err := top.Answer("q1", Answer{Allow: true}); !errors.Is(err, ErrLate) {
		t.Error(err)
	}
	if err := top.Answer("q2", Answer{Allow: true}); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	q = grandchild.Ask(event.GateAsked{Request: "q3"}, []Access{{Permission: "read", Target: "x", Class: event.ClassInfo}}, event.ClassInfo)
	if err := top.Answer("q3", Answer{Allow: true, Scope: ScopeAlways, By: event.ByClient}); err != nil {
		t.Fatal(err)
	}
	if a, err := q.Wait(context.Background()); err != nil || !a.Allow {
		t.Errorf("%v, %v", a, err)
	}
	again := child.Stricter([]event.Rule{{Action: Ask, Permission: "read"}})
	if got := may(again, "read"); got != Allow {
		t.Errorf("allowed for the session, a later sub-agent's is %s", got)
	}
	if a, b := may(top, "edit"), may(child, "edit"); a != Allow || b != Deny {
		t.Errorf("of the same class: %s above, %s where a rule denies it", a, b)
	}
	if err := top.SetMode(ModeYolo); err != nil || may(grandchild, "read") != Allow || may(grandchild, "edit") != Deny {
		t.Error("the mode of the one above does not hold, or holds too much")
	}
}
