package dialect

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// A Stream reads events from lines in a dialect.
type Stream struct {
	dialect *Dialect
	opt     StreamOptions
	dec     Decoder
	mend    event.Mender
	seq     uint64 // of the last event given
	of      uint64 // of the line that is being read
	at      int    // its number
	emit    func(event.Event)
	moved   moved // lines of a native stream that got another number

	// What is passed on with every line, made once.
	toldTo   func(event.Event)
	numberTo func(event.Event)
	bare     event.Body
	foreign  *wire.Cell[event.Body, event.Foreign] // for transient ones
}

// StreamOptions are how a stream is read. The zero value keeps every line and mends what is broken.
type StreamOptions struct {
	After    uint64 // number events after this one; a native stream keeps its own numbers
	NoOrigin bool   // do not give the lines themselves as foreign events

	// Lean leaves out what is bulky: the text of foreign events, inputs and outputs of calls. What the events say is gone when the
	// next line is read; who keeps a text copies it.
	Lean bool

	// Transient gives foreign lines as they lie in memory: they are gone when the next line is read. It is for who passes them on
	// at once.
	Transient bool

	// For is who will be told. What it has no word for may be left out, unless somebody asks what is lost.
	For *Dialect

	Runs   bool // a journal that was resumed has several runs: give them as several, not as one that went on
	AsTold bool // do not mend: give what the lines say, as they say it
}

// NewStream reads lines in dialect d.
func NewStream(d *Dialect, o StreamOptions) *Stream {
	s := &Stream{dialect: d, opt: o, dec: d.decoder(o.bulk()), mend: event.Mender{Program: d.Name, Runs: o.Runs && d == &native}}
	if d != &native {
		s.seq = o.After
	}
	s.toldTo, s.numberTo = s.told, func(e event.Event) { s.number(&e) }
	s.bare = event.Foreign{Dialect: d.Name}
	s.foreign = wire.NewCell[event.Body, event.Foreign]()
	return s
}

func (o StreamOptions) bulk() bulk {
	switch {
	case o.Lean:
		return noBulk
	case o.For != nil && o.For.mute:
		return noOutputs
	}
	return allBulk
}

// Line reads one line, without its newline, and gives the events that it says. Torn says that it had no newline.
func (s *Stream) Line(line []byte, torn bool, emit func(event.Event)) {
	s.at++
	s.emit = emit
	s.of = 0
	if s.dialect != &native && !s.opt.NoOrigin {
		body := s.bare
		if !s.opt.Lean || torn {
			body = s.keep(line, torn)
		}
		s.of = s.number(&event.Event{Body: body})
	}
	if line = trim(line, s.at == 1); len(line) > 0 && (line[0] > ' ' || len(bytes.TrimSpace(line)) > 0) {
		s.dec.Decode(line, s.toldTo)
	}
}

// keep makes a foreign event of a line.
func (s *Stream) keep(line []byte, torn bool) event.Body {
	if !s.opt.Transient || !wire.ValidUTF8(line) {
		f := event.NewForeign(s.dialect.Name, line)
		f.Torn = torn
		return f
	}
	s.foreign.Value = event.Foreign{Dialect: s.dialect.Name, Line: wire.View(line), Torn: torn}
	return s.foreign.As()
}

// Close gives what the end of the stream says, and what is missing.
func (s *Stream) Close(emit func(event.Event)) {
	s.emit = emit
	s.dec.Close(s.toldTo)
	if !s.opt.AsTold {
		last := s.of
		s.of = 0
		s.mend.Close(func(e event.Event) {
			if _, end := event.AsRunEnd(e.Body); end && e.Of != 0 && s.dialect != &native {
				e.Of = last // it was held to the end; a teller remembers only the last lines
			}
			s.number(&e)
		})
	}
}

// Ended says whether the lines so far say that the run is over.
func (s *Stream) Ended() bool { return s.dec.Ended() }

// At is the number of the line that was read last.
func (s *Stream) At() int { return s.at }

// told takes an event from the decoder.
func (s *Stream) told(e event.Event) {
	if s.dialect != &native {
		if e.Of = s.of; event.Inferred(e.Body) {
			e.Of = 0
		}
	}
	if s.opt.AsTold {
		s.number(&e)
		return
	}
	s.mend.Put(e, s.numberTo)
}

// number gives the event its number. In a native stream it has one, and keeps it unless something that was missing took it.
func (s *Stream) number(e *event.Event) uint64 {
	if e.Body != nil {
		e.Kind = e.Body.Kind()
	}
	own := e.Seq
	if s.dialect != &native || own <= s.seq {
		e.Seq = s.seq + 1
	}
	if s.dialect == &native {
		s.moved.follow(e, own)
	}
	s.seq = e.Seq
	s.emit(*e)
	return e.Seq
}

// trim takes away what is not the line's own: a byte order mark before the first line, a carriage return after each.
func trim(line []byte, first bool) []byte {
	if first && len(line) >= 3 && string(line[:3]) == "\xef\xbb\xbf" {
		line = line[3:]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

// Read gives the events of r, which is in dialect d. An error of r is the last thing given; what came before it is mended
// and whole.
func Read(r io.Reader, d *Dialect, o StreamOptions) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		s := NewStream(d, o)
		stopped := false
		emit := func(e event.Event) {
			if !stopped {
				stopped = !yield(e, nil)
			}
		}
		lines := wire.NewLines(r)
		for !stopped {
			line, err := lines.Next()
			if err != nil {
				s.Close(emit)
				if !stopped && !errors.Is(err, io.EOF) {
					yield(event.Event{}, err)
				}
				return
			}
			s.Line(line, lines.Torn(), emit)
		}
	}
}

// ErrUnknown says that a stream is in no dialect that is known here.
var ErrUnknown = errors.New("the stream is in no dialect that is known here")

// openLines is how far a stream is read to find out its dialect.
const openLines = 50

// Open finds out the dialect of a stream by its first lines; one that comes slowly is known by its first line. The reader
// that it returns gives the whole stream.
func Open(r io.Reader) (*Dialect, io.Reader, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	var head []byte
	for range openLines {
		line, err := br.ReadSlice('\n')
		start := len(head)
		head = append(head, line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = br.ReadSlice('\n')
			head = append(head, line...)
		}
		if d := Recognise(head[start:]); d != nil {
			return d, io.MultiReader(bytes.NewReader(head), br), nil
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, io.MultiReader(bytes.NewReader(head), br), ErrUnknown
}

// ReadAny gives the events of r, in whichever dialect it is.
func ReadAny(r io.Reader) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		d, r, err := Open(r)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		Read(r, d, StreamOptions{NoOrigin: true})(yield)
	}
}
