package cli

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/secret"
	"github.com/sluice-dev/sluice/journal"
)

// A timeline is the stream of one run: its source, its journal and its reader. Whatever happens to the run, finish gives the
// stream its one end: what is open then is closed, marked inferred, by the same [event.Mender] that mends the streams of
// others.
type timeline struct {
	session string
	src     *event.Source
	book    *book
	stage   *stage
	secrets *secret.Redactor
	filter  event.Filter // what events pass behind the one that takes out secrets; may be nil
}

// newTimeline begins a stream. A journal may be nil: then nothing is kept. No secret gets into it. stop is told why the run
// cannot go on.
func newTimeline(session string, w *journal.Writer, show event.Sink, secrets *secret.Redactor, stop func(*outcome.Cause)) *timeline {
	t := &timeline{session: session, book: &book{journal: w, stop: stop}, stage: &stage{show: show, stop: stop}, secrets: secrets}
	last := uint64(0)
	if w != nil {
		last = w.Last()
	}
	t.src = event.NewSource(session, last, t.book, t.stage, time.Now)
	t.src.Through(secrets.Fresh())
	return t
}

// through lets every event pass f, also those that end the stream. It is used by one goroutine at a time.
func (t *timeline) through(f event.Filter) {
	t.filter = &locked{f: f}
	t.src.Through(row{t.secrets.Fresh(), t.filter})
}

// A row is filters, one behind the other.
type row [2]event.Filter

func (r row) Put(e event.Event, emit func(event.Event)) {
	r[0].Put(e, func(e event.Event) { r[1].Put(e, emit) })
}

func (r row) Close(emit func(event.Event)) {
	r[0].Close(func(e event.Event) { r[1].Put(e, emit) })
	r[1].Close(emit)
}

// A locked filter may be used by whoever emits while somebody ends the stream.
type locked struct {
	mu sync.Mutex
	f  event.Filter
}

func (l *locked) Put(e event.Event, emit func(event.Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.f.Put(e, emit)
}

func (l *locked) Close(emit func(event.Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.f.Close(emit)
}

// finish ends the stream, and returns the end that was told.
func (t *timeline) finish(end event.RunEnd) event.RunEnd {
	t.src.Flush() // what may have been the beginning of a secret was none
	rest, end := t.close(end)
	for _, e := range rest {
		t.stage.Put(e)
	}
	return end
}

// close writes down all that ends the stream before anybody is shown any of it: a reader may take his time. It returns what
// is to be shown, and the end, which is another one if the journal breaks here. The second time there is nothing left to end.
func (t *timeline) close(end event.RunEnd) ([]event.Event, event.RunEnd) {
	end.Reason, end.Detail = t.secrets.String(end.Reason), t.secrets.String(end.Detail)
	rest, keep := t.book.shut(end)
	rest = t.filtered(rest)
	src := event.NewSource(t.session, t.src.Last(), keep, nil, time.Now)
	src.Through(t.secrets.Fresh()) // command lines that were killed, names of files
	for i, e := range rest {
		if _, last := event.AsRunEnd(e.Body); last {
			e.Body = ended(end)
		}
		e.Seq = 0
		told, err := src.Emit(e)
		if err != nil {
			src = event.NewSource(t.session, src.Last(), nil, nil, time.Now)
			src.Through(t.secrets.Fresh())
			if end.Outcome == event.Done {
				end.Outcome, end.Reason = event.Internal, err.Error()
			}
			if _, last := event.AsRunEnd(e.Body); last {
				e.Body = ended(end)
			}
			told, _ = src.Emit(e)
		}
		rest[i] = told
	}
	return rest, end
}

// filtered are the events that end the stream, as the filter passes them on. Of the last one it changes nothing.
func (t *timeline) filtered(rest []event.Event) (list []event.Event) {
	if t.filter == nil {
		return rest
	}
	for _, e := range rest {
		if e.Session == "" {
			e.Session = t.session
		}
		t.filter.Put(e, func(e event.Event) { list = append(list, e) })
	}
	return list
}

// ended makes an event of a run's end.
func ended(end event.RunEnd) event.Body {
	switch end.Outcome {
	case event.Done:
		return event.RunDone(end)
	case event.Cancelled:
		return event.RunCancelled(end)
	}
	return event.RunFailed(end)
}

// A book is the journal's side of a timeline. It knows what is open.
type book struct {
	stop func(*outcome.Cause)
	tick func() // called whenever something happened, if set

	mu      sync.Mutex
	journal *journal.Writer
	broken  bool
	closed  bool
	mender  event.Mender
}

var errEnded = errors.New("the run is over")

// Put writes the event down. After the end nothing is taken any more.
func (b *book) Put(e event.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errEnded
	}
	if b.journal != nil {
		if err := b.journal.Put(e); err != nil {
			b.broken = true
			b.stop(&outcome.Cause{Outcome: event.Internal, Reason: err.Error()})
			return err
		}
	}
	b.mender.Put(e, func(event.Event) {})
	if b.tick != nil {
		b.tick()
	}
	return nil
}

// shut takes the run's end and returns what is still to be told, and where to keep it. A journal that is broken cannot keep it;
// it is told all the same.
func (b *book) shut(end event.RunEnd) (rest []event.Event, keep event.Sink) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil
	}
	b.closed = true
	collect := func(e event.Event) {
		// A reply that nobody could end any more has not said why either.
		if r, ok := e.Body.(event.ReplyFailed); ok && r.Inferred {
			rest = append(rest, event.Event{Body: event.Error{
				Code: end.Code, Class: end.Class, Name: "InternalError", Message: end.Reason, Retryable: new(false), Source: "agent", Prompt: r.Prompt,
			}})
		}
		rest = append(rest, e)
	}
	b.mender.Put(event.Event{Body: ended(end)}, collect)
	b.mender.Close(collect)
	for i := range rest {
		rest[i].At = time.Time{}
	}
	if b.journal != nil && !b.broken {
		keep = b.journal
	}
	return rest, keep
}

// A stage is the reader's side of a timeline. Once the reader has gone, nothing is shown.
type stage struct {
	stop func(*outcome.Cause)

	since  atomic.Int64 // when somebody began to wait for the reader, in nanoseconds; 0: nobody waits
	mu     sync.Mutex
	show   event.Sink
	failed *outcome.Cause // why nothing is shown any more
}

// left is the cause of a run whose reader has gone.
var left = &outcome.Cause{Outcome: event.Cancelled, Reason: "the reader closed the pipe", Code: "141"}

// Put shows the event.
func (s *stage) Put(e event.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.show == nil {
		return nil
	}
	s.since.Store(time.Now().UnixNano())
	err := s.tell(e)
	s.since.Store(0)
	if err != nil {
		s.show = nil
		s.failed = &outcome.Cause{Outcome: event.Internal, Reason: "cannot write the stream: " + err.Error()}
		if errors.Is(err, syscall.EPIPE) {
			s.failed = left
		}
		s.stop(s.failed)
	}
	return nil
}

// waiting is how long the reader has not taken what is there for him.
func (s *stage) waiting() time.Duration {
	if at := s.since.Load(); at != 0 {
		return time.Since(time.Unix(0, at))
	}
	return 0
}

// tell shows the event. A bug in what shows it does not take the run's end with it: the journal has it.
func (s *stage) tell(e event.Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return s.show.Put(e)
}
