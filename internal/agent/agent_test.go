package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fake is a model that gives one answer after the other, and remembers what it was asked.
type fake struct {
	answers []func(ctx context.Context, yield func(event.Event, error) bool)
	asked   []provider.Request
}

func (f *fake) Answer(ctx context.Context, r provider.Request) iter.Seq2[event.Event, error] {
	n := len(f.asked)
	f.asked = append(f.asked, r)
	return func(yield func(event.Event, error) bool) { f.answers[n](ctx, yield) }
}

// says is an answer made of bodies; calls are named call:NAME with their input.
func says(bodies ...event.Body) func(context.Context, func(event.Event, error) bool) {
	return func(_ context.Context, yield func(event.Event, error) bool) {
		finish := event.FinishStop
		for i, b := range bodies {
			e := event.Event{Body: b}
			if _, ok := b.(event.ToolCalled); ok {
				e.Call, finish = fmt.Sprintf("c%d", i), event.FinishToolCalls
			}
			if end, ok := b.(event.TurnEnded); ok {
				finish = end.Finish
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
		yield(event.Event{Body: event.TurnEnded{Finish: finish, Usage: event.Usage{Input: new(int64(10)), Output: new(int64(2))}}}, nil)
	}
}

func text(s string) event.Body { return event.Text{Text: s} }
func wants(name, input string) event.Body {
	return event.ToolCalled{Name: name, Input: event.Raw(input)}
}

// fails is an answer that never comes.
func fails(err error) func(context.Context, func(event.Event, error) bool) {
	return func(_ context.Context, yield func(event.Event, error) bool) { yield(event.Event{}, err) }
}

// hangs is an answer that stops in its middle until somebody has enough.
func hangs(ctx context.Context, yield func(event.Event, error) bool) {
	yield(event.Event{Body: event.TextDelta{Text: "I thi"}}, nil)
	<-ctx.Done()
	yield(event.Event{Body: event.Text{Text: "I thi", Partial: true}}, nil)
	yield(event.Event{}, ctx.Err())
}

// A toy is a tool that does what its test says.
type toy struct {
	name  string
	class event.Class
	run   func(ctx context.Context, out func(string)) tool.Result
}

func (t toy) Spec() tool.Spec {
	return tool.Spec{Name: t.name, Class: t.class, Schema: event.Raw(`{"type":"object"}`)}
}

func (t toy) Plan(input event.Raw) (tool.Plan, error) {
	if strings.Contains(string(input), "wrong") {
		return tool.Plan{}, errors.New("wrong: it is a number")
	}
	return tool.Plan{
		Title: "it", Run: t.run,
		Access: []gate.Access{{Permission: t.name, Target: "it", Class: t.class}},
	}, nil
}

func works(output string) func(context.Context, func(string)) tool.Result {
	return func(context.Context, func(string)) tool.Result { return tool.Result{Output: output} }
}

// A journal keeps events in memory.
type notes struct {
	mu   sync.Mutex
	list []event.Event
}

func (n *notes) Put(e event.Event) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, e)
	return nil
}

// short tells each event in a few words.
func (n *notes) short() (lines []string) {
	for _, e := range n.list {
		line := string(e.Kind)
		if e.Call != "" {
			line += " " + e.Call
		}
		switch b := e.Body.(type) {
		case event.Text:
			line += " " + b.Text
			if b.Partial {
				line += " …"
			}
		case event.Prompt:
			line += " " + b.ID + " " + b.Text
		case event.TurnEnded:
			line += " " + string(b.Finish)
		case event.Notice:
			line += " " + b.Text
		case event.Error:
			line += " " + b.Message
		}
		if end, ok := event.AsToolEnd(e.Body); ok {
			line += " " + end.Output + end.Error
		}
		if a, ok := event.AsGateAnswer(e.Body); ok {
			line += " by " + string(a.By)
		}
		if r, ok := event.AsReplyEnd(e.Body); ok {
			line += " " + r.Prompt + " " + r.Stop
		}
		lines = append(lines, line)
	}
	return lines
}

func testSession(m provider.Model, n *notes, g *gate.Gate, change func(*Config), tools ...tool.Tool) *Session {
	cfg := Config{
		Open:     func(context.Context) (provider.Model, error) { return m, nil },
		Provider: "fake", Model: "one", Tools: tools, Gate: g, Now: time.Now,
	}
	if change != nil {
		change(&cfg)
	}
	return New(cfg, event.NewSource("ses", 0, n, nil, time.Now))
}

// answer plays one message to a session.
func answer(t *testing.T, s *Session) outcome.Verdict {
	t.Helper()
	inbox := make(chan event.Command, 1)
	inbox <- event.Message{ID: "m", Text: "go"}
	close(inbox)
	return s.Serve(t.Context(), inbox)
}

// whole checks that the events lint clean once a run is around them.
func (n *notes) whole(t *testing.T, broken bool) {
	t.Helper()
	var list []event.Event
	keep := func(e event.Event) { list = append(list, e) }
	var m event.Mender
	m.Put(event.Event{Body: event.RunStarted{Format: event.Format}}, keep)
	for _, e := range n.list {
		m.Put(e, keep)
	}
	m.Put(event.Event{Body: event.RunDone{Outcome: event.Done}}, keep)
	m.Close(keep)
	if added := len(list) - len(n.list) - 2; added > 0 && !broken {
		t.Errorf("%d things were left open", added)
	}
	d, _ := dialect.Lookup("native")
	l := dialect.NewLinter(d, func(p dialect.Diagnostic) { t.Errorf("%+v", p) })
	for i, e := range list {
		e.Seq, e.Session = uint64(i+1), "ses"
		l.Line(event.Append(nil, e.Stamp()), false)
	}
	l.Close()
}

// Three messages, a stop and a change of mode: the inbox is served while a reply goes on.
func TestInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &fake{answers: []func(context.Context, func(event.Event, error) bool){
			says(text("one")),
			hangs,
			says(wants("poke", `{}`)),
			says(text("three")),
		}}
		n := &notes{}
		s := testSession(m, n, gate.New(gate.Policy{}), nil, toy{"poke", event.ClassExec, works("poked")})
		inbox := make(chan event.Command)
		verdict := make(chan outcome.Verdict)
		go func() { verdict <- s.Serve(t.Context(), inbox) }()
		inbox <- event.History{Text: "before"}
		inbox <- event.Message{ID: "a", Text: "first"}
		inbox <- event.Message{ID: "b", Text: "second"}
		synctest.Wait() // the second reply hangs
		inbox <- event.Stop{}
		synctest.Wait()
		inbox <- event.Stop{} // nothing goes on: no harm
		inbox <- event.SetMode{Mode: "loud"}
		inbox <- event.SetMode{Mode: "yolo"}
		inbox <- event.History{Text: "too late"}
		inbox <- event.Approve{Call: "none"}
		inbox <- event.Message{ID: "c", Text: "third"}
		close(inbox)
		if v := <-verdict; v.Outcome != event.Done {
			t.Errorf("%+v", v)
		}
		want := []string{
			"prompt  before",
			"prompt a first", "turn.started", "text one", "turn.ended stop", "reply.done a end_turn",
			"prompt b second", "turn.started", "text.delta", "text I thi …", "turn.ended error", "reply.cancelled b cancelled",
		}
		got := n.short()
		if diff := cmp.Diff(want, got[:len(want)]); diff != "" {
			t.Error(diff)
		}
		rest := strings.Join(got[len(want):], "\n")
		for _, w := range []string{
			"notice mode is now yolo", "error history comes too late", `no call "none" waits for an answer`, "loud",
			"gate.allowed c0 by mode\ntool.started c0\ntool.done c0 poked", "reply.done c end_turn",
		} {
			if !strings.Contains(rest, w) {
				t.Errorf("%q is not told in\n%s", w, rest)
			}
		}
		n.whole(t, false)
		if n := len(m.asked[3].History); n != 7 { // before, first, one, second, third, the call, its end
			t.Errorf("the last request tells %d things", n)
		}
	})
}

func TestReplies(t *testing.T) {
	deny := gate.New(gate.Policy{Rules: []event.Rule{{Permission: "poke", Pattern: "*", Action: gate.Deny}}})
	limit := func(c *Config) { c.Turns = 1 }
	for name, tt := range map[string]struct {
		answers []func(context.Context, func(event.Event, error) bool)
		gate    *gate.Gate
		change  func(*Config)
		tool    func(context.Context, func(string)) tool.Result
		want    event.Outcome
		stop    string
		lines   []string // that must be among what is told
	}{
		"done":    {answers: list(says(text("hi"))), want: event.Done, stop: "end_turn"},
		"silence": {answers: list(says(), says(text("hi"))), want: event.Done, stop: "end_turn", lines: []string{"notice the model said nothing, and is asked again"}},
		"silent":  {answers: list(says(), says()), want: event.Failed, stop: "error"},
		"length":  {answers: list(says(text("hal"), wants("poke", `{}`), event.TurnEnded{Finish: event.FinishLength})), want: event.Failed, stop: "max_tokens", lines: []string{"tool.cancelled c1 the answer was cut by the output limit"}},
		"refusal": {answers: list(says(event.TurnEnded{Finish: event.FinishRefusal})), want: event.Failed, stop: "refusal"},
		"no key":  {answers: list(fails(&provider.Error{Class: provider.NoKey})), want: event.Misuse, stop: "error"},
		"401":     {answers: list(fails(&provider.Error{Class: provider.Auth, Status: 401})), want: event.Failed, stop: "error"},
		"529":     {answers: list(fails(&provider.Error{Class: provider.Overloaded, Status: 529})), want: event.Unavailable, stop: "error"},
		"bug":     {answers: list(func(context.Context, func(event.Event, error) bool) { panic("ouch") }), want: event.Internal, stop: "error"},
		"no tool": {answers: list(says(wants("nope", `{}`)), says(text("ok"))), want: event.Done, stop: "end_turn", lines: []string{`tool.failed c0 there is no tool "nope"; there are poke`}},
		"no JSON": {answers: list(says(wants("poke", `"{\"a\":"`)), says(text("ok"))), want: event.Done, stop: "end_turn", lines: []string{"tool.failed c0 the arguments are not a JSON object"}},
		"wrong":   {answers: list(says(wants("poke", `{"wrong":1}`)), says(text("ok"))), want: event.Done, stop: "end_turn", lines: []string{"tool.failed c0 wrong: it is a number"}},
		"denied":  {answers: list(says(wants("poke", `{}`)), says(text("ok"))), gate: deny, want: event.Done, stop: "end_turn", lines: []string{"gate.denied c0 by rule"}},
		"nobody":  {answers: list(says(wants("poke", `{}`)), says(text("ok"))), gate: gate.New(gate.Policy{}, gate.Nobody{}), want: event.Done, stop: "end_turn", lines: []string{"gate.asked c0", "gate.denied c0 by nobody"}},
		"asked":   {answers: list(says(wants("poke", `{}`)), says(text("ok"))), gate: gate.New(gate.Policy{}, gate.Auto{}), want: event.Done, stop: "end_turn", lines: []string{"gate.asked c0", "gate.allowed c0 by auto", "tool.done c0 poked"}},
		"fail": {
			answers: list(says(wants("poke", `{}`), wants("poke", `{}`))), gate: gate.New(gate.Policy{}, gate.Nobody{}),
			change: func(c *Config) { c.OnAsk = "fail" }, want: event.Denied, stop: "error",
		},
		"late": {
			answers: list(says(wants("poke", `{}`)), says(text("ok"))), gate: gate.New(gate.Policy{}, gate.Inbox{}),
			change: func(c *Config) { c.Answer = time.Minute }, want: event.Done, stop: "end_turn", lines: []string{"gate.denied c0 by nobody"},
		},
		"turns":  {answers: list(says(wants("poke", `{}`))), change: limit, want: event.Failed, stop: "max_turn_requests", lines: []string{"tool.cancelled c0 the limit of 1 turns is reached"}},
		"rounds": {answers: list(says(wants("poke", `{}`)), says(wants("poke", `{}`))), change: func(c *Config) { c.Rounds = 1 }, want: event.Failed, stop: "max_turn_requests", lines: []string{"tool.done c0 poked", "tool.cancelled c0-2 the limit of 1 tool rounds is reached"}},
		"tool bug": {
			answers: list(says(wants("poke", `{}`), wants("poke", `{}`))), want: event.Internal, stop: "error",
			tool: func(context.Context, func(string)) tool.Result { panic("ouch") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &notes{}
				g := tt.gate
				if g == nil {
					g = gate.New(gate.Policy{Mode: gate.ModeYolo})
				}
				run := tt.tool
				if run == nil {
					run = works("poked")
				}
				v := answer(t, testSession(&fake{answers: tt.answers}, n, g, tt.change, toy{"poke", event.ClassExec, run}))
				if v.Outcome != tt.want || v.Stop != tt.stop || (v.Outcome == event.Done) != (v.Reason == "") {
					t.Errorf("%+v", v)
				}
				told := strings.Join(n.short(), "\n")
				for _, l := range tt.lines {
					if !strings.Contains(told, l) {
						t.Errorf("%q is not told in\n%s", l, told)
					}
				}
				n.whole(t, name == "bug")
			})
		})
	}
}

func list(f ...func(context.Context, func(event.Event, error) bool)) []func(context.Context, func(event.Event, error) bool) {
	return f
}

// Commands of one answer run at the same time, and so do looks; edits do not, and order is kept between groups.
func TestCallsInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := func(ctx context.Context, _ func(string)) tool.Result {
			time.Sleep(time.Second)
			return tool.Result{Output: "ok"}
		}
		m := &fake{answers: list(
			says(wants("run", `{}`), wants("run", `{}`), wants("run", `{}`), wants("run", `{}`), wants("edit", `{}`), wants("edit", `{}`), wants("look", `{}`), wants("look", `{}`)),
			says(text("done")),
		)}
		n := &notes{}
		s := testSession(m, n, gate.New(gate.Policy{Mode: gate.ModeYolo}), nil,
			toy{"run", event.ClassExec, second}, toy{"edit", event.ClassEdit, second}, toy{"look", event.ClassInfo, second})
		begin := time.Now()
		answer(t, s)
		if took := time.Since(begin); took != 4*time.Second { // four commands, an edit, an edit, two looks
			t.Errorf("it took %s", took)
		}
		n.whole(t, false)
	})
}

// A call that is cut off by a cancelled run ends as cancelled, with what it had said.
func TestCancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		n := &notes{}
		s := testSession(&fake{answers: list(says(wants("run", `{}`), wants("edit", `{}`)))}, n, gate.New(gate.Policy{Mode: gate.ModeYolo}), nil,
			toy{"run", event.ClassExec, func(ctx context.Context, out func(string)) tool.Result {
				out("half")
				<-ctx.Done()
				return tool.Result{Output: "half", Error: "signal: killed"}
			}}, toy{"edit", event.ClassEdit, works("no")})
		inbox := make(chan event.Command, 1)
		inbox <- event.Message{ID: "m", Text: "go"}
		verdict := make(chan outcome.Verdict)
		go func() { verdict <- s.Serve(ctx, inbox) }()
		synctest.Wait()
		cancel(&outcome.Cause{Outcome: event.Cancelled, Reason: "stopped by SIGINT", Code: "130"})
		if v := <-verdict; v.Outcome != event.Cancelled || v.Code != "130" {
			t.Errorf("%+v", v)
		}
		told := strings.Join(n.short(), "\n")
		if !strings.HasSuffix(told, "tool.output c0\ntool.cancelled c0 halfstopped by SIGINT\ntool.cancelled c1 stopped by SIGINT\nreply.cancelled m cancelled") {
			t.Error(told)
		}
		n.whole(t, false)
	})
}

// What a model is told of a long output is cut; the journal has it whole. Ids of calls are made unique.
func TestHistory(t *testing.T) {
	m := &fake{answers: list(says(wants("run", `{}`)), says(wants("run", `{}`)), says(text("done")))}
	n := &notes{}
	long := strings.Repeat("line\n", 1000)
	s := testSession(m, n, gate.New(gate.Policy{Mode: gate.ModeYolo}), func(c *Config) { c.Clip = 200 }, toy{"run", event.ClassExec, works(long)})
	answer(t, s)
	if got := len(n.list[len(n.list)-5].Body.(event.ToolDone).Output); got != len(long) {
		t.Errorf("the journal has %d bytes of %d", got, len(long))
	}
	last := m.asked[2].History
	ids := []string{}
	for _, e := range last {
		if end, ok := event.AsToolEnd(e.Body); ok {
			ids = append(ids, e.Call)
			if len(end.Output) > 400 {
				t.Errorf("the model is told %d bytes", len(end.Output))
			}
		}
	}
	if diff := cmp.Diff([]string{"c0", "c0-2"}, ids); diff != "" {
		t.Error(diff)
	}
	// A session that recalls the journal tells the model the same.
	again := testSession(m, &notes{}, nil, func(c *Config) { c.Clip = 200 })
	for _, e := range n.list {
		again.Recall(e)
	}
	if diff := cmp.Diff(append(last, event.Event{Header: event.Header{Kind: "text"}, Body: n.list[len(n.list)-3].Body}), again.request(nil).History); diff != "" {
		t.Error(diff)
	}
}

// Who forgets tells its thoughts to whoever watches, and not to the model: neither at once nor when it is resumed.
func TestForget(t *testing.T) {
	for _, forget := range []bool{false, true} {
		m := &fake{answers: list(says(event.Thought{Text: "hm", Signature: "s"}, wants("run", `{}`)), says(text("done")))}
		n := &notes{}
		change := func(c *Config) { c.Forget = forget }
		s := testSession(m, n, gate.New(gate.Policy{Mode: gate.ModeYolo}), change, toy{"run", event.ClassExec, works("x")})
		answer(t, s)
		again := testSession(m, &notes{}, nil, change)
		told := 0
		for _, e := range n.list {
			if e.Kind == "thought" {
				told++
			}
			again.Recall(e)
		}
		if told != 1 {
			t.Errorf("%d thoughts are told", told)
		}
		for _, r := range []provider.Request{m.asked[1], again.request(nil)} {
			thoughts := 0
			for _, e := range r.History {
				if e.Kind == "thought" {
					thoughts++
				}
			}
			if want := map[bool]int{false: 1}[forget]; thoughts != want {
				t.Errorf("forget %t: the model is told %d thoughts, want %d", forget, thoughts, want)
			}
		}
	}
}

// An answer that goes nowhere is ended, told as what it is, and not asked for again; the conversation goes on.
func TestDegenerateAnswer(t *testing.T) {
	endless := func(ctx context.Context, yield func(event.Event, error) bool) {
		said := ""
		for ; ctx.Err() == nil; said += "a" {
			yield(event.Event{Body: event.ThoughtDelta{Text: "a"}}, nil)
		}
		yield(event.Event{Body: event.Thought{Text: said, Partial: true}}, nil)
		yield(event.Event{}, ctx.Err())
	}
	n := &notes{}
	s := testSession(&fake{answers: list(endless, says(text("better")))}, n, gate.New(gate.Policy{}), nil)
	v := answer(t, s)
	if v.Outcome != event.Failed || v.Stop != "degenerate_reasoning_stream" {
		t.Errorf("%+v", v)
	}
	told := n.list[len(n.list)-2].Body.(event.Error)
	if told.Type != v.Stop || told.Stop != v.Stop || told.Model != "one" || told.Source != "loop" || !strings.Contains(string(told.Diagnostics), `"abort_signal":"hex_run"`) {
		t.Errorf("%+v", told)
	}
	if end, ok := n.list[len(n.list)-1].Body.(event.ReplyFailed); !ok || end.Stop != v.Stop {
		t.Errorf("%+v", n.list[len(n.list)-1])
	}
	if v := answer(t, s); v.Outcome != event.Done {
		t.Errorf("%+v", v)
	}
	n.whole(t, false)
}

// What a session is made of changes between two replies: the one that goes on keeps its model and its tools.
func TestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := &fake{answers: list(hangs, says(text("never")))}
		next := &fake{answers: list(says(wants("poke", `{}`)), says(text("poked it")))}
		n := &notes{}
		s := testSession(old, n, gate.New(gate.Policy{Mode: gate.ModeYolo}), nil)
		inbox := make(chan event.Command)
		verdict := make(chan outcome.Verdict)
		s.Stop(outcome.Stopped) // nothing goes on: no harm
		go func() { verdict <- s.Serve(t.Context(), inbox) }()
		inbox <- event.Message{ID: "a", Text: "first"}
		synctest.Wait()
		s.Change(func(c *Config) {
			c.Open = func(context.Context) (provider.Model, error) { return next, nil }
			c.Model, c.Thinking = "other", "high"
			c.Tools = append(c.Tools, toy{"poke", event.ClassExec, works("poked")})
		})
		inbox <- event.Message{ID: "b", Text: "second"}
		s.Stop(&outcome.Cause{Outcome: event.Cancelled, Reason: "enough"})
		close(inbox)
		if v := <-verdict; v.Outcome != event.Done {
			t.Errorf("%+v", v)
		}
		told := strings.Join(n.short(), "\n")
		for _, w := range []string{"reply.cancelled a", "tool.done", "text poked it", "reply.done b"} {
			if !strings.Contains(told, w) {
				t.Errorf("%q is not told in\n%s", w, told)
			}
		}
		if len(old.asked) != 1 || len(next.asked) != 2 || next.asked[0].Thinking != "high" || len(next.asked[0].Tools) != len(old.asked[0].Tools)+1 {
			t.Errorf("%d and %d requests", len(old.asked), len(next.asked))
		}
	})
}

// Who waits for a message when he is stopped did not come to an end by himself; what was used before counts.
func TestStoppedBetweenMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		s := testSession(&fake{answers: list(says(text("one")))}, &notes{}, gate.New(gate.Policy{}), nil)
		inbox := make(chan event.Command)
		verdict := make(chan outcome.Verdict)
		go func() { verdict <- s.Serve(ctx, inbox) }()
		inbox <- event.Message{ID: "a", Text: "first"}
		synctest.Wait()
		stop(&outcome.Cause{Outcome: event.Cancelled, Reason: "stopped by SIGTERM", Code: "143"})
		if v := <-verdict; v.Outcome != event.Cancelled || v.Code != "143" {
			t.Errorf("%+v", v)
		}
	})
}
