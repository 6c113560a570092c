package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/script"
	"github.com/sluice-dev/sluice/internal/wire"
)

// scripted is a model that says what a file says, without a server in between. What goes wrong in the file goes wrong here
// as it would over the wire.
type scripted struct {
	player *script.Player
	name   string
	idle   time.Duration
}

func newScript(t target) (Model, error) {
	s, err := script.Read(t.Model)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(filepath.Base(t.Model), filepath.Ext(t.Model))
	return &scripted{script.NewPlayer(s), name, t.Idle}, nil
}

func (m *scripted) Answer(ctx context.Context, r Request) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		x := begin(ctx, m.idle)
		defer x.end()
		p := playing{answer: answer{yield: yield}, x: x, turn: m.player.Next(show(r, m.name))}
		if p.turn.Fault != nil {
			p.fault = *p.turn.Fault
		}
		if err := p.play(); err != nil {
			p.fail(x.failure(err))
			return
		}
		p.end(event.TurnEnded{
			Provider: "script", Model: p.turn.Model, Finish: event.Finish(p.turn.Finish), Usage: scriptUsage(p.turn.Usage),
		})
	}
}

// show is what a request would show of itself over the wire.
func show(r Request, model string) script.Seen {
	s := script.Seen{System: r.System, Model: model}
	speaking := false
	heard := func(text string) {
		speaking, s.Last = false, text
		if s.Prompt == "" {
			s.Prompt = text
		}
	}
	for _, e := range r.History {
		switch b := e.Body.(type) {
		case event.Prompt:
			heard(b.Text)
		case event.Compacted:
			heard(summary(b))
		case event.Text, event.Thought, event.ToolCalled:
			if !speaking {
				s.Answers++
			}
			speaking = true
		default:
			if end, ok := event.AsToolEnd(b); ok {
				heard(result(end))
			}
		}
	}
	return s
}

// scriptUsage leaves out the buckets that hardly any answer has, if they are empty.
func scriptUsage(u *script.Usage) event.Usage {
	if u == nil {
		return event.Usage{}
	}
	some := func(n int64) *int64 {
		if n == 0 {
			return nil
		}
		return &n
	}
	return event.Usage{
		Input: new(u.Input), Output: new(u.Output), Reasoning: some(u.Reasoning), CacheRead: some(u.CacheRead), CacheWrite: some(u.CacheWrite),
	}
}

// A playing is one answer on its way.
type playing struct {
	answer
	x     *exchange
	turn  script.Turn
	fault script.Fault
}

// play says the answer but for its end. The error is what went wrong on purpose, or the context's.
func (p *playing) play() error {
	if f := p.fault; f.Status != 0 {
		return scriptError(f)
	}
	if err := p.breaks(script.PlaceStart, sendError(io.EOF)); err != nil {
		return err
	}
	for i, part := range p.turn.Parts {
		if err := p.say(part, p.first(i)); err != nil {
			return err
		}
		if i == 0 {
			if err := p.spoiled(); err != nil {
				return err
			}
		}
	}
	if len(p.turn.Parts) == 0 {
		if err := p.spoiled(); err != nil {
			return err
		}
	}
	return p.breaks(script.PlaceEnd, cutError(io.EOF))
}

// scriptError is the error that a status is over the wire.
func scriptError(f script.Fault) *Error {
	h := http.Header{}
	for k, v := range f.Headers {
		h.Set(k, v)
	}
	var body struct {
		Error struct {
			Type    string `json:"type,omitempty"`
			Message string `json:"message"`
		} `json:"error"`
	}
	body.Error.Type, body.Error.Message = f.Type, f.Message
	if f.Message == "" {
		body.Error.Message = fmt.Sprintf("the script answers with status %d", f.Status)
	}
	return statusError(f.Status, h, wire.Append(nil, body), nil)
}

// first says whether a block is the first of its kind: the one that is broken off, if any is.
func (p *playing) first(i int) bool {
	for _, before := range p.turn.Parts[:i] {
		if before.Kind == p.turn.Parts[i].Kind {
			return false
		}
	}
	return true
}

// say says a block, or half of it if it is the one to break off in.
func (p *playing) say(part script.Part, first bool) error {
	text, place := part.Text, string(part.Kind)
	if first && (p.fault.Cut == place || p.fault.Hang == place) {
		text = half(text)
	} else {
		place = ""
	}
	for delta := range script.Deltas(text, p.turn.Chunk) {
		p.x.wait()
		err := sleep(p.x.ctx, p.turn.Delay+time.Duration(p.fault.Trickle)*time.Duration(len(delta)))
		p.x.pause()
		if err != nil {
			return err
		}
		switch part.Kind {
		case script.Text:
			p.text(delta)
		case script.Thinking:
			p.thought(delta)
		}
		if p.gone {
			return nil
		}
	}
	if place != "" {
		return p.breaks(place, cutError(io.EOF))
	}
	if part.Kind == script.ToolCall {
		p.call(part.ID, part.Tool, part.Text)
	}
	p.close("")
	return nil
}

// breaks breaks off or hangs, if that is to happen here.
func (p *playing) breaks(place string, cut *Error) error {
	switch place {
	case p.fault.Cut:
		return cut
	case p.fault.Hang:
		p.x.wait()
		<-p.x.ctx.Done()
		return p.x.ctx.Err()
	}
	return nil
}

// spoiled is what a sick server says after the first block.
func (p *playing) spoiled() error {
	switch f := p.fault; {
	case f.Malformed:
		return errNotSSE
	case f.WrongJSON:
		return nonsense(errors.New("unexpected end of JSON"))
	case f.InStream != "":
		return streamError(f.InStream, first(f.Message, "the script answers with an error: "+f.InStream))
	}
	return nil
}

// half is the first half of a text, by runes.
func half(s string) string {
	n := 0
	for range utf8.RuneCountInString(s) / 2 {
		_, size := utf8.DecodeRuneInString(s[n:])
		n += size
	}
	return s[:n]
}
