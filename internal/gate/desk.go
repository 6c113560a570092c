package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/event"
)

// Errors of an answer that came to nothing.
var (
	ErrLate    = errors.New("the question has been answered or withdrawn")
	ErrUnknown = errors.New("no such question")
	ErrOption  = errors.New("the question has no such option")
)

// A Gate is a policy at work: it remembers what was allowed for good, and holds the open questions. Several may be open. The
// first answer to a question wins. It is safe for concurrent use; the zero Gate has the zero Policy and nobody to ask.
type Gate struct {
	mu        sync.Mutex
	policy    Policy
	answerers []Answerer // never changed
	above     *Gate      // whose allowances hold here too
	stricter  []*Gate    // that follow this one
	always    []allowance
	open      map[string]*Question // by request
	closed    map[string]bool      // requests that were open once
}

// An allowance is what an answer with scope always left behind.
type allowance struct {
	class      event.Class // if not empty: for what has this class
	permission string      // if not empty: for this permission
	rule       *event.Rule // if not nil: also where this rule asks
}

// New returns a gate with a policy and those who may answer, in the order in which they are told.
func New(p Policy, answerers ...Answerer) *Gate {
	return &Gate{policy: p, answerers: answerers}
}

// Policy returns the policy in force.
func (g *Gate) Policy() Policy {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.policy
}

// SetMode changes the mode, also for the questions that are open: what it now lets pass is allowed, by mode. A mode that
// nobody knows is an error and changes nothing.
func (g *Gate) SetMode(mode string) error {
	mode, err := ParseMode(mode)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.policy.Mode = mode
	for _, q := range g.open {
		g.settle(q)
	}
	stricter := slices.Clone(g.stricter)
	g.mu.Unlock()
	for _, s := range stricter {
		_ = s.SetMode(mode) // it is known
	}
	return nil
}

// Stricter returns a gate for a part of the work. It lets nothing pass that this one would not, and has rules of its own beside
// that, of which those that allow count for nothing. Its questions go to the same answerers, and can be answered here.
func (g *Gate) Stricter(rules []event.Rule) *Gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &Gate{policy: g.policy, answerers: g.answerers, above: g}
	s.policy.Rules = slices.Clone(g.policy.Rules)
	for _, r := range rules {
		if r.Action != Allow {
			s.policy.Rules = append(s.policy.Rules, r)
		}
	}
	g.stricter = append(g.stricter, s)
	return s
}

// Decide says whether a call with these accesses may pass.
func (g *Gate) Decide(accesses []Access) Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.decide(accesses)
}

func (g *Gate) decide(accesses []Access) Decision {
	return g.policy.decide(accesses, g.allowed)
}

// allowed says whether an earlier answer covers what would be asked. Where a rule asks, only an answer to that rule does.
func (g *Gate) allowed(a Access, rule *event.Rule) bool {
	if g.above != nil {
		g.above.mu.Lock()
		defer g.above.mu.Unlock()
		if g.above.allowed(a, rule) {
			return true
		}
	}
	return slices.ContainsFunc(g.always, func(w allowance) bool {
		if rule != nil && (w.rule == nil || *w.rule != *rule) {
			return false
		}
		if w.permission != "" {
			return w.permission == a.Permission
		}
		return w.class == a.Class && a.Permission != Outside
	})
}

// Ask opens a question about a call. What asked leaves empty of permission, patterns, question and options is filled in; its
// request must be new. An answer for good covers the call's class or, if class is empty, the permissions that are asked about
// ("outside" only if it is one of them). Emit the question as [Question.Asked] has it, and then [Question.Wait].
func (g *Gate) Ask(asked event.GateAsked, accesses []Access, class event.Class) *Question {
	q := g.lay(asked, accesses, class)
	q.attend(func(a Attendant) { a.Opened(q.asked) })
	return q
}

// attend tells those who have something out for the question. g.mu is not held: they may take a moment.
func (q *Question) attend(tell func(Attendant)) {
	for _, who := range q.gate.answerers {
		if a, ok := who.(Attendant); ok {
			tell(a)
		}
	}
}

// lay puts a question on the desk.
func (g *Gate) lay(asked event.GateAsked, accesses []Access, class event.Class) *Question {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.decide(accesses)
	if asked.Permission == "" {
		asked.Permission = d.Access.told()
	}
	if asked.Patterns == nil {
		asked.Patterns = d.Of
	}
	if asked.Question == "" {
		asked.Question = question(d)
	}
	if asked.Options == nil {
		asked.Options = Options()
	}
	q := &Question{gate: g, asked: asked, accesses: accesses, class: class, decision: d, done: make(chan struct{})}
	if g.open == nil {
		g.open, g.closed = map[string]*Question{}, map[string]bool{}
	}
	g.open[asked.Request] = q
	g.settle(q) // the mode may have changed since it was decided to ask
	return q
}

// question is what a person is asked.
func question(d Decision) string {
	var parts []string
	for _, a := range d.Asked {
		parts = append(parts, about(a))
	}
	if len(parts) == 0 {
		parts = append(parts, about(d.Access))
	}
	return "allow " + strings.Join(parts, ", ") + "?"
}

// settle answers a question that the policy no longer asks. g.mu is held.
func (g *Gate) settle(q *Question) {
	if d := g.decide(q.accesses); d.Action == Allow {
		g.close(q, Answer{Allow: true, By: d.By, Rule: d.Rule})
	}
}

// Answer answers the open question of that request. An answer that names an option allows or denies as the option does.
func (g *Gate) Answer(request string, a Answer) error {
	g.mu.Lock()
	q, ok := g.open[request]
	if !ok && !g.closed[request] {
		stricter := slices.Clone(g.stricter)
		g.mu.Unlock()
		for _, s := range stricter {
			if err := s.Answer(request, a); !errors.Is(err, ErrUnknown) {
				return err
			}
		}
		return fmt.Errorf("%w: %s", ErrUnknown, request)
	}
	defer g.mu.Unlock()
	if !ok {
		return fmt.Errorf("%w: %s", ErrLate, request)
	}
	a, err := a.among(q.asked.Options)
	if err != nil {
		return err
	}
	g.close(q, a)
	return nil
}

// close ends a question with an answer. g.mu is held.
func (g *Gate) close(q *Question, a Answer) {
	if a.Option == "" {
		a.Option = a.fitting(q.asked.Options)
	}
	if a.Allow && a.Scope == ScopeAlways {
		g.remember(q)
	}
	if !a.Allow && a.Reason == "" && a.By == event.ByNobody {
		a.Reason = "nobody is there to allow it" + q.advice()
	}
	q.answer = a
	g.drop(q)
}

// drop takes a question off the desk. g.mu is held.
func (g *Gate) drop(q *Question) {
	delete(g.open, q.asked.Request)
	g.closed[q.asked.Request] = true
	close(q.done)
}

// remember keeps what an answer for good allows from now on: for the session, so the topmost gate keeps it. g.mu is held.
func (g *Gate) remember(q *Question) {
	top := g
	for top.above != nil {
		top = top.above
	}
	if top != g {
		top.mu.Lock()
		defer top.mu.Unlock()
	}
	for _, a := range q.decision.Asked {
		w := allowance{class: q.class, rule: q.decision.Rule}
		if q.class == "" || a.Permission == Outside {
			w = allowance{permission: a.Permission, rule: q.decision.Rule}
		}
		top.always = append(top.always, w)
	}
	if q.class != "" {
		top.always = append(top.always, allowance{class: q.class})
	}
}

// Open returns the open questions, those of stricter gates too, in the order of their requests.
func (g *Gate) Open() []event.GateAsked {
	g.mu.Lock()
	var list []event.GateAsked
	for _, q := range g.open {
		list = append(list, q.asked)
	}
	stricter := slices.Clone(g.stricter)
	g.mu.Unlock()
	for _, s := range stricter {
		list = append(list, s.Open()...)
	}
	slices.SortFunc(list, func(a, b event.GateAsked) int { return strings.Compare(a.Request, b.Request) })
	return list
}

// A Question is an open one, or was.
type Question struct {
	gate     *Gate
	asked    event.GateAsked
	accesses []Access
	class    event.Class
	decision Decision
	done     chan struct{}
	answer   Answer // once done is closed
}

// Asked returns the question as it is to be told.
func (q *Question) Asked() event.GateAsked { return q.asked }

// Wait tells the answerers, in their order, and waits for the first answer. At the question's deadline it is denied by nobody. If
// ctx ends first the question is withdrawn, and the error is ctx's. If there is nobody to answer it is denied at once.
func (q *Question) Wait(ctx context.Context) (Answer, error) {
	defer q.attend(func(a Attendant) { a.Closed(q.asked) })
	answerers := q.gate.answerers
	if len(answerers) == 0 {
		answerers = []Answerer{Nobody{}}
	}
	answer := func(a Answer) error { return q.gate.Answer(q.asked.Request, a) }
	for _, who := range answerers {
		select {
		case <-q.done:
			return q.answer, nil
		default:
		}
		who.Asked(q.asked, answer)
	}
	timed, cancel := ctx, context.CancelFunc(func() {})
	if !q.asked.Deadline.IsZero() {
		timed, cancel = context.WithDeadline(ctx, q.asked.Deadline)
	}
	defer cancel()
	select {
	case <-q.done:
	case <-timed.Done():
		if ctx.Err() == nil {
			// If this is late, somebody answered at the last moment, and that holds.
			_ = answer(Answer{By: event.ByNobody, Reason: "nobody answered in time" + q.advice()})
		} else if q.Withdraw() {
			return Answer{}, ctx.Err()
		}
	}
	<-q.done
	return q.answer, nil
}

// Withdraw takes the question back, as when its call is cancelled, and says whether it was still open. Answers that come later
// are late.
func (q *Question) Withdraw() bool {
	q.gate.mu.Lock()
	defer q.gate.mu.Unlock()
	if q.gate.open[q.asked.Request] != q {
		return false
	}
	q.answer = Answer{Reason: "the question was withdrawn"}
	q.gate.drop(q)
	return true
}

// advice says what cannot be known of the call, so that the model may say it in another way, and what to type so that nobody has
// to be asked.
func (q *Question) advice() string {
	var b strings.Builder
	if i := slices.IndexFunc(q.decision.Asked, func(a Access) bool { return a.Opaque && a.Why != "" }); i >= 0 {
		b.WriteString(" (" + q.decision.Asked[i].Why + ")")
	}
	b.WriteString("; to let it pass:")
	for _, h := range q.decision.Hints {
		b.WriteString(" --allow '" + strings.ReplaceAll(h, "'", `'\''`) + "'")
	}
	return b.String()
}
