package fold

import "github.com/sluice-dev/sluice/event"

// A purse adds up tokens and money in place. [event.Usage.Add] would make new numbers for each turn, several times over.
type purse struct {
	tokens [5]amount[int64]   // as [event.Usage] has them
	parts  [4]amount[float64] // as [event.Cost] has them, while nobody gave a total
	total  event.Cost         // instead of parts, once somebody did
	whole  bool               // and that is so
}

// An amount is a number that may be unknown.
type amount[T int64 | float64] struct {
	n     T
	known bool
}

func (a *amount[T]) add(n *T) {
	if n != nil {
		a.n, a.known = a.n+*n, true
	}
}

func (a amount[T]) pointer() *T {
	if !a.known {
		return nil
	}
	return new(a.n)
}

func (p *purse) add(u event.Usage, c event.Cost) {
	for i, n := range [...]*int64{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite} {
		p.tokens[i].add(n)
	}
	if c == (event.Cost{}) {
		return
	}
	if p.whole || c.Total != nil {
		p.total, p.whole = p.cost().Add(c), true
		return
	}
	for i, n := range [...]*float64{c.Input, c.Output, c.CacheRead, c.CacheWrite} {
		p.parts[i].add(n)
	}
}

func (p *purse) usage() event.Usage {
	t := &p.tokens
	return event.Usage{Input: t[0].pointer(), Output: t[1].pointer(), Reasoning: t[2].pointer(), CacheRead: t[3].pointer(), CacheWrite: t[4].pointer()}
}

func (p *purse) cost() event.Cost {
	if p.whole {
		return p.total
	}
	c := &p.parts
	return event.Cost{Input: c[0].pointer(), Output: c[1].pointer(), CacheRead: c[2].pointer(), CacheWrite: c[3].pointer()}
}

// A sum is an [Account] that grows.
type sum struct {
	turns, unmetered, unpriced int
	purse
}

func (s *sum) add(a *Account) {
	s.turns += a.Turns
	s.unmetered += a.Unmetered
	s.unpriced += a.Unpriced
	s.purse.add(a.Usage, a.Cost)
}

func (s *sum) account() Account {
	return Account{Turns: s.turns, Unmetered: s.unmetered, Unpriced: s.unpriced, Usage: s.usage(), Cost: s.cost()}
}

// missing returns the part of a summary that nobody told before it: tokens, money or both.
func (p *purse) missing(u event.Usage, c event.Cost) (a Account) {
	if p.usage() == (event.Usage{}) {
		a.Usage = u
	}
	if p.cost() == (event.Cost{}) {
		a.Cost = c
	}
	return a
}
