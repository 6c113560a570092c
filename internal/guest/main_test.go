package guest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/guest/standin"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/proc"
)

// The tests drive real processes: this very binary, which plays another agent if its environment says so. Which part it plays is
// the first word of the prompt.
const playVar = "GUEST_TEST_PLAY"

var plays = map[string]func(){"claude": standin.Stream, "acp": standin.ACP, "codex": standin.Codex, "pi": standin.Pi, "tui": standin.Terminal, "sidecar": playSidecar}

// playSidecar is the program that claude starts.
func playSidecar() {
	if err := Sidecar(context.Background(), os.Stdin, os.Stdout, "test"); err != nil {
		os.Exit(1)
	}
}

func TestMain(m *testing.M) {
	if play := plays[os.Getenv(playVar)]; play != nil {
		play()
		return
	}
	goleak.VerifyTestMain(m)
}

// A party is a guest under test: its session, its journal and its gate.
type party struct {
	t      *testing.T
	src    *event.Source
	gate   *gate.Gate
	group  *proc.Group
	s      *Session
	inbox  chan event.Command
	done   chan outcome.Verdict
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	events []event.Event
	seen   chan struct{}
}

func (p *party) Put(e event.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	close(p.seen)
	p.seen = make(chan struct{})
	return nil
}

// invite starts a stand-in and serves it. The gate allows what the rules say, and asks the answerers about the rest.
func invite(t *testing.T, cfg Config, rules []event.Rule, who ...gate.Answerer) *party {
	t.Helper()
	p := &party{t: t, group: &proc.Group{}, inbox: make(chan event.Command, 10), done: make(chan outcome.Verdict, 1), seen: make(chan struct{})}
	p.gate = gate.New(gate.Policy{Rules: rules}, who...)
	p.src = event.NewSource("ses_test", 0, p, nil, time.Now)
	backend := map[string]string{"claude-tui": "claude", "claude-channel": "claude-channel"}[cfg.Agent]
	p.src.Emit(event.Event{Body: event.RunStarted{Format: event.Format, Program: "sluice", Cwd: "/w", Backend: backend}})
	if cfg.Workspace == "" {
		cfg.Workspace = t.TempDir()
	}
	cfg.Group, cfg.Gate = p.group, p.gate
	if cfg.Grace == 0 {
		cfg.Grace = 5 * time.Second
	}
	cfg.Env = append(cfg.Env, playVar+"="+role(cfg.Agent))
	cfg.Agent = standIn(t, cfg.Agent)
	t.Cleanup(func() {
		if left := p.group.Close(); len(left) > 0 {
			t.Errorf("it left %q behind", left)
		}
	})
	ctx, cancel := context.WithCancelCause(context.Background())
	p.cancel = cancel
	t.Cleanup(func() { cancel(nil) })
	var err error
	if p.s, err = Open(ctx, cfg, p.src); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.s.Serve(ctx, p.inbox) }()
	return p
}

func role(agent string) string {
	switch agent {
	case "claude", "codex", "pi":
		return agent
	case "claude-tui", "claude-channel":
		return "tui"
	}
	return "acp"
}

// standIn is the name under which this binary can be started as an agent.
func standIn(t *testing.T, agent string) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := "standin"
	if strings.HasPrefix(agent, "claude") {
		name = "claude"
	} else if agent == "codex" || agent == "pi" {
		name = agent
	}
	if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if name != "standin" {
		return agent
	}
	return "acp:" + filepath.Join(dir, name)
}

// say sends messages and closes the inbox.
func (p *party) say(texts ...string) outcome.Verdict {
	p.t.Helper()
	for _, text := range texts {
		p.inbox <- event.Message{Text: text}
	}
	close(p.inbox)
	return p.wait()
}

// wait waits until the session is over, and checks the journal.
func (p *party) wait() outcome.Verdict {
	p.t.Helper()
	select {
	case v := <-p.done:
		p.check()
		return v
	case <-time.After(60 * time.Second):
		p.dump()
		p.t.Fatal("it does not end")
	}
	return outcome.Verdict{}
}

// await waits for an event that f likes.
func (p *party) await(f func(event.Event) bool) event.Event {
	p.t.Helper()
	limit := time.After(60 * time.Second)
	for {
		p.mu.Lock()
		i := slices.IndexFunc(p.events, f)
		seen := p.seen
		var e event.Event
		if i >= 0 {
			e = p.events[i]
		}
		p.mu.Unlock()
		if i >= 0 {
			return e
		}
		select {
		case <-seen:
		case <-limit:
			p.dump()
			p.t.Fatal("it never came")
		}
	}
}

// awaitAll waits until there are n events of a kind.
func (p *party) awaitAll(k event.Kind, n int) {
	p.t.Helper()
	left := n
	seen := map[uint64]bool{}
	p.await(func(e event.Event) bool {
		if e.Kind == k && !seen[e.Seq] {
			seen[e.Seq] = true
			left--
		}
		return left == 0
	})
}

// journal is what is written so far.
func (p *party) journal() []event.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

func kind(k event.Kind) func(event.Event) bool {
	return func(e event.Event) bool { return e.Kind == k }
}

func (p *party) dump() {
	const most = 300
	list := p.journal()
	for _, e := range list[:min(len(list), most)] {
		line := string(event.Append(nil, e))
		p.t.Log(line[:min(len(line), 400)])
	}
}

// check holds the journal to the grammar of events, in every dialect.
func (p *party) check() {
	p.t.Helper()
	p.src.Emit(event.Event{Body: event.RunDone{Outcome: event.Done}})
	for _, d := range dialect.All() {
		var out []byte
		enc := d.NewEncoder(dialect.Options{NoOrigin: d.Name != "native"})
		for _, e := range p.events {
			out = enc.Encode(out, e)
		}
		l := dialect.NewLinter(d, func(x dialect.Diagnostic) {
			if !x.Note {
				p.t.Errorf("%s: line %d: %s: %s", d.Name, x.Line, x.Rule, x.Message)
			}
		})
		for line := range bytes.Lines(out) {
			l.Line(bytes.TrimSuffix(line, []byte("\n")), false)
		}
		l.Close()
	}
	if p.t.Failed() {
		p.dump()
	}
}

// told is the journal in short: kinds, with what is worth knowing, foreign lines and noise left out.
func (p *party) told(kinds ...event.Kind) string {
	var list []string
	for _, e := range p.journal() {
		if len(kinds) > 0 && !slices.Contains(kinds, e.Kind) {
			continue
		}
		word := string(e.Kind)
		switch b := e.Body.(type) {
		case event.Foreign, event.Diag, event.RunStarted, event.RunDone:
			if len(kinds) == 0 {
				continue
			}
		case event.Text:
			word += fmt.Sprintf("(%s)", b.Text)
		case event.Status:
			word += fmt.Sprintf("(%s %s)", b.Phase, b.Source)
		case event.Custom:
			word += fmt.Sprintf("(%s)", b.Name)
		case event.GateDenied:
			word += fmt.Sprintf("(%s)", b.By)
		case event.GateAllowed:
			word += fmt.Sprintf("(%s)", b.By)
		}
		if end, ok := event.AsToolEnd(e.Body); ok && end.Inferred {
			word += "?"
		}
		if end, ok := event.AsReplyEnd(e.Body); ok {
			word += "(" + end.Stop + ")"
			if end.Inferred {
				word += "?"
			}
		}
		list = append(list, word)
	}
	return strings.Join(list, " ")
}

func (p *party) want(what, got, want string) {
	p.t.Helper()
	if got != want {
		p.dump()
		p.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func allow(permission, pattern string) event.Rule {
	return event.Rule{Permission: permission, Pattern: pattern, Action: gate.Allow}
}

func deny(permission, pattern string) event.Rule {
	return event.Rule{Permission: permission, Pattern: pattern, Action: gate.Deny}
}

// nothing of what is read goes without the line that it was read from.
func (p *party) wantOf() {
	p.t.Helper()
	lines := map[uint64]bool{}
	for _, e := range p.events {
		if e.Kind == "foreign" {
			lines[e.Seq] = true
		}
		switch e.Body.(type) {
		case event.Text, event.TextDelta, event.ToolCalled, event.ReplyDone:
			if !event.Inferred(e.Body) && !lines[e.Of] {
				p.t.Errorf("%d %s is of %d, which is no line", e.Seq, e.Kind, e.Of)
			}
		}
	}
}
