package loop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// bodies is an act that says what it is given.
func bodies(list ...event.Body) act {
	return func(_ context.Context, say func(event.Body)) outcome.Verdict {
		for _, b := range list {
			say(b)
		}
		return outcome.Verdict{Outcome: event.Done, Stop: "end_turn"}
	}
}

// What counts as said.
func TestWhatDirects(t *testing.T) {
	child := func(e event.Body) act {
		return func(_ context.Context, say func(event.Body)) outcome.Verdict {
			say(event.TurnStarted{})
			say(e)
			say(event.TurnEnded{})
			return outcome.Verdict{Outcome: event.Done, Stop: "end_turn"}
		}
	}
	delta := func(id, s string) event.Body { return event.TextDelta{ID: id, Text: s} }
	for name, tt := range map[string]struct {
		act  act
		exit bool
		last string
	}{
		"a text":                       {says("ok\n[exit]"), true, "ok\n[exit]"},
		"the text before the last one": {says("[exit]", "bye"), true, "bye"},
		"a thought":                    {bodies(event.ThoughtDelta{Text: "[exit]\n"}, event.Thought{Text: "[exit]\n"}, event.Text{Text: "hm"}), false, "hm"},
		"after a thought":              {bodies(event.ThoughtDelta{Text: "I think"}, event.Thought{Text: "I think"}, delta("b", "[exit]"), event.Text{ID: "b", Text: "[exit]"}), true, "[exit]"},
		"only deltas":                  {bodies(delta("b", "[ex"), delta("b", "it]")), true, "[exit]"},
		"deltas of two blocks":         {bodies(delta("b", "[ex"), delta("c", "it]")), false, "it]"},
		"deltas around a call":         {bodies(delta("b", "[exit]"), event.ToolCalled{Name: "x"}, event.ToolDone{}, delta("b", "more")), true, "more"},
		"half a line":                  {bodies(delta("b", "[exit]"), delta("b", " or not")), false, "[exit] or not"},
		"a block that was cut":         {bodies(delta("b", "[exit]"), event.Text{ID: "b", Text: "[exit]", Partial: true}, event.Text{Text: "hm"}), false, "hm"},
		"before a retry":               {bodies(event.TurnStarted{}, event.Text{Text: "[exit]"}, event.Retry{}, event.Text{Text: "hm"}, event.TurnEnded{}), false, "hm"},
		"a retry in a later turn":      {bodies(event.TurnStarted{}, event.Text{Text: "[exit]"}, event.TurnEnded{}, event.TurnStarted{}, event.Retry{}, event.Text{Text: "hm"}, event.TurnEnded{}), true, "hm"},
		"an error, a status":           {child(event.Status{Label: "[exit]"}), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stage{t: t, acts: []act{tt.act, says("[exit]")}}
			r := s.run(t.Context(), "max_iterations: 2\nloop: [{name: a, prompt: 'was: {{.LastOutput}}'}]\n")
			if got := r.Iterations == 1; got != tt.exit || r.Reason != Exit {
				t.Errorf("%+v", r)
			}
			if len(s.prompts) > 1 && s.prompts[1] != "was: "+tt.last {
				t.Errorf("%q", s.prompts[1])
			}
		})
	}
}

// A sub-agent says exit to its parent and not to the loop.
func TestSubAgentsDirectNobody(t *testing.T) {
	h := newEar()
	h.hear(event.Event{Header: event.Header{Agent: "task-1"}, Body: event.Text{Text: "[exit]"}})
	h.answered(event.Event{Header: event.Header{Agent: "task-1"}, Body: event.ReplyDone{}})
	h.hear(event.Event{Body: event.TurnEnded{}})
	if w, n, _ := h.heard(); w != (words{}) || n != 0 {
		t.Error(w, n)
	}
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, acts: slices.Repeat([]act{fails(overloaded)}, 8), retries: 7}
		r := s.run(t.Context(), simple)
		var want []time.Duration
		sum := time.Duration(0)
		for _, sec := range []time.Duration{0, 2, 4, 8, 16, 30, 30, 30} {
			sum += sec * time.Second
			want = append(want, sum)
		}
		if diff := cmp.Diff(want, s.at); diff != "" {
			t.Error(diff)
		}
		// All attempts were paid for, and the session is one.
		if *r.Verdict.Usage.Input != 80 {
			t.Error(*r.Verdict.Usage.Input)
		}
		for i, j := range s.jobs {
			if j.Session != "s1" || j.Attempt != i || j.Resumes {
				t.Errorf("%+v", j)
			}
		}
		s.clean(r.Verdict)
	})
}

// Phases that resume go on with the session of the one before, in their own list, and with what came of it.
func TestResume(t *testing.T) { synctest.Test(t, resume) }

func resume(t *testing.T) {
	s := &stage{t: t, retries: 1, acts: []act{says("p"), says("a"), breaks("lost", overloaded), says("b"), says("c"), says("a"), says("b"), says("[exit]")}}
	r := s.run(t.Context(), `
pre: [{name: p, prompt: x}]
loop:
  - {name: a, prompt: x, resume_from_previous: true}
  - {name: b, prompt: x, resume_from_previous: true}
  - {name: c, prompt: x, resume_from_previous: true}
`)
	if r.Reason != Exit {
		t.Fatal(r)
	}
	var got []string
	for _, j := range s.jobs {
		line := j.Phase.Name + " " + j.Session
		if j.Resumes {
			var said []string
			for _, e := range s.list {
				if j.Remembers(e.Header) {
					if b, ok := e.Body.(event.Text); ok {
						said = append(said, b.Text)
					}
					if _, failed := e.Body.(event.ReplyFailed); failed {
						said = append(said, "a failure")
					}
				}
			}
			line += " knows " + strings.Join(said, ", ")
		}
		got = append(got, line)
	}
	want := []string{
		"p s1", "a s2", "b s2 knows a", "b s2 knows a", "c s2 knows a, b",
		"a s3", "b s3 knows a", "c s3 knows a, b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.clean(r.Verdict)
}

func TestRequiredFiles(t *testing.T) {
	write := func(dir, name, text string) act {
		return func(ctx context.Context, say func(event.Body)) outcome.Verdict {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				return outcome.Failed("error", err.Error())
			}
			return says("written")(ctx, say)
		}
	}
	const config = "pre: [{name: p, prompt: write, requires: {files: [a], non_empty_files: [b]}%s}]\n"
	for name, tt := range map[string]struct {
		more    string
		acts    func(dir string) []act
		prompts []string
		stop    string
	}{
		"all there": {acts: func(dir string) []act {
			return []act{func(ctx context.Context, say func(event.Body)) outcome.Verdict {
				write(dir, "a", "")(ctx, func(event.Body) {})
				return write(dir, "b", "x")(ctx, say)
			}}
		}, prompts: []string{"write"}, stop: "end_turn"},
		"nudged": {more: ", on_incomplete: {max_nudges: 3}", acts: func(dir string) []act {
			return []act{write(dir, "b", ""), write(dir, "a", ""), write(dir, "b", "x")}
		}, prompts: []string{
			"write",
			"These files are still missing or empty: a, b. Write them, then say that you are done.",
			"These files are still missing or empty: b. Write them, then say that you are done.",
		}, stop: "end_turn"},
		"in vain": {more: ", on_incomplete: {nudge: Now!}", acts: func(string) []act { return []act{says("done"), says("done!")} }, prompts: []string{"write", "Now!"}, stop: "incomplete_output"},
		"never":   {more: ", on_incomplete: {max_nudges: 0}", acts: func(string) []act { return []act{says("done")} }, prompts: []string{"write"}, stop: "incomplete_output"},
		"aborted": {acts: func(string) []act { return []act{says("[abort]")} }, prompts: []string{"write"}, stop: "end_turn"},
		"failed":  {acts: func(string) []act { return []act{fails(outcome.Failed("refusal", "no"))} }, prompts: []string{"write"}, stop: "refusal"},
		"folders": {more: ", on_incomplete: {max_nudges: 0}", acts: func(dir string) []act {
			return []act{func(ctx context.Context, say func(event.Body)) outcome.Verdict {
				os.Mkdir(filepath.Join(dir, "a"), 0o777)
				os.Symlink("/etc/passwd", filepath.Join(dir, "b"))
				return says("done")(ctx, say)
			}}
		}, prompts: []string{"write"}, stop: "incomplete_output"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := &stage{t: t, acts: tt.acts(dir), dir: dir}
			r := s.run(t.Context(), strings.Replace(config, "%s", tt.more, 1))
			if diff := cmp.Diff(tt.prompts, s.prompts); diff != "" {
				t.Error(diff)
			}
			stop := ""
			for _, e := range s.list {
				if b, ok := e.Body.(event.PhaseEnded); ok {
					stop = b.Stop
				}
			}
			if stop != tt.stop {
				t.Errorf("%q %+v", stop, r)
			}
			if tt.stop == "incomplete_output" && (r.Reason != PhaseFailure || !strings.Contains(r.Verdict.Reason, "it did not write a, b")) {
				t.Errorf("%+v", r)
			}
			s.clean(r.Verdict)
		})
	}
}

// What comes from outside reaches the phase that is running; it is over when every message is answered.
func TestInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inbox := make(chan []event.Command)
		slow := func(ctx context.Context, say func(event.Body)) outcome.Verdict {
			time.Sleep(time.Minute)
			return says("first")(ctx, say)
		}
		s := &stage{t: t, inbox: inbox, acts: []act{slow, says("second"), says("[exit]")}}
		go func() {
			time.Sleep(time.Second)
			inbox <- []event.Command{event.Message{Text: "and this"}}
			close(inbox)
		}()
		r := s.run(t.Context(), simple)
		if diff := cmp.Diff([]string{"x", "and this", "x"}, s.prompts); diff != "" || r.Iterations != 2 {
			t.Error(r, diff)
		}
		s.clean(r.Verdict)
	})
}

// What comes while a phase waits to be tried again is for that attempt.
func TestInboxBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inbox := make(chan []event.Command)
		s := &stage{t: t, inbox: inbox, acts: []act{fails(overloaded), says("second"), says("[exit]")}, retries: 1}
		go func() {
			time.Sleep(time.Second) // of two
			inbox <- []event.Command{event.Message{Text: "and this"}}
			close(inbox)
		}()
		r := s.run(t.Context(), simple)
		if diff := cmp.Diff([]string{"x", "x", "and this"}, s.prompts); diff != "" || r.Reason != Exit || r.Iterations != 1 {
			t.Error(r, diff)
		}
		s.clean(r.Verdict)
	})
}

// Prompts are told what the phase before did: commits, changes and new files.
func TestGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	write("old", "1\n2\n")
	write("kept", "x\n")
	git("add", "-A")
	git("commit", "-q", "-m", "first")
	first := git("rev-parse", "HEAD")
	second := ""
	s := &stage{t: t, dir: dir, acts: []act{
		func(ctx context.Context, say func(event.Body)) outcome.Verdict {
			write("old", "1\n3\n4\n")
			git("commit", "-q", "-a", "-m", "second")
			second = git("rev-parse", "HEAD")
			write("new", "n\n")
			return says("coded")(ctx, say)
		},
		says("reviewed"), says("[exit]"),
	}}
	const prompt = "prompt: '{{.PrevPhaseCommit}}|{{.DiffStat}}|{{range .ChangedFiles}}{{.}} {{end}}'"
	s.run(t.Context(), "loop:\n  - {name: a, "+prompt+"}\n  - {name: b, "+prompt+"}\n  - {name: c, "+prompt+"}\n")
	want := []string{
		first + "||",
		first + "| old\n new (new)\n 2 files changed, 3 insertions(+), 1 deletion(-)|old new ",
		second + "||",
	}
	if diff := cmp.Diff(want, s.prompts); diff != "" {
		t.Error(diff)
	}
}

// A thousand phases leave nothing behind but their events.
func TestManyPhases(t *testing.T) {
	s := &stage{t: t, acts: append(slices.Repeat([]act{says("no")}, 1999), says("[exit]"))}
	r := s.run(t.Context(), "max_iterations: 1000\nloop: [{name: a, prompt: x}, {name: b, prompt: x}]\n")
	if r.Reason != Exit || r.Iterations != 1000 || *r.Verdict.Usage.Input != 20_000 {
		t.Errorf("%+v", r)
	}
	for i, e := range s.list {
		if e.Seq != uint64(i+1) {
			t.Fatalf("event %d has the number %d", i+1, e.Seq)
		}
	}
}
