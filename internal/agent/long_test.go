package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/tool"
)

// A teller answers by what it is asked.
type teller func(r provider.Request) func(context.Context, func(event.Event, error) bool)

func (f teller) Answer(ctx context.Context, r provider.Request) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) { f(r)(ctx, yield) }
}

// first is the first prompt of a request, answers how many answers it holds.
func first(r provider.Request) string {
	for _, e := range r.History {
		if p, ok := e.Body.(event.Prompt); ok {
			return p.Text
		}
	}
	return ""
}

func ends(r provider.Request) (n int) {
	for _, e := range r.History {
		if _, ok := event.AsToolEnd(e.Body); ok {
			n++
		}
	}
	return n
}

func yolo() *gate.Gate { return gate.New(gate.Policy{Mode: gate.ModeYolo}) }

func deep(c *Config) {
	n := 0
	c.Depth, c.NewSession = 2, func() string { n++; return fmt.Sprintf("sub-%d", n) }
}

// Sub-agents are told with their path and session, their usage counts, and their last word is the result.
func TestSubAgents(t *testing.T) {
	m := teller(func(r provider.Request) func(context.Context, func(event.Event, error) bool) {
		switch prompt := first(r); {
		case prompt == "go" && ends(r) == 0:
			return says(wants("task", `{"description":"left","prompt":"left"}`), wants("task", `{"description":"right","prompt":"right"}`))
		case prompt == "left" && ends(r) == 0:
			return says(wants("task", `{"description":"inner","prompt":"inner"}`))
		case prompt == "left":
			return says(text("left is done"))
		case prompt == "inner":
			for _, tool := range r.Tools {
				if tool.Name == "task" {
					return says(text("it could go on for ever"))
				}
			}
			return says(text("inner is done"))
		case prompt == "right":
			return fails(&provider.Error{Class: provider.Invalid, Status: 400, Message: "bad"})
		}
		return says(text("all is done"))
	})
	n := &notes{}
	v := answer(t, testSession(m, n, yolo(), deep))
	if v.Outcome != event.Done || *v.Usage.Input != 50 { // go, left, inner, left, go
		t.Errorf("%+v", v)
	}
	n.whole(t, false)
	told := strings.Join(n.short(), "\n")
	for _, want := range []string{"tool.done c0 left is done", "tool.failed c1 the sub-agent failed: bad (400)", "inner is done"} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not told in\n%s", want, told)
		}
	}
	paths := map[string]string{}
	for _, e := range n.list {
		if b, ok := e.Body.(event.AgentStarted); ok {
			paths[b.Title] = e.Agent + " " + fmt.Sprint(b.Depth, e.Session != "ses")
		}
	}
	if inner := paths["inner"]; !strings.HasPrefix(inner, "task-") || !strings.HasSuffix(inner, " 2 true") || strings.Count(inner, "/") != 1 {
		t.Errorf("%v", paths)
	}
}

// A sub-agent has no more rights than its parent, and its question nobody can answer ends the run if that is asked for.
func TestSubAgentHasNoMoreRights(t *testing.T) {
	m := teller(func(r provider.Request) func(context.Context, func(event.Event, error) bool) {
		switch prompt := first(r); {
		case prompt == "go" && ends(r) == 0:
			return says(wants("task", `{"prompt":"sub"}`))
		case prompt == "sub" && ends(r) == 0:
			return says(wants("poke", `{}`))
		}
		return says(text("done"))
	})
	rules := []event.Rule{{Permission: "task", Pattern: "*", Action: gate.Allow}}
	for onAsk, want := range map[string]event.Outcome{"deny": event.Done, "fail": event.Denied} {
		n := &notes{}
		s := testSession(m, n, gate.New(gate.Policy{Rules: rules}, gate.Nobody{}), func(c *Config) { deep(c); c.OnAsk = onAsk }, toy{"poke", event.ClassExec, works("poked")})
		v := answer(t, s)
		if v.Outcome != want || v.Denials != 1 {
			t.Errorf("%s: %+v\n%s", onAsk, v, strings.Join(n.short(), "\n"))
		}
		if strings.Contains(strings.Join(n.short(), "\n"), "poked") {
			t.Error("it was poked all the same")
		}
		n.whole(t, false)
	}
}

func TestBudgets(t *testing.T) {
	calls := func() []func(context.Context, func(event.Event, error) bool) {
		return list(says(wants("poke", `{"n":1}`), wants("poke", `{"n":2}`)), says(wants("poke", `{"n":3}`), wants("poke", `{"n":4}`)), says(text("summed up")))
	}
	for name, tt := range map[string]struct {
		budget Budget
		want   event.Outcome
		lines  []string
	}{
		"enough": {Budget{Calls: 4, Tokens: 1000, Cost: 1}, event.Done, []string{"tool.done c1-2 poked"}},
		"calls":  {Budget{Calls: 3}, event.Budget, []string{"tool.done c0-2 poked", "tool.cancelled c1-2 the limit of 3 tool calls is reached", "text summed up"}},
		"tokens": {Budget{Tokens: 24}, event.Budget, []string{"tool.done c1 poked", "tool.cancelled c0-2 the limit of 24 tokens is reached", "tool.cancelled c1-2"}},
		"near":   {Budget{Tokens: 26}, event.Done, []string{"prompt  The budget is nearly used up"}},
		"cost":   {Budget{Cost: 0.5}, event.Budget, []string{"tool.cancelled c0 the limit of $0.5 is reached"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &notes{}
			s := testSession(&fake{answers: calls()}, n, yolo(), func(c *Config) {
				c.Budget = tt.budget
				if tt.budget.Cost == 0.5 {
					c.Price = provider.Price{Input: 1e6, Output: 1e6}
				}
			}, toy{"poke", event.ClassExec, works("poked")})
			v := answer(t, s)
			told := strings.Join(n.short(), "\n")
			if v.Outcome != tt.want {
				t.Errorf("%+v\n%s", v, told)
			}
			for _, l := range tt.lines {
				if !strings.Contains(told, l) {
					t.Errorf("%q is not told in\n%s", l, told)
				}
			}
			n.whole(t, false)
		})
	}
}

// The same calls with the same results are a loop, also in cycles of up to four; different results are not.
func TestLoops(t *testing.T) {
	for cycle := 1; cycle <= 5; cycle++ {
		for _, same := range []bool{true, false} {
			asked, ran := 0, 0
			m := teller(func(r provider.Request) func(context.Context, func(event.Event, error) bool) {
				if asked++; asked > 40 {
					return says(text("enough"))
				}
				return says(wants("poke", fmt.Sprintf(`{"n":%d}`, asked%cycle)))
			})
			n := &notes{}
			v := answer(t, testSession(m, n, yolo(), nil, toy{"poke", event.ClassExec, func(context.Context, func(string)) tool.Result {
				if ran++; same {
					return tool.Result{Output: "same"}
				}
				return tool.Result{Output: fmt.Sprint(ran)}
			}}))
			want := event.Done
			if same && cycle <= 4 {
				want = event.Failed
			}
			if v.Outcome != want {
				t.Errorf("cycle %d, same %v: %+v after %d", cycle, same, v, asked)
			}
			if warned := strings.Contains(strings.Join(n.short(), "\n"), "again and again"); warned != (want == event.Failed) {
				t.Errorf("cycle %d, same %v: warned %v", cycle, same, warned)
			}
			n.whole(t, false)
		}
	}
}

// A final answer that does not pass its check is asked for again, twice.
func TestCheck(t *testing.T) {
	check := func(c *Config) {
		c.Check = func(s string) error {
			if s != "42" {
				return errors.New("the answer is not a number")
			}
			return nil
		}
	}
	n := &notes{}
	if v := answer(t, testSession(&fake{answers: list(says(text("hm")), says(text("42")))}, n, yolo(), check)); v.Outcome != event.Done {
		t.Errorf("%+v", v)
	}
	n.whole(t, false)
	n = &notes{}
	v := answer(t, testSession(&fake{answers: list(says(text("a")), says(text("b")), says(text("c")))}, n, yolo(), check))
	if v.Outcome != event.Unverified || v.Reason != "the answer is not a number" {
		t.Errorf("%+v", v)
	}
	if last := n.list[len(n.list)-1].Kind; last != "reply.done" {
		t.Errorf("the reply ends in %s: it was answered, only not well", last)
	}
	n.whole(t, false)
}

// The history is shortened before the window is full, and when it did not fit; not again and again.
func TestCompaction(t *testing.T) {
	summing := func(r provider.Request) bool {
		p, ok := r.History[len(r.History)-1].Body.(event.Prompt)
		return ok && p.Text == summarise
	}
	heavy := func(used int64, bodies ...event.Body) func(context.Context, func(event.Event, error) bool) {
		return func(ctx context.Context, yield func(event.Event, error) bool) {
			says(bodies...)(ctx, func(e event.Event, err error) bool {
				if b, ok := e.Body.(event.TurnEnded); ok {
					b.Usage.Input = new(used)
					e.Body = b
				}
				return yield(e, err)
			})
		}
	}
	window := func(c *Config) { c.Price = provider.Price{Window: 1000} }
	t.Run("before it is full", func(t *testing.T) {
		m := teller(func(r provider.Request) func(context.Context, func(event.Event, error) bool) {
			c, compacted := r.History[0].Body.(event.Compacted)
			switch {
			case summing(r):
				return heavy(810, text("we poked"))
			case compacted && strings.HasPrefix(c.Summary, "we poked\n\nThe user's last message was:\ngo") && len(r.History) == 1:
				return heavy(50, text("done"))
			case ends(r) == 2:
				return says(text("nobody shortened it"))
			}
			return heavy(int64(400*(1+ends(r))), wants("poke", `{}`))
		})
		n := &notes{}
		v := answer(t, testSession(m, n, yolo(), window, toy{"poke", event.ClassExec, works("poked")}))
		told := strings.Join(n.short(), "\n")
		if v.Outcome != event.Done || strings.Count(told, "compacted") != 1 || !strings.Contains(told, "text done") {
			t.Errorf("%+v\n%s", v, told)
		}
		if *v.Usage.Input != 400+800+810+50 {
			t.Errorf("the summary is not counted: %d", *v.Usage.Input)
		}
		n.whole(t, false)
	})
	t.Run("it did not fit", func(t *testing.T) {
		full := &provider.Error{Class: provider.Overflow, Status: 400, Message: "too long"}
		m := teller(func(r provider.Request) func(context.Context, func(event.Event, error) bool) {
			_, compacted := r.History[0].Body.(event.Compacted)
			switch {
			case compacted:
				return says(text("done"))
			case summing(r) && strings.HasPrefix(first(r), "So far:"):
				return says(text("in short"))
			case ends(r) == 1:
				return fails(full)
			}
			return says(wants("poke", `{}`))
		})
		n := &notes{}
		if v := answer(t, testSession(m, n, yolo(), window, toy{"poke", event.ClassExec, works("poked")})); v.Outcome != event.Done {
			t.Errorf("%+v\n%s", v, strings.Join(n.short(), "\n"))
		}
		n.whole(t, false)
	})
	t.Run("for ever", func(t *testing.T) {
		m := teller(func(r provider.Request) func(context.Context, func(event.Event, error) bool) {
			if summing(r) {
				return says(text("short"))
			}
			return heavy(990, wants("poke", `{}`))
		})
		n := &notes{}
		v := answer(t, testSession(m, n, yolo(), window, toy{"poke", event.ClassExec, works("poked")}))
		if v.Outcome != event.Failed || !strings.Contains(v.Reason, "exhausted") {
			t.Errorf("%+v", v)
		}
		n.whole(t, false)
	})
}

// Hooks see a call before and after it runs, and the first may refuse it.
func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		n := &notes{}
		v := answer(t, testSession(&fake{answers: list(says(wants("poke", `{"n":1}`), wants("poke", `{"n":2}`)), says(text("ok")))}, n, yolo(), func(c *Config) {
			c.Before = func(_ context.Context, call Call) error {
				if string(call.Input) == `{"n":2}` {
					return errors.New("not this one")
				}
				return nil
			}
			c.After = func(_ context.Context, call Call, end event.ToolEnd) { seen = append(seen, call.ID+" "+end.Output) }
		}, toy{"poke", event.ClassEdit, works("poked")}))
		if v.Denials != 1 || strings.Join(seen, ",") != "c0 poked" {
			t.Errorf("%+v %v", v, seen)
		}
		if told := strings.Join(n.short(), "\n"); !strings.Contains(told, "gate.denied c1 by hook\ntool.denied c1 not this one") {
			t.Error(told)
		}
		n.whole(t, false)
	})
}
