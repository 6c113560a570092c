package event

import (
	"slices"
	"sync"
	"time"
)

// A Sink takes events, in order. Put returns when the event is where it should be.
type Sink interface {
	Put(Event) error
}

// A Filter stands between those who emit and the timeline: it passes events on, changed, later or not at all, in whatever
// number. What it still has when nothing more comes, Close passes on. A [Mender] is one.
type Filter interface {
	Put(e Event, emit func(Event))
	Close(emit func(Event))
}

// A Source is the run's one timeline: if Emit(a) returned before Emit(b) was called, a has the smaller number, and every
// sink sees a first.
//
// It puts each event to the journal under its lock, so that numbers and lines have one order, and shows it after the lock
// is free, so that a reader who is slow holds up those who emit and never those who only want to look.
type Source struct {
	session string
	now     func() time.Time
	journal Sink
	show    Sink

	mu     sync.Mutex
	filter Filter         // nil: events are taken as they come
	watch  []*func(Event) // told of events as they are written down
	heed   []*func(Event) // and as they were emitted
	last   uint64
	queue  []Event // journalled and not yet shown
	broken error   // the journal's first error; nothing is numbered after it

	out sync.Mutex // held while showing
}

// NewSource continues the timeline of a session after the event numbered last; a new one begins after 0. Events reach show
// after journal; either may be nil.
func NewSource(session string, last uint64, journal, show Sink, now func() time.Time) *Source {
	return &Source{session: session, last: last, journal: journal, show: show, now: now}
}

// Through lets every event pass f before it gets its number and time. f is used under the lock, by one goroutine at a time.
func (s *Source) Through(f Filter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter = f
}

// Watch lets f see every event from now on as it is written down, until the returned function is called. f is used under the
// lock, by one goroutine at a time: it is quick, and emits nothing itself.
func (s *Source) Watch(f func(Event)) (stop func()) { return s.add(&s.watch, f) }

// Heed is Watch for events as they were emitted, once the filter has had them, whatever it made of them: it may keep back what
// somebody waits for.
func (s *Source) Heed(f func(Event)) (stop func()) { return s.add(&s.heed, f) }

func (s *Source) add(to *[]*func(Event), f func(Event)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*to = append(slices.Clone(*to), &f)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*to = slices.DeleteFunc(slices.Clone(*to), func(g *func(Event)) bool { return g == &f })
	}
}

// Emit gives the event its number, and its time and session if it has none, and returns it as it was written. An error of
// the journal ends the timeline: the event was not taken, and no later one will be. An error of show is returned, and the
// timeline goes on.
//
// If a filter makes several events of it, the last one is returned; if it keeps the event back, the zero Event.
func (s *Source) Emit(e Event) (Event, error) {
	e = e.Stamp()
	if e.Session == "" {
		e.Session = s.session
	}
	e, err := s.enter(e)
	return e, s.drain(e.Seq, err)
}

// Flush takes what the filter keeps back: nothing more comes, or what comes does not belong to it.
func (s *Source) Flush() error {
	last, err := s.flush()
	return s.drain(last.Seq, err)
}

// enter takes the event, or what the filter makes of it, and returns the last that was taken.
func (s *Source) enter(e Event) (Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		for _, f := range s.heed {
			(*f)(e)
		}
	}()
	if s.filter == nil {
		return s.take(e)
	}
	return s.collect(func(take func(Event)) { s.filter.Put(e, take) })
}

func (s *Source) flush() (Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.filter == nil {
		return Event{}, nil
	}
	return s.collect(s.filter.Close)
}

// collect takes what the filter passes on.
func (s *Source) collect(pass func(take func(Event))) (last Event, err error) {
	pass(func(e Event) {
		if taken, failed := s.take(e); failed == nil {
			last = taken
		} else if err == nil {
			err = failed
		}
	})
	return last, err
}

// take numbers the event and puts it to the journal.
func (s *Source) take(e Event) (Event, error) {
	if s.broken != nil {
		return Event{}, s.broken
	}
	e = e.Stamp()
	e.Seq = s.last + 1
	if e.At.IsZero() {
		e.At = s.now().UTC().Truncate(time.Millisecond)
	}
	if s.journal != nil {
		if err := s.journal.Put(e); err != nil {
			s.broken = err
			return Event{}, err
		}
	}
	s.last = e.Seq
	for _, f := range s.watch {
		(*f)(e)
	}
	if s.show != nil {
		s.queue = append(s.queue, e)
	}
	return e, nil
}

// Last returns the number of the newest event.
func (s *Source) Last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// drain shows what is journalled, in order. It returns when event number upto has been shown, by whomever. The first error is
// the one that was there before.
func (s *Source) drain(upto uint64, first error) error {
	if s.show == nil || upto == 0 {
		return first
	}
	s.out.Lock()
	defer s.out.Unlock()
	for e, ok := s.next(upto); ok; e, ok = s.next(upto) {
		if err := s.show.Put(e); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// next takes the event that is to be shown next, if its number is not above upto.
func (s *Source) next(upto uint64) (Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 || s.queue[0].Seq > upto {
		return Event{}, false
	}
	e := s.queue[0]
	s.queue[0] = Event{} // what was shown is not kept
	s.queue = s.queue[1:]
	return e, true
}
