package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

var (
	goTest  = []Access{{Permission: "bash", Target: "go test ./...", Class: event.ClassExec}}
	gitPush = []Access{{Permission: "bash", Target: "git push", Class: event.ClassExec}}
	editA   = []Access{{Permission: "edit", Target: "a.go", Class: event.ClassEdit}}
	etcRead = []Access{{Permission: "read", Target: "/etc/hosts", Class: event.ClassInfo}, {Permission: Outside, Target: "/etc/hosts", Class: event.ClassInfo}}
)

func wait(t *testing.T, q *Question) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	a, err := q.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAskedIsFilledIn(t *testing.T) {
	g := New(Policy{})
	got := g.Ask(event.GateAsked{Request: "r1", Tool: "bash", Input: event.Raw(`{"command":"go test ./..."}`)}, goTest, event.ClassExec).Asked()
	want := event.GateAsked{
		Request: "r1", Tool: "bash", Permission: "bash", Patterns: []string{"go test ./..."}, Question: "allow bash go test ./...?",
		Options: []event.Option{
			{ID: "allow_once", Kind: "allow_once", Name: "allow once"},
			{ID: "allow_always", Kind: "allow_always", Name: "allow for the session"},
			{ID: "reject_once", Kind: "reject_once", Name: "reject"},
		},
		Input: event.Raw(`{"command":"go test ./..."}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]event.GateAsked{want}, g.Open()); diff != "" {
		t.Errorf("open (-want +got):\n%s", diff)
	}
}

func TestReadyAnswerers(t *testing.T) {
	for _, c := range []struct {
		name      string
		answerers []Answerer
		want      event.Body
	}{
		{"nobody", []Answerer{Nobody{}}, event.GateDenied{
			Request: "r", Permission: "bash", Patterns: []string{"go test ./..."}, Option: RejectOnce, Scope: ScopeOnce, By: event.ByNobody,
			Reason: "nobody is there to allow it; to let it pass: --allow 'bash(go test *)'",
		}},
		{"none at all", nil, event.GateDenied{
			Request: "r", Permission: "bash", Patterns: []string{"go test ./..."}, Option: RejectOnce, Scope: ScopeOnce, By: event.ByNobody,
			Reason: "nobody is there to allow it; to let it pass: --allow 'bash(go test *)'",
		}},
		{"auto", []Answerer{Auto{}, Nobody{}}, event.GateAllowed{
			Request: "r", Permission: "bash", Patterns: []string{"go test ./..."}, Option: AllowOnce, Scope: ScopeOnce, By: event.ByAuto,
		}},
		{"script", []Answerer{&Script{Answers: []Answer{{Allow: true, Scope: ScopeAlways, By: event.ByClient, Reason: "fine"}}}}, event.GateAllowed{
			Request: "r", Permission: "bash", Patterns: []string{"go test ./..."}, Option: AllowAlways, Scope: ScopeAlways, By: event.ByClient, Reason: "fine",
		}},
		{"the script is over", []Answerer{&Script{}}, event.GateDenied{
			Request: "r", Permission: "bash", Patterns: []string{"go test ./..."}, Option: RejectOnce, Scope: ScopeOnce, By: event.ByNobody,
			Reason: "nobody is there to allow it; to let it pass: --allow 'bash(go test *)'",
		}},
		{"the first wins", []Answerer{Inbox{}, &Script{Answers: []Answer{{By: event.ByFile, Reason: "no"}}}, Auto{}}, event.GateDenied{
			Request: "r", Permission: "bash", Patterns: []string{"go test ./..."}, Option: RejectOnce, Scope: ScopeOnce, By: event.ByFile, Reason: "no",
		}},
	} {
		g := New(Policy{}, c.answerers...)
		q := g.Ask(event.GateAsked{Request: "r"}, goTest, event.ClassExec)
		if diff := cmp.Diff(c.want, wait(t, q).Event(q.Asked())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if len(g.Open()) != 0 {
			t.Errorf("%s: a question is left open", c.name)
		}
	}
}

func TestTheHintSurvivesAShell(t *testing.T) {
	g := New(Policy{}, Nobody{})
	q := g.Ask(event.GateAsked{Request: "r"}, []Access{
		{Permission: "bash", Target: "it's x", Class: event.ClassExec}, {Permission: Outside, Target: "$x", Class: event.ClassExec, Opaque: true, Why: "who knows"},
	}, event.ClassExec)
	if a := wait(t, q); !strings.HasSuffix(a.Reason, `nobody is there to allow it (who knows); to let it pass: --allow 'bash(it'\''s *)' --allow 'outside'`) {
		t.Error(a.Reason)
	}
}

func TestFirstAnswerWins(t *testing.T) {
	g := New(Policy{}, Inbox{})
	q := g.Ask(event.GateAsked{Request: "r"}, goTest, event.ClassExec)
	if err := g.Answer("other", Answer{Allow: true}); !errors.Is(err, ErrUnknown) {
		t.Error("an unknown request:", err)
	}
	if err := g.Answer("r", Answer{Option: "maybe"}); !errors.Is(err, ErrOption) || err.Error() != `the question has no such option as "maybe": it has allow_once, allow_always, reject_once` {
		t.Error("an unknown option:", err)
	}
	// Many at once: one gets through, all others are late, and the one holds.
	const n = 50
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			errs[i] = g.Answer("r", Answer{Allow: i%2 == 0, Reason: fmt.Sprint(i), By: event.ByClient})
		})
	}
	got := wait(t, q)
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won < 0:
			won = i
		case !errors.Is(err, ErrLate):
			t.Errorf("answer %d: %v", i, err)
		}
	}
	if won < 0 || got.Reason != fmt.Sprint(won) || got.Allow != (won%2 == 0) {
		t.Errorf("answer %d won, and the question got %+v", won, got)
	}
}

func TestOptionsDecide(t *testing.T) {
	foreign := []event.Option{{ID: "yes", Kind: "allow"}, {ID: "ever", Kind: "allow_always"}, {ID: "no", Kind: "reject"}, {ID: "reject"}}
	for _, c := range []struct {
		in   Answer
		want Answer
	}{
		{Answer{Option: "yes"}, Answer{Allow: true, Option: "yes"}},
		{Answer{Option: "ever"}, Answer{Allow: true, Scope: ScopeAlways, Option: "ever"}},
		{Answer{Option: "no", Allow: true}, Answer{Option: "no"}},
		{Answer{Option: "reject"}, Answer{Option: "reject"}},
		{Answer{Allow: true}, Answer{Allow: true, Option: "yes"}},
		{Answer{Allow: true, Scope: ScopeAlways}, Answer{Allow: true, Scope: ScopeAlways, Option: "ever"}},
		{Answer{}, Answer{Option: "no"}},
	} {
		g := New(Policy{}, Inbox{})
		q := g.Ask(event.GateAsked{Request: "r", Options: foreign}, goTest, event.ClassExec)
		if err := g.Answer("r", c.in); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, wait(t, q)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.in, diff)
		}
	}
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Policy{}, Inbox{})
		q := g.Ask(event.GateAsked{Request: "r", Deadline: time.Now().Add(time.Minute)}, goTest, event.ClassExec)
		began := time.Now()
		a, err := q.Wait(t.Context())
		if err != nil || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		want := Answer{Option: RejectOnce, By: event.ByNobody, Reason: "nobody answered in time; to let it pass: --allow 'bash(go test *)'"}
		if diff := cmp.Diff(want, a); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if err := g.Answer("r", Answer{Allow: true}); !errors.Is(err, ErrLate) {
			t.Error(err)
		}
	})
}

func TestWithdraw(t *testing.T) {
	g := New(Policy{}, Inbox{})
	ctx, cancel := context.WithCancel(t.Context())
	q := g.Ask(event.GateAsked{Request: "r", Deadline: time.Now().Add(time.Hour)}, goTest, event.ClassExec)
	cancel()
	if _, err := q.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := g.Answer("r", Answer{Allow: true}); !errors.Is(err, ErrLate) {
		t.Error(err)
	}
	if q.Withdraw() {
		t.Error("withdrawn twice")
	}
	// A question that is taken back before anybody waits is over for whoever does then.
	q = g.Ask(event.GateAsked{Request: "s"}, goTest, event.ClassExec)
	if !q.Withdraw() {
		t.Error("it was open")
	}
	if a := wait(t, q); a.Allow {
		t.Error("a withdrawn question is allowed")
	}
	if len(g.Open()) != 0 {
		t.Error("questions are left open")
	}
}

// An answer that is there counts, also if the call is cancelled at the same moment.
func TestAnswerBeforeCancel(t *testing.T) {
	g := New(Policy{}, Inbox{})
	q := g.Ask(event.GateAsked{Request: "r"}, goTest, event.ClassExec)
	if err := g.Answer("r", Answer{Allow: true, By: event.ByClient}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a, err := q.Wait(ctx); err != nil || !a.Allow {
		t.Error(a, err)
	}
}

func TestSetModeAnswersWhatIsOpen(t *testing.T) {
	g := New(Policy{Rules: rules(t, Ask, "bash(git push *)")}, Inbox{})
	ask := func(id string, a []Access) *Question {
		return g.Ask(event.GateAsked{Request: id}, a, a[0].Class)
	}
	edit, test, push := ask("edit", editA), ask("test", goTest), ask("push", gitPush)
	if err := g.SetMode("anything"); err == nil {
		t.Error("a mode that nobody knows")
	}
	if err := g.SetMode(ModeAutoEdit); err != nil {
		t.Fatal(err)
	}
	if a := wait(t, edit); !a.Allow || a.By != event.ByMode {
		t.Errorf("edit: %+v", a)
	}
	if open := g.Open(); len(open) != 2 {
		t.Errorf("open: %+v", open)
	}
	if err := g.Answer("edit", Answer{}); !errors.Is(err, ErrLate) {
		t.Error(err)
	}
	if err := g.SetMode(ModeYolo); err != nil {
		t.Fatal(err)
	}
	for _, q := range []*Question{test, push} {
		if a := wait(t, q); !a.Allow || a.By != event.ByMode {
			t.Errorf("%s: %+v", q.Asked().Request, a)
		}
	}
	if err := g.SetMode(ModeDefault); err != nil || g.Policy().Mode != ModeDefault {
		t.Error(err)
	}
	if d := g.Decide(editA); d.Action != Ask {
		t.Errorf("after default again: %+v", d)
	}
	// The mode may change between the decision and the question.
	if err := g.SetMode(ModeYolo); err != nil {
		t.Fatal(err)
	}
	if a := wait(t, ask("late", goTest)); !a.Allow || a.By != event.ByMode {
		t.Errorf("late: %+v", a)
	}
}

func TestAlways(t *testing.T) {
	always := Answer{Allow: true, Scope: ScopeAlways, By: event.ByClient}
	mcp := []Access{{Permission: "mcp_x_y", Target: "mcp_x_y", Class: event.ClassMCP}}
	hidden := []Access{{Permission: "bash", Target: "$x", Class: event.ClassExec, Opaque: true}}
	hook := []Access{{Permission: "edit", Target: ".git/x", Class: event.ClassEdit}}
	read := etcRead[:1]
	for _, c := range []struct {
		name  string
		rules []event.Rule
		about []Access    // what was allowed for good
		class event.Class // and how
		then  []Access
		want  string
	}{
		{"the class", nil, goTest, event.ClassExec, gitPush, Allow},
		{"also what is opaque", nil, goTest, event.ClassExec, hidden, Allow},
		{"not another class", nil, goTest, event.ClassExec, editA, Ask},
		{"not what a rule asks about", rules(t, Ask, "bash(git push *)"), goTest, event.ClassExec, gitPush, Ask},
		{"but so if it was the answer to that rule", rules(t, Ask, "bash(git push *)"), gitPush, event.ClassExec, gitPush, Allow},
		{"and for the class then", rules(t, Ask, "bash(git push *)"), gitPush, event.ClassExec, goTest, Allow},
		{"never what is denied", nil, editA, event.ClassEdit, hook, Deny},
		{"looking does not mean outside", nil, read, event.ClassInfo, etcRead, Ask},
		{"outside does", nil, etcRead, event.ClassInfo, etcRead, Allow},
		{"outside for one class is for all that is outside", nil, etcRead, event.ClassInfo, []Access{{Permission: Outside, Target: "/x", Class: event.ClassExec}}, Allow},
		{"a permission", nil, mcp, "", mcp, Allow},
		{"not another permission", nil, goTest, "", mcp, Ask},
		{"not another of its class", nil, mcp, "", []Access{{Permission: "mcp_x_z", Class: event.ClassMCP}}, Ask},
	} {
		g := New(Policy{Rules: c.rules}, Inbox{})
		q := g.Ask(event.GateAsked{Request: "r"}, c.about, c.class)
		if err := g.Answer("r", always); err != nil {
			t.Fatal(err)
		}
		wait(t, q)
		d := g.Decide(c.then)
		if d.Action != c.want || d.Action == Allow && d.By != event.ByAlways {
			t.Errorf("%s: %s by %s, not %s", c.name, d.Action, d.By, c.want)
		}
	}
}

// An answer for good is for what comes later: what is open stays open, so that a client can still say no to it.
func TestAlwaysLeavesOpenOnesOpen(t *testing.T) {
	g := New(Policy{}, Inbox{})
	g.Ask(event.GateAsked{Request: "a"}, goTest, event.ClassExec)
	b := g.Ask(event.GateAsked{Request: "b"}, gitPush, event.ClassExec)
	if err := g.Answer("a", Answer{Allow: true, Scope: ScopeAlways}); err != nil {
		t.Fatal(err)
	}
	if err := g.Answer("b", Answer{Reason: "not that one", By: event.ByClient}); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, b); got.Allow {
		t.Errorf("%+v", got)
	}
}

func TestDecisionEvents(t *testing.T) {
	g := New(Policy{Rules: append(rules(t, Allow, "bash(go *)"), rules(t, Deny, "edit(a.go)")...)})
	input := event.Raw(`{}`)
	if diff := cmp.Diff(event.Body(event.GateAllowed{
		Tool: "bash", Permission: "bash", Patterns: []string{"go test ./..."}, Input: input, By: event.ByRule, Rule: &event.Rule{Permission: "bash", Pattern: "go *", Action: Allow},
	}), g.Decide(goTest).Event("bash", input)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(event.Body(event.GateDenied{
		Tool: "edit", Permission: "edit", Patterns: []string{"a.go"}, Input: input, By: event.ByRule, Rule: &event.Rule{Permission: "edit", Pattern: "a.go", Action: Deny},
		Reason: "denied by the rule edit(a.go): edit a.go",
	}), g.Decide(editA).Event("edit", input)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// attendant writes down what it is told.
type attendant struct {
	log *[]string
	Inbox
}

func (a attendant) Opened(q event.GateAsked) { *a.log = append(*a.log, "opened "+q.Request) }
func (a attendant) Closed(q event.GateAsked) { *a.log = append(*a.log, "closed "+q.Request) }

// TestAttendant: whoever has something out for a question is told before anybody else, and when it is over, however that came.
func TestAttendant(t *testing.T) {
	for name, end := range map[string]func(g *Gate, cancel func()){
		"answered":  func(g *Gate, _ func()) { _ = g.Answer("q1", Answer{Allow: true}) },
		"withdrawn": func(_ *Gate, cancel func()) { cancel() },
		"settled":   func(g *Gate, _ func()) { _ = g.SetMode(ModeYolo) },
	} {
		t.Run(name, func(t *testing.T) {
			var log []string
			g := New(Policy{}, attendant{log: &log}, AnswererFunc(func(q event.GateAsked, _ func(Answer) error) { log = append(log, "asked "+q.Request) }))
			q := g.Stricter(nil).Ask(event.GateAsked{Request: "q1"}, []Access{{Permission: "bash", Target: "ls", Class: event.ClassExec}}, "")
			log = append(log, "told")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go end(g, cancel)
			_, _ = q.Wait(ctx)
			got := strings.Join(log, ", ")
			if want := "opened q1, told, asked q1, closed q1"; got != want && got != strings.Replace(want, " asked q1,", "", 1) {
				t.Errorf("%s", got)
			}
		})
	}
}
