package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"slices"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/internal/rpc"
	"github.com/sluice-dev/sluice/journal"
)

// This file has the methods that tell what a run says.

// A Subscribe says what a subscriber wants. The zero value: from now on, in avenor's words.
type Subscribe struct {
	RuntimeID string  `json:"runtime_id,omitempty"`
	AfterSeq  *uint64 `json:"after_seq,omitempty"` // everything after this number
	Replay    bool    `json:"replay,omitempty"`    // everything
	Limit     int     `json:"limit,omitempty"`     // at most so many of what is there already: the last ones
	Format    string  `json:"format,omitempty"`    // a dialect; empty means avenor
}

// subscribed is the answer to a subscription.
type subscribed struct {
	Subscribed bool   `json:"subscribed"`
	RuntimeID  string `json:"runtime_id,omitempty"`
	LatestSeq  uint64 `json:"latest_seq,omitempty"` // when it began
}

func lookup(format string) (*dialect.Dialect, error) {
	d, err := dialect.Lookup(cmp.Or(format, "avenor"))
	if err != nil {
		return nil, needed("format", "%v", err)
	}
	return d, nil
}

func (g *guest) subscribe(r *rpc.Request) (any, error) {
	var p Subscribe
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	d, err := lookup(p.Format)
	if err != nil {
		return nil, err
	}
	begin := make(chan struct{})
	answer, err := g.begin(p, d, begin)
	if err == nil {
		_ = r.Reply(answer) // before the first event; if that fails it is gone
	}
	close(begin)
	return answer, err
}

// begin makes the feeds of a subscription.
func (g *guest) begin(p Subscribe, d *dialect.Dialect, begin <-chan struct{}) (subscribed, error) {
	runs := g.server.list()
	every := p.RuntimeID == "" && (g.server.o.Spawn != nil || len(runs) != 1)
	if every && (p.Replay || p.AfterSeq != nil) {
		return subscribed{}, needed("runtime_id", "what was there is told of one run: say which one (%s)", names(runs))
	}
	if every {
		g.server.mu.Lock() // no run comes between
		defer g.server.mu.Unlock()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.all = &p
		for _, run := range g.server.runs {
			g.feed(run, p, d, begin)
		}
		return subscribed{Subscribed: true}, nil
	}
	run, err := g.server.find(p.RuntimeID)
	if err != nil {
		return subscribed{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return subscribed{true, run.info.ID, g.feed(run, p, d, begin)}, nil
}

// historyMost is how many events one answer has, and historySize how many bytes.
const (
	historyMost = 1000
	historySize = 8 << 20
)

// A History is a part of what a run said. If there is more after it, ask again after the last number.
type History struct {
	RuntimeID string            `json:"runtime_id"`
	Events    []json.RawMessage `json:"events"`
	LatestSeq uint64            `json:"latest_seq"`
	More      bool              `json:"more,omitempty"`
}

func (g *guest) history(r *rpc.Request) (any, error) {
	var p Subscribe
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	run, err := g.server.find(p.RuntimeID)
	if err != nil {
		return nil, err
	}
	d, err := lookup(p.Format)
	if err != nil {
		return nil, err
	}
	if p.Limit <= 0 {
		p.Limit = 64
	}
	return run.history(p, d, min(p.Limit, historyMost))
}

// history reads a part of a journal: with a number the first events after it, without one the last events.
func (r *served) history(p Subscribe, d *dialect.Dialect, limit int) (History, error) {
	h := History{RuntimeID: r.info.ID, Events: []json.RawMessage{}}
	file, err := os.Open(r.info.Journal)
	if errors.Is(err, os.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	defer file.Close()
	enc := d.NewEncoder(dialect.Options{})
	var groups [][]json.RawMessage
	size := 0
	for l, err := range journal.Scan(file, nil) {
		if err != nil {
			continue // it is no event
		}
		h.LatestSeq = l.Seq
		lines := group{l.Seq, encode(enc, d, nil, l)}.stamped(r.info.ID, d)
		switch {
		case len(lines) == 0, p.AfterSeq != nil && l.Seq <= *p.AfterSeq:
			continue
		case p.AfterSeq != nil && (len(groups) == limit || size > historySize):
			h.More = true
			continue
		}
		groups = append(groups, lines)
		size += weight(lines)
		for p.AfterSeq == nil && len(groups) > 1 && (len(groups) > limit || size > historySize) {
			size -= weight(groups[0])
			groups = groups[1:]
		}
	}
	h.Events = append(h.Events, slices.Concat(groups...)...) // none is an empty list
	return h, nil
}

func weight(lines []json.RawMessage) (n int) {
	for _, l := range lines {
		n += len(l)
	}
	return n
}
