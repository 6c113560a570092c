package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/control"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/journal"
)

// A steered run has a journal, a timeline and a gate, and no agent.
type steered struct {
	info control.Info
	src  *event.Source
	gate *gate.Gate

	mu   sync.Mutex
	sent []string
}

func (s *steered) Info() control.Info { return s.info }

func (s *steered) note(format string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, fmt.Sprintf(format, args...))
	return nil
}

func (s *steered) Send(c event.Command) error { return s.note("%+v", c) }
func (s *steered) Interrupt(m event.Message, keep bool) error {
	return s.note("interrupt %s %t", m.Text, keep)
}
func (s *steered) Answer(request string, a gate.Answer) error { return s.gate.Answer(request, a) }
func (s *steered) Emit(c event.Custom) error                  { return s.emit(c) }
func (s *steered) Cancel(string) error                        { return s.end(event.RunCancelled{Outcome: event.Cancelled}) }
func (s *steered) emit(b event.Body) error                    { _, err := s.src.Emit(event.Event{Body: b}); return err }
func (s *steered) end(b event.Body) error {
	_ = s.emit(event.ReplyDone{Stop: "end_turn"})
	return s.emit(b)
}

// steer serves a run in the folder where runs are looked for.
func steer(t *testing.T, id, label string) *steered {
	t.Helper()
	path := filepath.Join(t.TempDir(), id+".ndjson")
	w, err := journal.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &steered{info: control.Info{ID: id, Label: label, Journal: path, Started: time.Now()}, gate: gate.New(gate.Policy{}, gate.Inbox{})}
	s.src = event.NewSource("ses-"+id, 0, w, nil, time.Now)
	_ = s.emit(event.RunStarted{Format: event.Format, Label: label})
	_ = s.emit(event.Prompt{Text: "do it"})
	_ = s.emit(event.Text{Text: "It is done."})
	sockets, err := runSockets()
	if err != nil {
		t.Fatal(err)
	}
	server, err := sockets.Listen(id, control.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server.Add(s)
	t.Cleanup(func() {
		server.Close(context.Background())
		w.Close()
	})
	return s
}

// typed runs a command line.
func typed(in string, args ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	code = Run(context.Background(), args, IO{In: strings.NewReader(in), Out: &o, Err: &e})
	return o.String(), e.String(), code
}

func TestControlCommands(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if _, errs, code := typed("", "control", "status"); code != 1 || !strings.Contains(errs, "no run with a control socket") {
		t.Errorf("%d %s", code, errs)
	}
	if _, errs, code := typed("", "await", "nightly"); code != 2 || !strings.Contains(errs, `no run "nightly"`) {
		t.Errorf("%d %s", code, errs)
	}
	one := steer(t, "r1", "nightly")
	check := func(want string, args ...string) {
		t.Helper()
		if out, errs, code := typed("", args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%v: %d %s%s", args, code, out, errs)
		}
	}
	check(`"run_label":"nightly"`, "control", "status")
	check(`"run_label":"nightly"`, "control", "--run", "nightly", "status")
	check(`"runtime_id":"r1"`, "as", "avenor", "control", "--socket", must(runSockets()).Path("r1"), "status", "r1")
	check(`"final_output":"It is done."`, "control", "result", "nightly")
	check(`"accepted":true`, "control", "prompt", "more", "r1")
	check(`"accepted":true`, "control", "interrupt-and-prompt", "--keep-queue", "now", "r1")
	check("", "emit", `{"event":"my.event","n":1}`)
	if _, errs, code := typed("{\"event\":\"second\"}\n\n{\"event\":\"third\"}\n", "emit", "--run", "nightly"); code != 0 {
		t.Error(errs)
	}
	if _, errs, code := typed("", "emit", "{}"); code != 1 || !strings.Contains(errs, "has a name") {
		t.Errorf("%d %s", code, errs)
	}
	if got := strings.Join(one.sent, "; "); got != "{ID: Text:more Files:[] Source:}; interrupt now true" {
		t.Error(got)
	}
	data, err := os.ReadFile(one.info.Journal)
	for _, name := range []string{"my.event", "second", "third"} {
		if err != nil || !strings.Contains(string(data), `"kind":"custom","body":{"name":"`+name+`"`) {
			t.Errorf("%s is not in the journal: %s %v", name, data, err)
		}
	}
	two := steer(t, "r2", "nightly")
	if _, errs, code := typed("", "control", "cancel"); code != 1 || !strings.Contains(errs, "2 runs are going on") {
		t.Errorf("%d %s", code, errs)
	}
	if out, errs, code := typed("", "control", "status", "nightly"); code != 0 || !strings.Contains(out, `"runtime_id":"r2"`) || !strings.Contains(errs, "another run has that name: r1") {
		t.Errorf("the newest is meant: %d %s %s", code, out, errs)
	}
	q := two.gate.Ask(event.GateAsked{Request: "q1", Tool: "bash"}, []gate.Access{{Permission: "bash", Target: "ls", Class: event.ClassExec}}, "")
	_ = two.emit(q.Asked())
	if out, _, code := typed("", "await", "--until", "attention", "r2"); code != 20 || out != "ATTENTION permission r2 allow bash ls?\n" {
		t.Errorf("%d %s", code, out)
	}
	if out, _, code := typed("", "await", "--until", "attention", "--format", "json", "r2"); code != 20 || out != `{"event":"attention","kind":"permission","runtime_id":"r2","request_id":"q1","summary":"allow bash ls?"}`+"\n" {
		t.Errorf("%d %s", code, out)
	}
	if _, errs, code := typed("", "await", "--timeout", "10ms", "r1"); code != 124 {
		t.Errorf("%d %s", code, errs)
	}
	if _, errs, code := typed("", "control", "answer-permission", "q1", "maybe", "r2"); code != 1 || !strings.Contains(errs, "it has allow_once") {
		t.Errorf("%d %s", code, errs)
	}
	check(`"accepted":true`, "control", "answer-permission", "q1", "allow_once", "r2", "--message", "go")
	if a, err := q.Wait(context.Background()); err != nil || !a.Allow || a.Reason != "go" || a.By != event.ByControl {
		t.Errorf("%+v %v", a, err)
	}
	_ = two.end(event.RunDone{Outcome: event.Done})
	if out, _, code := typed("", "await", "--print-output", "r2"); code != 0 || out != "TURN-DONE r2\nIt is done.\n" {
		t.Errorf("%d %s", code, out)
	}
	check(`"accepted":true`, "control", "cancel", "r1")
	if out, _, code := typed("", "await", "r1"); code != 12 || !strings.HasPrefix(out, "END killed r1") {
		t.Errorf("%d %s", code, out)
	}
	for _, args := range [][]string{{"await", "--until", "never", "r1"}, {"await", "--format", "xml", "r1"}, {"await", "--socket", "/nobody", "r1"}} {
		if _, _, code := typed("", args...); code != 2 {
			t.Errorf("%v: %d", args, code)
		}
	}
}

// TestAnswerCommand: flags before and after the base, and the exit codes of the facts.
func TestAnswerCommand(t *testing.T) {
	f := &control.Files{Base: filepath.Join(t.TempDir(), "run.perm")}
	f.Opened(event.GateAsked{Request: "q1", Options: gate.Options()})
	response := f.Base + ".req.response"
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{f.Base, "--option", "allow_once"}, 0},
		{[]string{f.Base, "--option", "reject_once"}, 2}, // answered
		{[]string{"--option", "reject_once", "--force", f.Base}, 0},
		{[]string{f.Base, "--option", "allow_once", "--request", "q1"}, 0},
		{[]string{f.Base, "--outcome", "cancelled", "--force"}, 0},
		{[]string{f.Base}, 2},
		{[]string{"--option", "allow_once"}, 2},
		{[]string{f.Base, "--option", "maybe"}, 2},
		{[]string{f.Base, "more", "--option", "allow_once"}, 2},
		{[]string{f.Base, "--optoin", "allow_once"}, 2},
		{[]string{f.Base + "x", "--option", "allow_once"}, 2},
	} {
		for _, prefix := range [][]string{{"answer"}, {"as", "avenor", "answer"}} {
			os.Remove(f.Base + ".q1.req.response")
			if c.code == 0 && c.args[len(c.args)-1] != "--force" && c.args[2] != "--force" {
				os.Remove(response)
			}
			if _, errs, code := typed("", append(prefix, c.args...)...); code != c.code || (code == 0) != (errs == "") {
				t.Errorf("%v: %d %s", append(prefix, c.args...), code, errs)
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestDeniedWithoutAWord: whoever says no over a socket need not say why, and then the run's end says that much.
func TestDeniedWithoutAWord(t *testing.T) {
	for n, want := range map[int]string{1: "one of its calls was denied: the answer was no", 2: "2 of its calls were denied, the first one: the answer was no"} {
		if v := new(runner).denied(outcome.Verdict{Outcome: event.Done, Denials: n}); v.Outcome != event.Denied || v.Reason != want {
			t.Errorf("%d: %+v", n, v)
		}
	}
}
