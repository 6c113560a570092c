package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/outcome"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An act is what a fake worker does with a message.
type act func(ctx context.Context, say func(event.Body)) outcome.Verdict

// says answers with texts.
func says(texts ...string) act {
	return func(_ context.Context, say func(event.Body)) outcome.Verdict {
		say(event.TurnStarted{Number: 1})
		for i, text := range texts {
			id := fmt.Sprint("b", i)
			for _, r := range text { // letter by letter
				say(event.TextDelta{ID: id, Text: string(r)})
			}
			say(event.Text{ID: id, Text: text})
		}
		say(event.TurnEnded{Finish: event.FinishStop})
		return outcome.Verdict{Outcome: event.Done, Stop: "end_turn"}
	}
}

// fails does not answer.
func fails(v outcome.Verdict) act {
	return func(context.Context, func(event.Body)) outcome.Verdict { return v }
}

// breaks says something first.
func breaks(text string, v outcome.Verdict) act {
	return func(ctx context.Context, say func(event.Body)) outcome.Verdict {
		says(text)(ctx, say)
		return v
	}
}

// hangs until somebody has enough.
func hangs(ctx context.Context, _ func(event.Body)) outcome.Verdict {
	<-ctx.Done()
	return outcome.Ended(ctx)
}

var overloaded = outcome.Verdict{Outcome: event.Unavailable, Stop: "error", Reason: "overloaded", Code: "529"}

// A stage plays acts, one for each message, whichever phase it is in.
type stage struct {
	t       *testing.T
	acts    []act
	openErr []error
	dir     string
	inbox   chan []event.Command
	retries int
	prompts []string
	jobs    []Job
	began   time.Time

	mu   sync.Mutex
	list []event.Event
	at   []time.Duration // of the jobs
}

func (s *stage) Put(e event.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, e)
	return nil
}

// A player is a worker of a stage.
type player struct {
	*stage
	src *event.Source
	job Job
}

func (p player) Serve(ctx context.Context, inbox <-chan event.Command) (last outcome.Verdict) {
	for c := range inbox {
		m, ok := c.(event.Message)
		if !ok {
			continue
		}
		say := func(b event.Body) {
			p.src.Emit(event.Event{Header: event.Header{Session: p.job.Session}, Body: b})
		}
		id := fmt.Sprint("m", len(p.prompts))
		p.prompts = append(p.prompts, m.Text)
		p.stage.prompts = p.prompts
		say(event.Prompt{ID: id, Text: m.Text, Source: m.Source})
		last = p.acts[0](ctx, say)
		p.stage.acts = p.acts[1:]
		end := event.ReplyEnd{Prompt: id, Stop: last.Stop, Usage: event.Usage{Input: new(int64(10))}}
		switch last.Outcome {
		case event.Done:
			say(event.ReplyDone(end))
		case event.Cancelled:
			say(event.ReplyCancelled(end))
		default:
			say(last.Problem(id, "one"))
			say(event.ReplyFailed(end))
		}
		if ctx.Err() != nil {
			return last
		}
	}
	return last
}

// A holder is a filter that keeps the end of a failed reply back until it is known what follows, as one may.
type holder struct{ kept []event.Event }

func (h *holder) Put(e event.Event, emit func(event.Event)) {
	h.Close(emit)
	if _, failed := e.Body.(event.ReplyFailed); failed {
		h.kept = append(h.kept, e)
		return
	}
	emit(e)
}

func (h *holder) Close(emit func(event.Event)) {
	for _, e := range h.kept {
		emit(e)
	}
	h.kept = nil
}

// run runs a configuration in YAML.
func (s *stage) run(ctx context.Context, config string) Result {
	s.t.Helper()
	s.began = time.Now()
	path := filepath.Join(s.t.TempDir(), "loop.yaml")
	if err := os.WriteFile(path, []byte(config), 0o666); err != nil {
		s.t.Fatal(err)
	}
	cfg, err := Load(path)
	if err != nil {
		s.t.Fatal(err)
	}
	src := event.NewSource("run", 0, s, nil, time.Now)
	src.Through(&holder{})
	src.Emit(event.Event{Body: event.RunStarted{Format: event.Format, Backend: "sluice"}})
	n := 0
	return Run(ctx, cfg, Options{
		Source: src, Dir: s.dir, RunID: "run_1", Retries: s.retries, Inbox: s.inbox,
		Session: func() string { n++; return fmt.Sprint("s", n) },
		Open: func(_ context.Context, job Job) (Worker, error) {
			s.jobs = append(s.jobs, job)
			s.at = append(s.at, time.Since(s.began))
			if len(s.openErr) > 0 {
				err := s.openErr[0]
				s.openErr = s.openErr[1:]
				if err != nil {
					return nil, err
				}
			}
			return player{s, src, job}, nil
		},
	})
}

// told are the events around the sessions, in a few words.
func (s *stage) told() (lines []string) {
	for _, e := range s.list {
		switch b := e.Body.(type) {
		case event.LoopStarted:
			lines = append(lines, fmt.Sprintf("loop %d %d+%d+%d", b.MaxIterations, b.Pre, b.Loop, b.Post))
		case event.PhaseStarted:
			lines = append(lines, fmt.Sprintf("%s %s %d", b.Part, b.Phase, b.Iteration))
		case event.PhaseRetry:
			lines = append(lines, fmt.Sprintf("retry %d/%d", b.Attempt, b.Limit))
		case event.PhaseEnded:
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", b.Phase, b.Stop, b.Marker, b.Label)))
		case event.LoopEnded:
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %d %s", b.Reason, b.Iterations, b.Label)))
		}
	}
	return lines
}

// clean checks that the stream is whole, and can be told by avenor.
func (s *stage) clean(v outcome.Verdict) {
	s.t.Helper()
	var end event.Body = event.RunFailed{Outcome: v.Outcome, Reason: v.Reason}
	switch v.Outcome {
	case event.Done:
		end = event.RunDone{Outcome: v.Outcome}
	case event.Cancelled:
		end = event.RunCancelled{Outcome: v.Outcome}
	}
	whole := append(slices.Clone(s.list), event.Event{Header: event.Header{Seq: uint64(len(s.list) + 1), Session: "run"}, Body: end}.Stamp())
	for _, name := range []string{"native", "avenor"} {
		d, err := dialect.Lookup(name)
		if err != nil {
			s.t.Fatal(err)
		}
		enc := d.NewEncoder(dialect.Options{})
		l := dialect.NewLinter(d, func(p dialect.Diagnostic) {
			if !p.Note {
				s.t.Errorf("%s: %+v", name, p)
			}
		})
		for _, e := range whole {
			for line := range strings.Lines(string(enc.Encode(nil, e))) {
				l.Line([]byte(strings.TrimSuffix(line, "\n")), false)
			}
		}
		l.Close()
	}
}

const simple = "max_iterations: 2\nloop: [{name: a, prompt: x}]\n"

// Every way for a loop to end.
func TestExitReasons(t *testing.T) {
	cancelled := &outcome.Cause{Outcome: event.Cancelled, Reason: "stopped by SIGINT", Code: "130"}
	for name, tt := range map[string]struct {
		config  string
		acts    []act
		openErr []error
		retries int
		stop    error         // after a second
		wall    time.Duration // of everything
		want    []string
		outcome event.Outcome
		reply   string // the verdict's stop
		reason  string // and what its reason has in it
	}{
		"end_turn": {
			config: "pre: [{name: p, prompt: x}]\npost: [{name: q, prompt: x}]\n", acts: []act{says("one"), says("two")},
			want:    []string{"loop 10 1+0+1", "pre p 0", "p: end_turn", "post q 0", "q: end_turn", "end_turn 0"},
			outcome: event.Done, reply: "end_turn",
		},
		"exit": {
			config:  "pre: [{name: p, prompt: x}]\nloop: [{name: a, prompt: x}, {name: b, prompt: x}]\npost: [{name: q, prompt: x}]\n",
			acts:    []act{says("plan"), says("code"), says("not yet"), says("Done.\n<|workflow: exit | tests green|>"), says("tidy")},
			want:    []string{"loop 10 1+2+1", "pre p 0", "p: end_turn", "loop a 1", "a: end_turn", "loop b 1", "b: end_turn", "loop a 2", "a: end_turn exit tests green", "post q 0", "q: end_turn", "exit 1 tests green"},
			outcome: event.Done, reply: "end_turn",
		},
		"exit in the last phase": {
			config: simple, acts: []act{says("go on\n[continue]"), says("[loop: exit]")},
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: end_turn", "loop a 2", "a: end_turn exit", "exit 2"},
			outcome: event.Done, reply: "end_turn",
		},
		"exit before the loop says nothing": {
			config: "pre: [{name: p, prompt: x}]\n" + simple, acts: []act{says("[exit]"), says("[exit]")},
			want:    []string{"loop 2 1+1+0", "pre p 0", "p: end_turn exit", "loop a 1", "a: end_turn exit", "exit 1"},
			outcome: event.Done, reply: "end_turn",
		},
		"abort": {
			config: simple, acts: []act{says("[exit]\n[abort | no network]\n[abort | later]")},
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: end_turn abort no network", "abort 0 no network"},
			outcome: event.Failed, reply: "blocked", reason: "phase a gave up: no network",
		},
		"abort after the loop": {
			config: simple + "post: [{name: q, prompt: x}]\n", acts: []act{says("[exit | fine]"), says("[abort]")},
			want:    []string{"loop 2 0+1+1", "loop a 1", "a: end_turn exit fine", "post q 0", "q: end_turn abort", "abort 1"},
			outcome: event.Failed, reply: "blocked", reason: "phase q gave up",
		},
		"max_iterations": {
			config: simple + "post: [{name: q, prompt: x}]\n", acts: []act{says("no"), says("no"), says("tidy")},
			want:    []string{"loop 2 0+1+1", "loop a 1", "a: end_turn", "loop a 2", "a: end_turn", "post q 0", "q: end_turn", "max_iterations 2"},
			outcome: event.Failed, reply: "max_iterations", reason: "after 2 iterations no phase had said exit",
		},
		"phase_failure": {
			config: simple, acts: []act{says("no"), fails(outcome.Failed("max_tokens", "cut by the output limit"))},
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: end_turn", "loop a 2", "a: max_tokens", "phase_failure 1"},
			outcome: event.Failed, reply: "max_tokens", reason: "phase a: cut by the output limit",
		},
		"cannot be opened": {
			config: simple, openErr: []error{errors.New("there is no agent x")}, retries: 3,
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: error", "phase_failure 0"},
			outcome: event.Misuse, reply: "error", reason: "phase a: there is no agent x",
		},
		"timeout of a phase": {
			config: "pre: [{name: p, prompt: x, timeout: 3s}]\n", acts: []act{hangs}, retries: 3,
			want:    []string{"loop 10 1+0+0", "pre p 0", "p: timeout", "timeout 0"},
			outcome: event.Timeout, reply: "timeout", reason: "phase p took longer than 3s",
		},
		"timeout of everything": {
			config: simple, acts: []act{says("no"), hangs}, wall: time.Minute,
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: end_turn", "loop a 2", "a: timeout", "timeout 1"},
			outcome: event.Timeout, reply: "timeout", reason: "too long",
		},
		"timeout in a pause": {
			config: "pre: [{name: p, prompt: x, timeout: 3s, retries: 5}]\n", acts: []act{fails(overloaded), fails(overloaded)},
			want:    []string{"loop 10 1+0+0", "pre p 0", "retry 1/5", "retry 2/5", "p: timeout", "timeout 0"},
			outcome: event.Timeout, reply: "timeout", reason: "phase p took longer than 3s",
		},
		"cancelled": {
			config: simple, acts: []act{hangs}, stop: cancelled,
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: cancelled", "cancelled 0"},
			outcome: event.Cancelled, reply: "cancelled", reason: "stopped by SIGINT",
		},
		"retried": {
			config: simple, acts: []act{fails(overloaded), fails(overloaded), says("[exit]")}, retries: 2,
			want:    []string{"loop 2 0+1+0", "loop a 1", "retry 1/2", "retry 2/2", "a: end_turn exit", "exit 1"},
			outcome: event.Done, reply: "end_turn",
		},
		"retried in vain": {
			config: "loop: [{name: a, prompt: x, max_retries: 1}]\n", acts: []act{fails(overloaded), fails(overloaded)}, retries: 5,
			want:    []string{"loop 10 0+1+0", "loop a 1", "retry 1/1", "a: error", "phase_failure 0"},
			outcome: event.Unavailable, reply: "error", reason: "phase a: overloaded",
		},
		"a refusal is not retried": {
			config: simple, acts: []act{fails(outcome.Failed("refusal", "the model refused"))}, retries: 5,
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: refusal", "phase_failure 0"},
			outcome: event.Failed, reply: "refusal", reason: "refused",
		},
		"a wrong key is not retried": {
			config: simple, acts: []act{fails(outcome.Verdict{Outcome: event.Failed, Stop: "error", Class: "auth", Code: "401", Reason: "no"})}, retries: 5,
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: error", "phase_failure 0"},
			outcome: event.Failed, reply: "error", reason: "no",
		},
		"what the provider refuses is not retried": {
			config: simple, acts: []act{fails(outcome.Verdict{Outcome: event.Failed, Stop: "error", Class: "invalid", Code: "400", Reason: "no"})}, retries: 5,
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: error", "phase_failure 0"},
			outcome: event.Failed, reply: "error", reason: "no",
		},
		"an agent that broke down is tried again": {
			config: simple, acts: []act{fails(outcome.Failed("error", "it was killed")), says("[exit]")}, retries: 5,
			want:    []string{"loop 2 0+1+0", "loop a 1", "retry 1/5", "a: end_turn exit", "exit 1"},
			outcome: event.Done, reply: "end_turn",
		},
		"abort and a failure": {
			config: simple, acts: []act{breaks("[abort | blocked]", overloaded)}, retries: 5,
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: error abort blocked", "abort 0 blocked"},
			outcome: event.Failed, reply: "blocked", reason: "phase a gave up: blocked",
		},
		"an attempt that was given up directs nobody": {
			config: simple, acts: []act{breaks("[exit | too early]", overloaded), says("no"), says("[exit | now]")}, retries: 1,
			want:    []string{"loop 2 0+1+0", "loop a 1", "retry 1/1", "a: end_turn", "loop a 2", "a: end_turn exit now", "exit 2 now"},
			outcome: event.Done, reply: "end_turn",
		},
		"an answer that goes nowhere": {
			config: simple, retries: 5, acts: []act{func(ctx context.Context, say func(event.Body)) outcome.Verdict {
				say(event.TurnStarted{})
				for ctx.Err() == nil {
					say(event.ThoughtDelta{Text: "b"})
				}
				say(event.Thought{Text: strings.Repeat("b", 256)})
				say(event.TurnEnded{})
				return outcome.Ended(ctx)
			}},
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: degenerate_reasoning_stream", "phase_failure 0"},
			outcome: event.Failed, reply: "degenerate_reasoning_stream", reason: "256 consecutive",
		},
		"a worker's bug": {
			config: simple, acts: []act{func(context.Context, func(event.Body)) outcome.Verdict { panic("oh") }}, retries: 3,
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: error", "phase_failure 0"},
			outcome: event.Internal, reply: "error", reason: "panic: oh",
		},
		"exit and a failure": {
			config: simple, acts: []act{breaks("[exit]", outcome.Failed("max_tokens", "cut"))},
			want:    []string{"loop 2 0+1+0", "loop a 1", "a: max_tokens exit", "phase_failure 0"},
			outcome: event.Failed, reply: "max_tokens", reason: "cut",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.stop != nil {
					time.AfterFunc(time.Second, func() { cancel(tt.stop) })
				}
				if tt.wall > 0 {
					var release func()
					ctx, release = context.WithTimeoutCause(ctx, tt.wall, &outcome.Cause{Outcome: event.Timeout, Reason: "too long"})
					defer release()
				}
				s := &stage{t: t, acts: tt.acts, openErr: tt.openErr, retries: tt.retries}
				r := s.run(ctx, tt.config)
				if diff := cmp.Diff(tt.want, s.told()); diff != "" {
					t.Error(diff)
				}
				v := r.Verdict
				if v.Outcome != tt.outcome || v.Stop != tt.reply || !strings.Contains(v.Reason, tt.reason) || tt.reason == "" && v.Reason != "" {
					t.Errorf("%+v", v)
				}
				if last := s.told(); !strings.HasPrefix(last[len(last)-1], fmt.Sprintf("%s %d", r.Reason, r.Iterations)) {
					t.Errorf("%+v, but told was %s", r, last[len(last)-1])
				}
				if name != "a worker's bug" { // nobody ends its reply
					s.clean(v)
				}
			})
		})
	}
}
