package agent

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/tool"
)

// Sessions that write one journal share names and budget; each model says the same ids.
func TestSessionsOfOneJournal(t *testing.T) {
	n := &notes{}
	src := event.NewSource("run", 0, n, nil, time.Now)
	common := NewCommon(src.Last())
	open := func(session string, budget Budget) *Session {
		m := &fake{answers: list(says(wants("poke", `{}`)), says(text("said by "+session)), says(text("and again")))}
		return New(Config{
			Open:     func(context.Context) (provider.Model, error) { return m, nil },
			Provider: "fake", Model: "one", Session: session, Common: common, Budget: budget,
			Tools: []tool.Tool{toy{"poke", event.ClassExec, works("poked")}}, Gate: gate.New(gate.Policy{}, gate.Auto{}), Now: time.Now,
		}, src)
	}
	serve := func(s *Session) outcome.Verdict {
		inbox := make(chan event.Command, 1)
		inbox <- event.Message{Text: "go"}
		close(inbox)
		return s.Serve(t.Context(), inbox)
	}
	for i := range 3 {
		if v := serve(open(fmt.Sprint("s", i), Budget{})); v.Outcome != event.Done {
			t.Fatal(v)
		}
	}
	seen := map[string]bool{}
	for _, e := range n.list {
		id := e.Call
		switch b := e.Body.(type) {
		case event.Prompt:
			id = b.ID
		case event.GateAsked:
			id = b.Request
		case event.ToolCalled:
		default:
			continue
		}
		if seen[id] {
			t.Errorf("%s has the name %q, which is another's", e.Kind, id)
		}
		seen[id] = true
	}
	if !seen["c0"] || !seen["c0-2"] || !seen["c0-3"] {
		t.Errorf("calls: %v", seen)
	}

	// One that resumes the second knows what that said, and nothing of the others.
	again := open("s1", Budget{})
	for _, e := range slices.Clone(n.list) {
		if e.Session == "s1" {
			again.Recall(e)
		}
	}
	var said []string
	for _, e := range again.request(nil).History {
		if b, ok := e.Body.(event.Text); ok {
			said = append(said, b.Text)
		}
	}
	if !slices.Equal(said, []string{"said by s1"}) {
		t.Errorf("it remembers %q", said)
	}

	// Three sessions of 24 tokens each were there.
	if v := serve(open("s4", Budget{Tokens: 80})); v.Outcome != event.Budget {
		t.Errorf("the budget is the journal's, and was overspent: %+v", v)
	}
}

func TestPlay(t *testing.T) {
	n := &notes{}
	m := &fake{answers: list(says(text("a plan")))}
	s := testSession(m, n, gate.New(gate.Policy{}), func(c *Config) { c.Depth = 1; c.NewSession = func() string { return "child" } })
	said, v := s.Play(t.Context(), "plan", "plan it", Role{Name: "planner", System: "You plan."})
	if said != "a plan" || v.Outcome != event.Done || *v.Usage.Input != 10 {
		t.Errorf("%q %+v", said, v)
	}
	first, _ := n.list[0].Body.(event.AgentStarted)
	if first.Role != "planner" || first.Prompt != "plan it" || n.list[0].Session != "child" || n.list[0].Agent != "task-1" {
		t.Errorf("%+v", n.list[0])
	}
	if last := n.list[len(n.list)-1]; last.Kind != "agent.ended" {
		t.Errorf("%+v", last)
	}
	if m.asked[0].System != "You plan." {
		t.Errorf("%q", m.asked[0].System)
	}
}
