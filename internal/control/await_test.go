package control

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

type awaited struct {
	Moment
	err error
}

// await waits in the background.
func await(t *testing.T, s *Server, until string, passed func(Moment)) <-chan awaited {
	done := make(chan awaited, 1)
	ctx := within(t)
	go func() {
		m, err := Await(ctx, s.Path(), "", until, passed)
		done <- awaited{m, err}
	}()
	return done
}

func TestAwaitAttention(t *testing.T) {
	p := newPlay(t, "r1")
	s := serve(t, ServerOptions{}, p)
	// A question that is open before, and one that comes while somebody waits.
	for _, before := range []bool{true, false} {
		var done <-chan awaited
		if !before {
			done = await(t, s, UntilAttention, nil)
		}
		answers := p.ask(within(t), "q1"+map[bool]string{true: "a", false: "b"}[before])
		if before {
			done = await(t, s, UntilAttention, nil)
		}
		got := <-done
		if got.err != nil || got.Exit() != 20 || got.Plain() != "ATTENTION permission r1 allow bash ls?" {
			t.Errorf("%+v: %s", got, got.Plain())
		}
		if err := p.gate.Answer(got.RequestID, gate.Answer{}); err != nil {
			t.Error(err)
		}
		allowed(t, answers, false)
	}
}

func TestAwaitEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end   event.Body
		plain string
		exit  int
	}{
		"done":    {event.RunDone{Outcome: event.Done}, "TURN-DONE r1", 0},
		"failed":  {event.RunFailed{Outcome: event.Failed}, "END failed r1 failed", 10},
		"denied":  {event.RunFailed{Outcome: event.Denied}, "END failed r1 denied", 10},
		"timeout": {event.RunFailed{Outcome: event.Timeout}, "END timeout r1 timeout", 11},
		"stalled": {event.RunFailed{Outcome: event.Stalled}, "END timeout r1 stalled", 11},
		"killed":  {event.RunCancelled{Outcome: event.Cancelled}, "END killed r1 cancelled", 12},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, "r1")
			s := serve(t, ServerOptions{}, p)
			var passed []string
			seen := make(chan struct{})
			done := await(t, s, UntilDone, func(m Moment) { passed = append(passed, m.Plain()); close(seen) })
			answers := p.ask(within(t), "q1")
			<-seen
			_ = p.gate.Answer("q1", gate.Answer{Allow: true})
			allowed(t, answers, true)
			p.end(c.end)
			got := <-done
			if got.err != nil || got.Plain() != c.plain || got.Exit() != c.exit {
				t.Errorf("%+v: %q", got, got.Plain())
			}
			if d := cmp.Diff([]string{"ATTENTION permission r1 allow bash ls?"}, passed); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestAwaitGone: a socket that goes away says nothing about how the run ended; its journal does, or it was killed.
func TestAwaitGone(t *testing.T) {
	for _, ended := range []bool{true, false} {
		p := newPlay(t, "r1")
		s, err := Listen(folder(t)+"/s", ServerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.Add(p)
		there := make(chan struct{})
		done := await(t, s, UntilDone, func(Moment) { close(there) })
		answers := p.ask(within(t), "q1")
		<-there
		_ = p.gate.Answer("q1", gate.Answer{})
		allowed(t, answers, false)
		want := "END killed r1 its process is gone"
		if ended {
			p.end(event.RunDone{Outcome: event.Done})
			want = "TURN-DONE r1"
		}
		if err := s.Close(within(t)); err != nil {
			t.Error(err)
		}
		if got := <-done; got.err != nil || got.Plain() != want {
			t.Errorf("%+v", got)
		}
	}
}

func TestAwaitParked(t *testing.T) {
	p := newPlay(t, "r1")
	p.info.Parks = true
	s := serve(t, ServerOptions{}, p)
	done := await(t, s, UntilAttention, nil)
	p.emit(event.TurnEnded{Number: 1, Finish: event.FinishStop})
	p.emit(event.ReplyDone{Prompt: "p1", Stop: "end_turn"})
	if got := <-done; got.err != nil || got.Plain() != "TURN-DONE r1" {
		t.Errorf("%+v", got)
	}
	if st := must(connect(t, s, nil).Status(within(t), "")); st.State != "idle" || st.TurnState != "idle" {
		t.Errorf("%+v", st)
	}
}

func TestAwaitGivesUp(t *testing.T) {
	s := serve(t, ServerOptions{}, newPlay(t, "r1"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Await(ctx, s.Path(), "", UntilDone, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Await(within(t), s.Path(), "", "never", nil); err == nil {
		t.Error("somebody waits until never")
	}
	if _, err := Await(within(t), s.Path()+"x", "", UntilDone, nil); !errors.Is(err, ErrNobody) {
		t.Error(err)
	}
	if _, err := Await(within(t), s.Path(), "r2", UntilDone, nil); err == nil {
		t.Error("there is no such run")
	}
}
