//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/internal/control"
	"github.com/sluice-dev/sluice/internal/rpc"
)

// sleepy does something that takes long, and answers two more prompts.
const sleepy = `steps: [{call: {tool: bash, input: {command: "stray one; sleep 60"}}}, {text: A.}, {text: B.}, {text: C.}]`

// await says the moment a question is open that it is, and how a run ended; its exit codes are right.
func TestAwaitSaysWhatHappens(t *testing.T) {
	t.Parallel()
	s := newSteered(t, fiveCalls).begin()
	if got := s.does(20, "sluice", "await", "--until", "attention", "nightly"); !strings.HasPrefix(got, "ATTENTION permission ") || !strings.Contains(got, "allow bash echo 1?") {
		t.Errorf("it says %q", got)
	}
	s.does(124, "avenor", "await", "--timeout", "50ms", "nightly")
	s.does(2, "sluice", "await", "nobody")
	c, _ := s.client(s.socket)
	patient := s.other("sluice", "await", "--until", "done", "nightly")
	var out strings.Builder
	patient.Stdout = &out
	if err := patient.Start(); err != nil {
		t.Fatal(err)
	}
	for _, id := range s.questions(c, "", 5) {
		s.does(0, "sluice", "control", "--run", "nightly", "answer-permission", id, "allow")
	}
	if err := patient.Wait(); err != nil || !strings.HasSuffix(out.String(), "TURN-DONE "+s.named()+"\n") {
		t.Errorf("whoever waited for the end: %v, %s", err, out.String())
	}
	s.wait()
	s.ended(0, "end_turn")
	s.does(2, "sluice", "await", "nightly") // it is over, and nobody knows it any more
}

// named is the id by which the run's socket knows it.
func (s *steeredRun) named() string {
	s.Helper()
	return s.sessionOf()
}

// A run that fails, takes too long, is cancelled or is killed is told from one that is done.
func TestAwaitTellsEndsApart(t *testing.T) {
	const echo = `{call: {tool: bash, input: {command: "echo 1"}}}`
	stray := func(end func(*steeredRun, *control.Client)) func(*steeredRun, *control.Client, string) {
		return func(s *steeredRun, c *control.Client, q string) {
			_ = c.Answer(s.Context(), control.Answer{RequestID: q, OptionID: "allow"})
			s.awaitStray("one")
			end(s, c)
		}
	}
	allow := stray(func(*steeredRun, *control.Client) {})
	for name, c := range map[string]struct {
		script string
		flags  []string
		end    func(s *steeredRun, c *control.Client, question string)
		exit   int
		says   string
	}{
		"done":      {`steps: [{call: {tool: bash, input: {command: "stray one"}}}, {text: Hm.}]`, nil, allow, 0, "TURN-DONE"},
		"refused":   {`steps: [{call: {tool: bash, input: {command: "stray one"}}}, {text: No., finish: refusal}]`, nil, allow, 10, "END failed"},
		"timeout":   {`steps: [` + echo + `]`, []string{"--timeout", "3s"}, func(*steeredRun, *control.Client, string) {}, 11, "END timeout"},
		"cancelled": {sleepy, nil, stray(func(s *steeredRun, c *control.Client) { _ = c.Cancel(s.Context(), "") }), 12, "END killed"},
		"kill -9":   {sleepy, nil, stray(func(s *steeredRun, _ *control.Client) { s.signal(syscall.SIGKILL) }), 12, "END killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSteered(t, c.script, c.flags...).begin()
			client, _ := s.client(s.socket)
			heard := &listener{first: make(chan struct{})}
			wait := s.other("sluice", "await", "--socket", s.socket)
			wait.Stdout = heard
			if err := wait.Start(); err != nil {
				t.Fatal(err)
			}
			<-heard.first // it says that there is a question, and waits on
			c.end(s, client, s.questions(client, "", 1)[0])
			_ = wait.Wait() // its exit code is what counts
			got := strings.Split(strings.TrimSpace(heard.String()), "\n")
			if code := wait.ProcessState.ExitCode(); code != c.exit || len(got) != 2 || !strings.HasPrefix(got[1], c.says) {
				t.Errorf("exit %d, want %d: %q", code, c.exit, got)
			}
			s.wait()
		})
	}
}

// Somebody's own event passes as it is: fields, their order and numbers of any size, in avenor's dialect and in ours.
func TestEmitPassesUntouched(t *testing.T) {
	for _, format := range []string{"avenor", "native"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			d, err := dialect.Lookup(format)
			if err != nil {
				t.Fatal(err)
			}
			r := newRun(t, d)
			r.serve(`steps: [{call: {tool: bash, input: {command: "echo hi"}}}, {text: Done.}]`)
			socket := shortPath(t)
			r.args = []string{"run", "--format", format, "--model", "anthropic/scripted", "--control-socket", socket, "--on-ask", "forward", "Do it."}
			r.start(nil)
			r.until("the socket", func() bool { return exists(socket) })
			c, _ := r.client(socket)
			q := r.questions(c, "", 1)
			const fields = `"z":1,"a":{"y":[1,2.50,1e3],"x":"<&>\u00e9 é"},"big":123456789012345678901234567890,"none":null`
			r.does(0, "sluice", "emit", "--socket", socket, `{"event":"deploy.done",`+fields+`}`)
			r.does(1, "sluice", "emit", "--socket", socket, `{"no":"name"}`)
			r.does(0, "sluice", "control", "--socket", socket, "answer-permission", q[0], "allow_once")
			r.wait()
			if r.exit != 0 || strings.Count(string(r.out), fields) != 1 || strings.Count(string(r.out), "deploy.done") != 1 {
				t.Errorf("exit %d: %s%s", r.exit, r.out, r.errs.Bytes())
			}
		})
	}
}

// A socket that is left over is replaced. One that a run serves is not: the second run ends before it has asked anybody anything.
func TestSocketIsOneRuns(t *testing.T) {
	t.Parallel()
	s := newSteered(t, sleepy, "--auto-approve").begin()
	s.awaitStray("one")
	if info, err := os.Stat(s.socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	second := newSteered(t, sleepy, "--auto-approve")
	second.args[slices.Index(second.args, "--control-socket")+1] = s.socket
	second.play(1, "error")
	if !strings.Contains(second.errs.String(), "another process serves it") || len(second.only("user.message_chunk")) > 0 {
		t.Errorf("the second run: %s", second.errs.Bytes())
	}
	s.signal(syscall.SIGKILL)
	s.wait()
	if !exists(s.socket) {
		t.Error("who was killed took its socket away")
	}
	third := newSteered(t, greets)
	third.args[slices.Index(third.args, "--control-socket")+1] = s.socket
	third.play(0, "end_turn")
	if exists(s.socket) {
		t.Error("the socket is left behind")
	}
	if left, _ := filepath.Glob(third.path("state/sluice/sockets/*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A prompt is answered after the others. One that interrupts is answered instead of what goes on and what waits.
func TestPromptAndInterrupt(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep ", keep), func(t *testing.T) {
			t.Parallel()
			s := newSteered(t, sleepy, "--auto-approve").begin()
			s.awaitStray("one")
			s.does(0, "sluice", "control", "--socket", s.socket, "prompt", "waits")
			args := []string{"sluice", "control", "--socket", s.socket, "interrupt-and-prompt", "at once"}
			if keep {
				args = append(args, "--keep-queue")
			}
			s.does(0, args...)
			s.wait()
			s.sessionOf()
			var prompts, stops []string
			for _, l := range s.lines {
				switch l["event"] {
				case "user.message_chunk":
					content, _ := l["content"].(map[string]any)
					prompts = append(prompts, fmt.Sprint(content["text"]))
				case "session.end":
					stops = append(stops, fmt.Sprint(l["stop_reason"]))
				}
			}
			want := "[go at once] [cancelled end_turn]"
			if keep {
				want = "[go at once waits] [cancelled end_turn end_turn]"
			}
			if got := fmt.Sprint(prompts, " ", stops); got != want || s.exit != 0 {
				t.Errorf("exit %d, %s, want %s", s.exit, got, want)
			}
			s.checkStrays()
			s.oneTimeline()
		})
	}
}

// A run that parks takes prompts until the time is over, and not later.
func TestParkedRun(t *testing.T) {
	t.Parallel()
	s := newSteered(t, `steps: [{text: A.}, {text: B.}]`, "--park", "400ms").begin()
	c, _ := s.client(s.socket)
	s.until("its end", func() bool { return s.status(c, "").State == "idle" })
	if err := c.Prompt(t.Context(), control.Prompt{Text: "more", RequestID: "mine"}); err != nil {
		t.Fatal(err)
	}
	if st := s.status(c, ""); st.State != "running" && st.FinalOutput != "B." {
		t.Errorf("it was asked, and is %s", st.State)
	}
	s.wait()
	if err := c.Prompt(t.Context(), control.Prompt{Text: "too late"}); err == nil {
		t.Error("a run that is over took a prompt")
	}
	s.sessionOf()
	if n := len(s.only("session.end")); n != 2 || s.exit != 0 {
		t.Errorf("%d ends, exit %d", n, s.exit)
	}
}

// Without an id, cancel and prompt mean the only run; where there are several, or none, they say why nothing is done.
func TestAvenorDefect27NothingIsAcceptedInVain(t *testing.T) {
	t.Parallel()
	s := newStable(t, sleepy)
	c, _ := s.client(s.socket)
	refused := func(what string) {
		t.Helper()
		var e *rpc.Error
		if err := c.Cancel(t.Context(), ""); !errors.As(err, &e) {
			t.Errorf("cancel of %s: %v", what, err)
		}
		if err := c.Prompt(t.Context(), control.Prompt{Text: "x"}); !errors.As(err, &e) {
			t.Errorf("prompt for %s: %v", what, err)
		}
	}
	refused("no run")
	one := s.spawn(c, control.Spawn{AutoApprove: true})
	two := s.spawn(c, control.Spawn{AutoApprove: true})
	refused("two runs")
	if err := c.Cancel(t.Context(), two); err != nil {
		t.Error(err)
	}
	s.until("its end", func() bool { return s.status(c, two).State == "ended" })
	if err := c.Prompt(t.Context(), control.Prompt{RuntimeID: two, Text: "x"}); err == nil {
		t.Error("a run that is over took a prompt")
	}
	if st := s.status(c, one); st.State != "running" {
		t.Errorf("the other one is %s", st.State)
	}
	s.shutdown(c, "graceful")
}

// A loop is steered as any run is: whoever waits waits for all of its phases, each of which may ask; the numbers go on.
func TestLoopIsSteered(t *testing.T) {
	t.Parallel()
	s := newStable(t, `{steps: [{call: {tool: bash, input: {command: "echo 1"}}}, {text: Done.}]}`)
	c, _ := s.client(s.socket)
	s.write("work/loop.yaml", "max_iterations: 1\nloop:\n- {name: one, prompt: do one}\n- {name: two, prompt: do two}\n")
	st, err := c.Spawn(t.Context(), control.Spawn{Config: s.path("work/loop.yaml"), Dir: s.path("work"), Label: "loop"})
	if err != nil {
		t.Fatal(err)
	}
	heard := &listener{first: make(chan struct{})}
	wait := s.other("sluice", "await", "loop")
	wait.Stdout = heard
	if err := wait.Start(); err != nil {
		t.Fatal(err)
	}
	<-heard.first
	var last string
	for n := range 2 {
		var q string
		s.until("word of a question", func() bool { return strings.Count(heard.String(), "ATTENTION") > n }) // who answers sooner leaves nothing to tell
		s.until("a question", func() bool {
			if p := s.status(c, st.RuntimeID).Permission; p != nil && p.RequestID != last {
				q = p.RequestID
			}
			return q != ""
		})
		if err := c.Answer(t.Context(), control.Answer{RuntimeID: st.RuntimeID, RequestID: q, OptionID: "allow"}); err != nil {
			t.Error(err)
		}
		last = q
	}
	_ = wait.Wait() // its exit code is what counts
	if got := heard.String(); wait.ProcessState.ExitCode() != 10 || strings.Count(got, "ATTENTION") != 2 || !strings.Contains(got, "END failed "+st.RuntimeID) {
		t.Errorf("exit %d: %s", wait.ProcessState.ExitCode(), got) // it never came to an exit marker
	}
	s.until("its exit code", func() bool { st = s.status(c, st.RuntimeID); return st.ExitCode != nil })
	if st.State != "ended" || *st.ExitCode != 4 {
		t.Errorf("it is %s, exit %v", st.State, *st.ExitCode)
	}
	s.shutdown(c, "graceful")
}
