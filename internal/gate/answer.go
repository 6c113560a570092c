package gate

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/event"
)

// The scopes of an answer.
const (
	ScopeOnce   = "once"   // for this call
	ScopeAlways = "always" // for the session: the class or permission that was asked about
)

// The kinds of options, which are also the ids of those that we offer.
const (
	AllowOnce   = "allow_once"
	AllowAlways = "allow_always"
	RejectOnce  = "reject_once"
)

// Options are the answers that a question offers if it does not say otherwise.
func Options() []event.Option {
	return []event.Option{
		{ID: AllowOnce, Kind: AllowOnce, Name: "allow once"},
		{ID: AllowAlways, Kind: AllowAlways, Name: "allow for the session"},
		{ID: RejectOnce, Kind: RejectOnce, Name: "reject"},
	}
}

// An Answer settles a question. The zero Answer denies.
type Answer struct {
	Allow  bool
	Scope  string      // empty means once
	Option string      // id of the option that was chosen; it overrules Allow and Scope
	Reason string      // for the model and the record
	By     event.By    // who answered
	Rule   *event.Rule // if it was a rule after all
}

// Event tells the answer to a question. The header is the caller's.
func (a Answer) Event(q event.GateAsked) event.Body {
	scope := a.Scope
	if scope == "" {
		scope = ScopeOnce
	}
	g := event.GateAnswer{
		Request: q.Request, Tool: q.Tool, Permission: q.Permission, Patterns: q.Patterns, Input: q.Input,
		Rule: a.Rule, Option: a.Option, Scope: scope, Reason: a.Reason, By: a.By,
	}
	if a.Allow {
		return event.GateAllowed(g)
	}
	return event.GateDenied(g)
}

// among reads the option that an answer names.
func (a Answer) among(options []event.Option) (Answer, error) {
	if a.Option == "" {
		return a, nil
	}
	i := slices.IndexFunc(options, func(o event.Option) bool { return o.ID == a.Option })
	if i < 0 {
		var ids []string
		for _, o := range options {
			ids = append(ids, o.ID)
		}
		return a, fmt.Errorf("%w as %q: it has %s", ErrOption, a.Option, strings.Join(ids, ", "))
	}
	kind := optionKind(options[i])
	a.Allow = strings.HasPrefix(kind, "allow")
	if strings.HasSuffix(kind, "_always") && a.Allow {
		a.Scope = ScopeAlways
	}
	return a, nil
}

// fitting is the first option that says what the answer says.
func (a Answer) fitting(options []event.Option) string {
	want := RejectOnce
	switch {
	case a.Allow && a.Scope == ScopeAlways:
		want = AllowAlways
	case a.Allow:
		want = AllowOnce
	}
	side, _, _ := strings.Cut(want, "_")
	for _, fits := range []func(kind string) bool{
		func(kind string) bool { return kind == want },
		func(kind string) bool { return strings.HasPrefix(kind, side) && !strings.HasSuffix(kind, "_always") },
	} {
		if i := slices.IndexFunc(options, func(o event.Option) bool { return fits(optionKind(o)) }); i >= 0 {
			return options[i].ID
		}
	}
	return ""
}

// optionKind is an option's kind; one without is known by its id.
func optionKind(o event.Option) string {
	if o.Kind == "" {
		return o.ID
	}
	return o.Kind
}

// An Answerer is told of questions.
type Answerer interface {
	// Asked tells of a question that has just been asked. It must not block; it may answer now or later, from any goroutine,
	// or never. The error of an answer is ErrLate if somebody was faster.
	Asked(q event.GateAsked, answer func(Answer) error)
}

// An Attendant is an Answerer that has something out for each question, which must be there before anybody hears of it and gone
// when it is over.
type Attendant interface {
	Answerer
	// Opened tells of a question before it is told to anybody. It returns when everything is out.
	Opened(q event.GateAsked)
	// Closed tells that a question has been answered or withdrawn, whoever did it.
	Closed(q event.GateAsked)
}

// AnswererFunc is an Answerer made of a function.
type AnswererFunc func(q event.GateAsked, answer func(Answer) error)

// Asked calls f.
func (f AnswererFunc) Asked(q event.GateAsked, answer func(Answer) error) { f(q, answer) }

// Nobody denies every question at once, and says which rule would let it pass.
type Nobody struct{}

// Asked denies.
func (Nobody) Asked(_ event.GateAsked, answer func(Answer) error) {
	_ = answer(Answer{By: event.ByNobody}) // late: somebody was there after all
}

// Auto allows every question.
type Auto struct{}

// Asked allows.
func (Auto) Asked(_ event.GateAsked, answer func(Answer) error) {
	_ = answer(Answer{Allow: true, By: event.ByAuto}) // late: somebody was faster
}

// Inbox stands for whoever answers through [Gate.Answer]: with it a question waits instead of being denied.
type Inbox struct{}

// Asked does nothing.
func (Inbox) Asked(event.GateAsked, func(Answer) error) {}

// A Script answers one question after another from a list, and denies by nobody when the list is at its end.
type Script struct {
	mu      sync.Mutex
	Answers []Answer
}

// Asked gives the next answer.
func (s *Script) Asked(_ event.GateAsked, answer func(Answer) error) {
	s.mu.Lock()
	next := Answer{By: event.ByNobody}
	if len(s.Answers) > 0 {
		next, s.Answers = s.Answers[0], s.Answers[1:]
	}
	s.mu.Unlock()
	_ = answer(next) // late: somebody was faster
}
