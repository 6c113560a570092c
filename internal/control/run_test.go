package control

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A play is a run without an agent: a real journal, a real timeline and a real gate, and a test that says what happens.
type play struct {
	t    *testing.T
	info Info
	src  *event.Source
	gate *gate.Gate
	sent chan string // commands, as they come

	mu      sync.Mutex
	waiting sync.WaitGroup
	over    bool
}

// folder returns a folder whose name is short enough for a socket.
func folder(t *testing.T) string {
	dir, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// newPlay begins a run: its first prompt has been asked.
func newPlay(t *testing.T, id string, answerers ...gate.Answerer) *play {
	path := filepath.Join(t.TempDir(), id+".ndjson")
	w, err := journal.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	p := &play{t: t, info: Info{ID: id, Label: "label-" + id, Run: "run-" + id, Journal: path, Started: time.Now()}, sent: make(chan string, 100)}
	p.src = event.NewSource("ses-"+id, 0, w, nil, time.Now)
	p.gate = gate.New(gate.Policy{}, append(answerers, gate.Inbox{})...)
	t.Cleanup(func() {
		p.waiting.Wait()
		w.Close()
	})
	p.emit(event.RunStarted{Format: event.Format, Program: "sluice", Run: p.info.Run, Label: p.info.Label, Backend: "play"})
	p.emit(event.Prompt{ID: "p1", Text: "do it", Source: "argument"})
	p.emit(event.TurnStarted{Number: 1})
	return p
}

func (p *play) emit(b event.Body) {
	p.t.Helper()
	if _, err := p.src.Emit(event.Event{Body: b}); err != nil {
		p.t.Error(err)
	}
}

func (p *play) say(text string) {
	p.emit(event.TextDelta{ID: "m", Text: text})
	p.emit(event.Text{ID: "m", Text: text})
}

// ask asks a question, as an agent does; its answer comes through the channel.
func (p *play) ask(ctx context.Context, request string) <-chan gate.Answer {
	p.t.Helper()
	h := event.Header{Call: "c-" + request}
	p.src.Emit(event.Event{Header: h, Body: event.ToolCalled{Name: "bash", Title: "ls", Class: event.ClassExec, Input: event.Raw(`{"command":"ls"}`)}})
	access := []gate.Access{{Permission: "bash", Target: "ls", Class: event.ClassExec}}
	q := p.gate.Ask(event.GateAsked{Request: request, Tool: "bash", Input: event.Raw(`{"command":"ls"}`)}, access, event.ClassExec)
	p.src.Emit(event.Event{Header: h, Body: q.Asked()})
	answers := make(chan gate.Answer, 1)
	p.waiting.Go(func() {
		a, err := q.Wait(ctx)
		if err != nil {
			a = gate.Answer{Reason: err.Error(), By: event.ByNobody}
		}
		p.src.Emit(event.Event{Header: h, Body: a.Event(q.Asked())})
		if a.Allow {
			p.src.Emit(event.Event{Header: h, Body: event.ToolDone{Name: "bash"}})
		} else {
			p.src.Emit(event.Event{Header: h, Body: event.ToolDenied{Name: "bash"}})
		}
		answers <- a
	})
	return answers
}

// end ends the run.
func (p *play) end(b event.Body) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.over = true
	p.emit(event.TurnEnded{Number: 1, Finish: event.FinishStop})
	switch b.(type) {
	case event.RunDone:
		p.emit(event.ReplyDone{Prompt: "p1", Stop: "end_turn"})
	case event.RunCancelled:
		p.emit(event.ReplyCancelled{Prompt: "p1", Stop: "cancelled"})
	default:
		p.emit(event.ReplyFailed{Prompt: "p1", Stop: "error"})
	}
	p.emit(b)
}

func (p *play) Info() Info { return p.info }

func (p *play) Send(c event.Command) error {
	p.sent <- fmt.Sprintf("%T %+v", c, c)
	return nil
}

func (p *play) Interrupt(m event.Message, keep bool) error {
	p.sent <- fmt.Sprintf("interrupt %s keep=%t", m.Text, keep)
	return nil
}

func (p *play) Cancel(reason string) error {
	p.end(event.RunCancelled{Outcome: event.Cancelled, Reason: reason})
	return nil
}

func (p *play) Answer(request string, a gate.Answer) error { return p.gate.Answer(request, a) }

func (p *play) Emit(c event.Custom) error {
	_, err := p.src.Emit(event.Event{Body: c})
	return err
}

// serve serves runs on a socket until the test ends.
func serve(t *testing.T, o ServerOptions, runs ...*play) *Server {
	t.Helper()
	s, err := Listen(filepath.Join(folder(t), "s.sock"), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		s.Add(r)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func connect(t *testing.T, s *Server, told func(Event)) *Client {
	t.Helper()
	c, err := Dial(within(t), s.Path(), told)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}
