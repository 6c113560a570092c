package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
	"github.com/sluice-dev/sluice/journal"
)

// A feed gives what a journal has, and what it gets, to one connection. It reads the file, so it can be as slow as its reader.
//
// The numbers are the journal's. A line of another dialect has the number of the event that made it be told. Where one event
// makes several lines, all but the last are marked "more": a subscriber who lost the connection between them asks for what
// comes after the number before.
type feed struct {
	g       *guest
	run     *served
	dialect *dialect.Dialect
	from    uint64 // the first number that is told
	limit   int    // of what is there already; 0: none

	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	at   uint64        // the last event that was read and, if it was to be, told
	move chan struct{} // closed when at changes, and made anew
}

// feed begins to feed the connection, and returns the number of the last event that is there. g.mu is held.
func (g *guest) feed(r *served, want Subscribe, d *dialect.Dialect, begin <-chan struct{}) uint64 {
	last := r.last()
	f := &feed{g: g, run: r, dialect: d, limit: want.Limit, done: make(chan struct{}), move: make(chan struct{})}
	switch {
	case want.AfterSeq != nil:
		f.from = max(*want.AfterSeq+1, *want.AfterSeq) // after the last number that there is comes nothing
	case want.Replay:
		f.from = 1
	default:
		f.from = last + 1
	}
	ctx, cancel := context.WithCancel(g.server.ctx)
	f.cancel = cancel
	g.feeds = append(g.feeds, f)
	g.server.running.Go(func() {
		defer close(f.done)
		defer cancel()
		<-begin
		f.tell(ctx, last)
	})
	return last
}

// tell reads the journal, and tells it.
func (f *feed) tell(ctx context.Context, there uint64) {
	enc := f.dialect.NewEncoder(dialect.Options{})
	why := "the run's journal ends here"
	var held []group // of what is there already, if only the last ones are wanted
	var buf []byte
	for l, err := range journal.Tail(ctx, f.run.info.Journal, 1) {
		var bad *journal.LineError
		if errors.As(err, &bad) {
			continue // it is no event, and was never told
		}
		if err != nil {
			why = err.Error()
			break
		}
		buf = encode(enc, f.dialect, buf[:0], l)
		switch {
		case l.Seq < f.from:
		case f.limit > 0 && l.Seq <= there:
			if held = append(held, group{l.Seq, bytes.Clone(buf)}); len(held) > f.limit {
				held = held[1:]
			}
		default:
			err = f.send(ctx, group{l.Seq, buf})
		}
		if l.Seq == there {
			for _, g := range held {
				if err = f.send(ctx, g); err != nil {
					return // nobody reads
				}
			}
			held = nil
		}
		if err != nil {
			return // nobody reads
		}
		f.reached(l.Seq)
	}
	if ctx.Err() == nil {
		_ = f.g.conn.Notify(ctx, "end", map[string]string{"runtime_id": f.run.info.ID, "reason": why}) // nobody reads
	}
}

// A group is what one event says: some lines, or none.
type group struct {
	seq   uint64
	lines []byte
}

// encode appends the lines that a dialect has for a line of the journal.
func encode(enc dialect.Encoder, d *dialect.Dialect, dst []byte, l event.Line) []byte {
	if d.Name == "native" {
		return append(append(dst, l.Raw()...), '\n')
	}
	e, err := l.Event()
	if err != nil {
		if e, err = l.Unread(); err != nil {
			return dst
		}
	}
	return enc.Encode(dst, e)
}

func (f *feed) send(ctx context.Context, g group) error {
	for _, params := range g.stamped(f.run.info.ID, f.dialect) {
		if err := f.g.conn.Notify(ctx, "event", wire.JSON(params)); err != nil {
			return err
		}
	}
	return nil
}

// stamped are the lines, each with its run and number.
func (g group) stamped(run string, d *dialect.Dialect) (list []json.RawMessage) {
	for rest := g.lines; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		list = append(list, stamp(line, run, g.seq, len(rest) > 0, d.Name == "avenor"))
	}
	return list
}

// stamp says of which run a line is, and its number: in avenor's words beside what the line says, else around it.
func stamp(line []byte, run string, seq uint64, more, flat bool) json.RawMessage {
	mark := append([]byte(`"runtime_id":`), wire.Append(nil, run)...)
	mark = fmt.Appendf(mark, `,"seq":%d`, seq)
	if more {
		mark = append(mark, `,"more":true`...)
	}
	if !flat {
		return fmt.Appendf(nil, `{%s,"line":%s}`, mark, line)
	}
	var doc wire.Doc
	if doc.Parse(line) != nil || doc.Root().Kind() != wire.Object {
		return fmt.Appendf(nil, `{"event":"unknown",%s,"line":%s}`, mark, wire.AppendRaw(nil, line))
	}
	out := []byte{'{'}
	for key, value := range doc.Root().All() {
		switch key {
		case "runtime_id", "seq", "more": // somebody's own event may have them; here they are ours
		default:
			out = append(append(wire.AppendString(out, key), ':'), value.Raw()...)
			out = append(out, ',')
		}
	}
	return append(append(out, mark...), '}')
}

func (f *feed) reached(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = seq
	close(f.move)
	f.move = make(chan struct{})
}

// drain waits until everything is told that the journal has now, or until ctx ends, and then ends the feed.
func (f *feed) drain(ctx context.Context) {
	last := f.run.last()
	for {
		f.mu.Lock()
		at, move := f.at, f.move
		f.mu.Unlock()
		if at >= last {
			break
		}
		select {
		case <-move:
			continue
		case <-f.done:
		case <-ctx.Done():
		}
		break
	}
	f.cancel()
	<-f.done
}

// last is the number of the newest event in the run's journal.
func (r *served) last() uint64 {
	l, err := journal.Last(r.info.Journal)
	if err != nil {
		return 0 // there is none yet
	}
	return l.Seq
}
