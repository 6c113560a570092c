package loop

import (
	"context"
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// Watch returns a context that ends when an answer in the stream goes nowhere, whoever gives it, with the cause that says so. The
// function that it returns releases what that takes.
func Watch(ctx context.Context, src *event.Source) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var d fold.Detector
	stop := src.Watch(func(e event.Event) {
		if d.Apply(e); d.Found != nil {
			cancel(&outcome.Cause{Outcome: event.Failed, Reason: d.Found.Message, Stop: fold.DegenerateStream, Saw: d.Found.Diagnostics})
			d.Found = nil
		}
	})
	return ctx, func() { stop(); cancel(nil) }
}

// An ear hears what a worker says to the user: its directives, its last words, and when a reply has ended. What an attempt said
// that was given up does not count, nor does a thought, nor what a sub-agent says.
type ear struct {
	ended chan struct{} // has something in it when a reply ended

	mu      sync.Mutex
	openID  string
	open    strings.Builder // the block whose deltas come
	turn    words           // that is not over
	all     words
	replies int
	done    bool // the last one ended well
	usage   event.Usage
	cost    event.Cost
}

// words are what was said, as far as it matters here.
type words struct {
	last   string
	marker fold.Marker
}

// say adds a whole text.
func (w *words) say(text string) {
	if strings.TrimSpace(text) != "" {
		w.last = text
	}
	if m := fold.Directive(text); m.Beats(w.marker) {
		w.marker = m
	}
}

// then adds what was said later.
func (w *words) then(o words) {
	if o.last != "" {
		w.last = o.last
	}
	if o.marker.Beats(w.marker) {
		w.marker = o.marker
	}
}

func newEar() *ear { return &ear{ended: make(chan struct{}, 1)} }

// hear is what watches the source.
func (h *ear) hear(e event.Event) {
	if e.Agent != "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch b := e.Body.(type) {
	case event.TextDelta:
		if b.ID != h.openID {
			h.flush()
			h.openID = b.ID
		}
		h.open.WriteString(b.Text)
	case event.Text:
		h.open.Reset()
		if !b.Partial {
			h.turn.say(b.Text)
		}
	case event.Retry:
		h.open.Reset()
		h.turn = words{}
	case event.ToolCalled, event.ThoughtDelta, event.Thought:
		h.flush()
	case event.TurnStarted, event.TurnEnded, event.Prompt:
		h.commit()
	}
}

// answered heeds the source: a filter may keep the end of a reply back until it is known what comes of it.
func (h *ear) answered(e event.Event) {
	end, ok := event.AsReplyEnd(e.Body)
	if !ok || e.Agent != "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	_, h.done = e.Body.(event.ReplyDone)
	h.usage, h.cost = h.usage.Add(end.Usage), h.cost.Add(end.Cost)
	h.replies++
	select {
	case h.ended <- struct{}{}:
	default:
	}
}

// flush ends a block whose whole nobody told.
func (h *ear) flush() {
	if h.open.Len() > 0 {
		h.turn.say(h.open.String())
		h.open.Reset()
	}
}

func (h *ear) commit() {
	h.flush()
	h.all.then(h.turn)
	h.turn = words{}
}

// heard is what was said up to now, how many replies have ended, and whether the last one ended well.
func (h *ear) heard() (w words, replies int, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all, h.replies, h.done
}
