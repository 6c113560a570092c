package fold

import (
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

// calls are the open ones.
type calls map[span]call

func (c *calls) open(h *event.Header, name string) {
	if *c == nil {
		*c = calls{}
	}
	(*c)[span{h.Agent, h.Call}] = call{name: name, seq: h.Seq, since: h.At}
}

// start moves the call's beginning: what it waited for permission is not its own time.
func (c calls) start(h *event.Header) {
	key := span{h.Agent, h.Call}
	if o, ok := c[key]; ok && !h.At.IsZero() {
		o.since = h.At
		c[key] = o
	}
}

// end removes the call and returns it.
func (c calls) end(h *event.Header) (call, bool) {
	key := span{h.Agent, h.Call}
	o, ok := c[key]
	delete(c, key)
	return o, ok
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
