package modelserver

import (
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/internal/script"
)

// A voice says an answer in one wire format, event by event. Its methods are called in this order: begin; open, delta and
// shut for each block; end; last. Only fail may come in between, and then nothing comes after it.
type voice interface {
	mime() string
	begin()
	open(block int, p script.Part)
	delta(block int, p script.Part, text string)
	shut(block int, p script.Part)
	end()                      // all that follows the blocks but the last event
	last()                     // the last event
	fail(kind, message string) // an error, in the stream
	garble()                   // bytes that are no event
	wrong()                    // an event whose JSON is broken off
	whole() []byte             // all of it as one document, for who asked for no stream
}

// play gives an answer, with what goes wrong in it.
func play(s *stage, f format, t script.Turn, a ask) {
	fault := script.Fault{}
	if t.Fault != nil {
		fault = *t.Fault
	}
	if fault.Status != 0 {
		message := fault.Message
		if message == "" {
			message = fmt.Sprintf("the script answers with status %d", fault.Status)
		}
		s.refuse(f, refusal{status: fault.Status, kind: fault.Type, message: message, header: fault.Headers})
		return
	}
	if broken(s, fault, script.PlaceStart) {
		return
	}
	v := a.voice(t, s)
	s.trickle = time.Duration(fault.Trickle)
	if !a.stream {
		recite(s, f, t, v, fault)
		return
	}
	s.open(v.mime())
	v.begin()
	if len(t.Parts) == 0 && spoiled(v, fault) {
		return
	}
	for i, p := range t.Parts {
		v.open(i, p)
		text, here := p.Text, breaks(fault, t.Parts, i)
		if here {
			text = half(text)
		}
		for d := range script.Deltas(text, t.Chunk) {
			s.wait(t.Delay)
			if s.over {
				return
			}
			v.delta(i, p, d)
		}
		if here && broken(s, fault, string(p.Kind)) {
			return
		}
		v.shut(i, p)
		if i == 0 && spoiled(v, fault) {
			return
		}
	}
	v.end()
	if !broken(s, fault, script.PlaceEnd) {
		v.last()
	}
}

// recite gives an answer that is one document.
func recite(s *stage, f format, t script.Turn, v voice, fault script.Fault) {
	s.wait(t.Delay)
	body := v.whole()
	switch {
	case fault.InStream != "":
		s.refuse(f, refusal{status: kindNamed(fault.InStream).status, kind: fault.InStream, message: complaint(fault)})
	case fault.Malformed:
		s.answer(http.StatusOK, nil, []byte(garbage))
	case fault.WrongJSON:
		s.answer(http.StatusOK, nil, body[:len(body)/2])
	case fault.Cut != "" || fault.Hang != "":
		s.announce(http.StatusOK, nil, len(body))
		s.write(body[:len(body)/2])
		broken(s, fault, fault.Cut+fault.Hang)
	default:
		s.answer(http.StatusOK, nil, body)
	}
}

// broken breaks off or hangs if that is to happen here.
func broken(s *stage, f script.Fault, place string) bool {
	switch place {
	case f.Cut:
		s.snap()
	case f.Hang:
		s.hang()
	default:
		return false
	}
	return true
}

// breaks says whether the answer breaks off in this block: the first of its kind.
func breaks(f script.Fault, parts []script.Part, i int) bool {
	kind := string(parts[i].Kind)
	if f.Cut != kind && f.Hang != kind {
		return false
	}
	for _, p := range parts[:i] {
		if p.Kind == parts[i].Kind {
			return false
		}
	}
	return true
}

// spoiled says what a sick server says after the first block. The stream ends with it, in good order.
func spoiled(v voice, f script.Fault) bool {
	switch {
	case f.Malformed:
		v.garble()
	case f.WrongJSON:
		v.wrong()
	case f.InStream != "":
		v.fail(f.InStream, complaint(f))
	default:
		return false
	}
	return true
}

// garbage is what a proxy says whose backend has gone.
const garbage = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>upstream: connection reset</body>\r\n</html>\r\n"

func complaint(f script.Fault) string {
	if f.Message != "" {
		return f.Message
	}
	return "the script answers with an error: " + f.InStream
}

// half returns the first half of a text, by runes.
func half(s string) string {
	n := 0
	for range utf8.RuneCountInString(s) / 2 {
		_, size := utf8.DecodeRuneInString(s[n:])
		n += size
	}
	return s[:n]
}
