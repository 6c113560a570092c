package fold

import "github.com/sluice-dev/sluice/event"

// A purse adds up tokens and money in place. [event.Usage.Add] would make new numbers for each turn, several times over.
type purse struct {
	tokens [5]amount[int64]   // as [event.Usage] has them
	parts  [4]amount[float64] // as [event.Cost] has them, while nobody gave a total
	first  event.Cost         // instead of parts, if it is the only one and gave a total
	total  amount[float64]    // instead of both, once there were more
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
	switch {
	case c == (event.Cost{}):
		return
	case c.Total != nil && !p.priced():
		p.first = c
		return
	case p.total.known:
		n, _ := c.Sum()
		p.total.n += n
		return
	case c.Total != nil || p.first.Total != nil:
		a, _ := p.cost().Sum()
		b, _ := c.Sum()
		p.total = amount[float64]{a + b, true}
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

// metered says whether any usage is known.
func (p *purse) metered() bool {
	for i := range p.tokens {
		if p.tokens[i].known {
			return true
		}
	}
	return false
}

// priced says whether any cost is known.
func (p *purse) priced() bool {
	c := &p.parts
	return p.total.known || p.first.Total != nil || c[0].known || c[1].known || c[2].known || c[3].known
}

func (p *purse) cost() event.Cost {
	switch {
	case p.total.known:
		return event.Cost{Total: p.total.pointer()}
	case p.first.Total != nil:
		return p.first
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
	if !p.metered() {
		a.Usage = u
	}
	if !p.priced() {
		a.Cost = c
	}
	return a
}
