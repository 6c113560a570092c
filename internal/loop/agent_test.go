package loop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/agent"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/tool"
)

// troupe runs our own agent over the scripted model, all sessions into one journal.
type troupe struct {
	stage
	src    *event.Source
	common *agent.Common
	config agent.Config
}

func newTroupe(t *testing.T, script string) *troupe {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "script.yaml")
	if err := os.WriteFile(file, []byte(script), 0o666); err != nil {
		t.Fatal(err)
	}
	tr := &troupe{stage: stage{t: t, dir: t.TempDir()}}
	tr.src = event.NewSource("run", 0, &tr.stage, nil, time.Now)
	tr.src.Emit(event.Event{Body: event.RunStarted{Format: event.Format, Backend: "sluice"}})
	tr.common = agent.NewCommon(tr.src.Last())
	var n atomic.Int32
	tr.config = agent.Config{
		Open: func(context.Context) (provider.Model, error) {
			return provider.Open(provider.Options{Model: "script/" + file})
		},
		Provider: "script", Model: "scripted", Common: tr.common, Depth: 1, Now: time.Now,
		Tools: tool.Builtin(tool.Options{Workspace: tr.dir, Spill: t.TempDir()}).Tools(),
		Gate:  gate.New(gate.Policy{Mode: gate.ModeYolo}), NewSession: func() string { return fmt.Sprint("child", n.Add(1)) },
	}
	return tr
}

func (tr *troupe) open(_ context.Context, job Job) (Worker, error) {
	cfg := tr.config
	cfg.Session = job.Session
	s := agent.New(cfg, tr.src)
	tr.src.Emit(event.Event{Header: event.Header{Session: job.Session}, Body: event.SessionStarted{Backend: "sluice", Resumed: job.Resumes}})
	if job.Resumes {
		tr.mu.Lock()
		past := slices.Clone(tr.list)
		tr.mu.Unlock()
		for _, e := range past {
			if job.Remembers(e.Header) {
				s.Recall(e)
			}
		}
	}
	return s, nil
}

func TestLoopOfAgents(t *testing.T) {
	tr := newTroupe(t, `
chunk: 3
conversations:
  - when: {prompt: ^Plan}
    steps:
      - text: "The plan: write a file.\n[exit]"
  - when: {prompt: ^Review}
    steps:
      - thinking: "[exit | a thought]\n"
        call: {tool: read, input: {file_path: out.txt}}
      - text: "It says [exit] somewhere."
      - text: "Fixed.\n\n<|workflow: exit | all | green|>\n"
steps:
  - call: {tool: write, input: {file_path: out.txt, content: "hello\n"}}
  - text: "Written.\n"
`)
	cfg := Config{
		MaxIterations: 4,
		Pre:           []Phase{{Name: "plan", Prompt: "Plan it."}},
		Loop: []Phase{
			{Name: "code", Prompt: "Code: {{.LastOutput}}", Requires: Requires{NonEmpty: []string{"out.txt"}}},
			{Name: "review", Prompt: "Review round {{.Iteration}}"},
			{Name: "fix", Prompt: "Fix what was found.", Resume: true},
		},
	}
	sessions := 0
	r := Run(t.Context(), cfg, Options{Source: tr.src, Dir: tr.dir, Open: tr.open, Session: func() string { sessions++; return fmt.Sprint("s", sessions) }})
	if r.Reason != Exit || r.Label != "all | green" || r.Iterations != 1 || r.Verdict.Outcome != event.Done {
		t.Errorf("%+v", r)
	}
	calls, said := map[string]int{}, []string{}
	for _, e := range tr.list {
		switch b := e.Body.(type) {
		case event.ToolCalled:
			calls[e.Call]++
		case event.Text:
			said = append(said, e.Session+" "+strings.TrimSpace(b.Text))
		}
	}
	want := []string{"s1 The plan: write a file.\n[exit]", "s2 Written.", "s3 It says [exit] somewhere.", "s3 Fixed.\n\n<|workflow: exit | all | green|>"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	for id, n := range calls {
		if n != 1 {
			t.Errorf("%s was called %d times", id, n)
		}
	}
	tr.clean(r.Verdict)
}

// The same script says the same ids in every phase, and a resumed session knows the calls of the one before.
func TestAgentsResume(t *testing.T) {
	tr := newTroupe(t, `
steps:
  - call: {id: c1, tool: write, input: {file_path: a, content: x}}
  - text: one
  - call: {id: c1, tool: write, input: {file_path: b, content: x}}
  - text: "two\n[exit]"
`)
	n := 0
	r := Run(t.Context(), Config{Loop: []Phase{{Name: "a", Prompt: "x"}, {Name: "b", Prompt: "y", Resume: true}}}, Options{
		Source: tr.src, Dir: tr.dir, Open: tr.open, Session: func() string { n++; return fmt.Sprint("s", n) },
	})
	if r.Reason != Exit || r.Iterations != 1 {
		t.Errorf("%+v", r)
	}
	var ids, turns []string
	for _, e := range tr.list {
		switch b := e.Body.(type) {
		case event.ToolCalled:
			ids = append(ids, e.Session+" "+e.Call)
		case event.TurnStarted:
			turns = append(turns, fmt.Sprint(b.Number))
		}
	}
	if diff := cmp.Diff([]string{"s1 c1", "s1 c1-2"}, ids); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "4"}, turns); diff != "" {
		t.Error(diff)
	}
	tr.clean(r.Verdict)
}

// No stream that was ever recorded goes nowhere.
func TestRecordedStreamsAreNotDegenerate(t *testing.T) {
	files, _ := filepath.Glob("../../dialect/testdata/*/recorded/*.ndjson")
	if len(files) < 20 {
		t.Fatal("where are the recorded streams?")
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		d, err := dialect.Lookup(filepath.Base(filepath.Dir(filepath.Dir(f))))
		if err != nil {
			continue
		}
		var found fold.Detector
		hear := func(e event.Event) { found.Apply(e.Stamp()) }
		s := dialect.NewStream(d, dialect.StreamOptions{})
		for line := range strings.Lines(string(data)) {
			s.Line([]byte(strings.TrimSuffix(line, "\n")), false, hear)
		}
		s.Close(hear)
		if found.Found != nil {
			t.Errorf("%s: %s", f, found.Found.Message)
		}
	}
}
