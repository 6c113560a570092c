package fold

import (
	"iter"
	"maps"
	"time"

	"github.com/sluice-dev/sluice/event"
)

// This file has what several views keep: the calls that are open, rows in the order they came, and the foreign lines that
// nobody understood.

// A span names something open: ids are only unique within an agent.
type span struct{ agent, id string }

// A call is one that was called and has not ended.
type call struct {
	name  string
	seq   uint64
	since time.Time // called, or started if that was told
}

// calls are the open ones. Mostly there is only one, and that needs no map.
type calls struct {
	any  bool // there is a one
	name span // of the one
	one  call
	more map[span]call
}

func (c *calls) open(h *event.Header, name string) {
	key, o := span{h.Agent, h.Call}, call{name: name, seq: h.Seq, since: h.At}
	if _, known := c.more[key]; !known && (!c.any || key == c.name) {
		c.any, c.name, c.one = true, key, o
		return
	}
	if c.more == nil {
		c.more = map[span]call{}
	}
	c.more[key] = o
}

// start moves the call's beginning: what it waited for permission is not its own time.
func (c *calls) start(h *event.Header) {
	key := span{h.Agent, h.Call}
	if h.At.IsZero() {
		return
	}
	if c.any && key == c.name {
		c.one.since = h.At
	} else if o, ok := c.more[key]; ok {
		o.since = h.At
		c.more[key] = o
	}
}

// end removes the call and returns it.
func (c *calls) end(h *event.Header) (call, bool) {
	key := span{h.Agent, h.Call}
	if c.any && key == c.name {
		c.any = false
		return c.one, true
	}
	o, ok := c.more[key]
	if ok {
		delete(c.more, key)
	}
	return o, ok
}

func (c *calls) len() int {
	if c.any {
		return 1 + len(c.more)
	}
	return len(c.more)
}

// all gives the open calls, in no order.
func (c *calls) all() iter.Seq2[span, call] {
	return func(yield func(span, call) bool) {
		if c.any && !yield(c.name, c.one) {
			return
		}
		for k, o := range c.more {
			if !yield(k, o) {
				return
			}
		}
	}
}

// drop forgets those of the agents that gone names.
func (c *calls) drop(gone func(agent string) bool) {
	c.any = c.any && !gone(c.name.agent)
	maps.DeleteFunc(c.more, func(s span, _ call) bool { return gone(s.agent) })
}

// A table keeps rows in the order in which their keys came.
type table[K comparable, V any] struct {
	rows []V
	at   map[K]int
}

// row returns the row of key, which is fresh if there was none. It is good until the next call.
func (t *table[K, V]) row(key K, fresh V) *V {
	i, ok := t.at[key]
	if !ok {
		if t.at == nil {
			t.at = map[K]int{}
		}
		i = len(t.rows)
		t.at[key] = i
		t.rows = append(t.rows, fresh)
	}
	return &t.rows[i]
}

// unite returns the rows of a, each with its like in b added to it, and then those that only b has.
func unite[K comparable, V any](a, b []V, key func(V) K, add func(*V, V)) []V {
	if len(b) == 0 {
		return a
	}
	t := table[K, V]{}
	for _, v := range a {
		t.row(key(v), v)
	}
	for _, v := range b {
		n := len(t.rows)
		if r := t.row(key(v), v); len(t.rows) == n {
			add(r, v)
		}
	}
	return t.rows
}

// unread says whether an event tells that nothing could be read from a foreign line: a decoder says so by a diag.
func unread(h *event.Header) bool { return h.Kind == "diag" && h.Of != 0 }
