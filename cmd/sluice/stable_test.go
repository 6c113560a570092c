//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/internal/control"
	"github.com/sluice-dev/sluice/internal/rpc"
)

// A stableRun is a supervisor, as a process.
type stableRun struct {
	*run
	socket string
}

func newStable(t *testing.T, text string, args ...string) *stableRun {
	t.Helper()
	d, err := dialect.Lookup("avenor")
	if err != nil {
		t.Fatal(err)
	}
	s := &stableRun{run: newRun(t, d), socket: shortPath(t)}
	s.set("SLUICE_MODEL", "anthropic/scripted")
	s.set("SLUICE_RETRIES", "0")
	s.serve(text)
	s.program, s.args = "avenor", append([]string{"stable", "--control-socket", s.socket}, args...)
	s.start(nil)
	s.until("the socket", func() bool { return exists(s.socket) })
	return s
}

// spawn begins a run, and returns its id.
func (s *stableRun) spawn(c *control.Client, p control.Spawn) string {
	s.Helper()
	p.Prompt, p.Dir = "go", s.path("work")
	st, err := c.Spawn(s.Context(), p)
	if err != nil {
		s.Fatal(err)
	}
	return st.RuntimeID
}

// shutdown ends it. Nothing is left.
func (s *stableRun) shutdown(c *control.Client, mode string) {
	s.Helper()
	if err := c.Shutdown(s.Context(), mode); err != nil {
		s.Error(err)
	}
	s.wait()
	s.gone(0, "shutdown")
}

// gone sees to it that the supervisor has ended, said why, and left nothing behind.
func (s *stableRun) gone(exit int, reason string) {
	s.Helper()
	if s.exit != exit {
		s.Errorf("exit %d, want %d: %s", s.exit, exit, s.errs.Bytes())
	}
	dead, err := os.ReadFile(s.socket + ".dead")
	if err != nil || !strings.HasPrefix(string(dead), fmt.Sprintf("STOPPED reason=%s pid=%d at=", reason, s.cmd.Process.Pid)) {
		s.Errorf("the tombstone is %q, %v", dead, err)
	}
	if exists(s.socket) {
		s.Error("the socket is left behind")
	}
	if left, _ := filepath.Glob(s.path("state/sluice/sockets/*")); len(left) > 0 {
		s.Errorf("left behind: %v", left)
	}
	s.checkStrays()
	books, err := filepath.Glob(s.path("state/sluice/sessions/*/journal.ndjson"))
	if err != nil {
		s.Fatal(err)
	}
	for _, book := range books {
		data, err := os.ReadFile(book)
		if n := strings.Count(string(data), `"kind":"run.`); err != nil || n != 2 || !strings.HasSuffix(string(data), "}\n") {
			s.Errorf("%s has %d beginnings and ends: %v", book, n, err)
		}
	}
}

// Twenty runs at a time, and not one more. Each asks; each is answered by its own name, and can be asked again.
func TestStableTwentyRuns(t *testing.T) {
	t.Parallel()
	s := newStable(t, fiveCalls, "--max-runtimes", "20")
	c, _ := s.client(s.socket)
	var ids []string
	for i := range 20 {
		ids = append(ids, s.spawn(c, control.Spawn{Label: fmt.Sprint("run-", i), Timeout: "5m"}))
	}
	var full *rpc.Error
	if _, err := c.Spawn(t.Context(), control.Spawn{Prompt: "one more"}); !errors.As(err, &full) || full.Code != control.CodeCapacity || !strings.Contains(string(full.Data), `"limit":20`) {
		t.Errorf("one too many: %v", err)
	}
	for _, id := range ids {
		for _, q := range s.questions(c, id, 5) {
			if err := c.Answer(t.Context(), control.Answer{RuntimeID: id, RequestID: q, OptionID: "allow"}); err != nil {
				t.Error(err)
			}
		}
	}
	for _, id := range ids {
		s.until(id, func() bool { return s.status(c, id).State == "idle" })
	}
	if err := c.Prompt(t.Context(), control.Prompt{RuntimeID: ids[7], Text: "more"}); err != nil {
		t.Error(err)
	}
	s.does(0, "sluice", "await", "run-7")
	if said, err := c.Result(t.Context(), ids[7]); err != nil || said != "More." {
		t.Errorf("it said %q, %v", said, err)
	}
	st := s.status(c, ids[7])
	for _, file := range []string{st.OnEvent, st.Sentinel} {
		if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder of %s: %v", file, err)
		}
	}
	events, err := os.ReadFile(st.OnEvent)
	if n := strings.Count(string(events), `"event":"session.end"`); err != nil || n != 2 {
		t.Errorf("its file has %d ends, %v", n, err)
	}
	// One that only waits makes room.
	again := s.spawn(c, control.Spawn{AutoApprove: true})
	s.until(again, func() bool { return s.status(c, again).State == "idle" })
	live := 0
	list, err := c.List(t.Context())
	for _, st := range list {
		if st.State != "ended" {
			live++
		}
	}
	if err != nil || len(list) != 21 || live != 20 {
		t.Errorf("%d runs, of which %d go on: %v", len(list), live, err)
	}
	s.shutdown(c, "graceful")
}

// However a supervisor ends, its runs end with it, and what they started.
func TestStableLeavesNothingBehind(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(*stableRun, *control.Client)
		exit   int
		reason string
	}{
		"SIGTERM":  {func(s *stableRun, _ *control.Client) { s.signal(syscall.SIGTERM) }, 143, "signal"},
		"SIGINT":   {func(s *stableRun, _ *control.Client) { s.signal(syscall.SIGINT) }, 130, "signal"},
		"graceful": {func(s *stableRun, c *control.Client) { _ = c.Shutdown(s.Context(), "graceful") }, 0, "shutdown"},
		"kill":     {func(s *stableRun, c *control.Client) { _ = c.Shutdown(s.Context(), "kill") }, 0, "shutdown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStable(t, `{steps: [{text: Done.}], conversations: [`+
				`{when: {prompt: first}, steps: [{call: {tool: bash, input: {command: "trap '' TERM INT; stray one; sleep 60"}}}]},`+
				`{when: {prompt: second}, steps: [{call: {tool: bash, input: {command: "stray two; sleep 60"}}}]},`+
				`{when: {prompt: ask}, steps: [{call: {tool: bash, input: {command: "echo 1"}}}]}]}`)
			client, _ := s.client(s.socket)
			for _, prompt := range []string{"first", "second", "ask", "finish"} {
				if _, err := client.Spawn(t.Context(), control.Spawn{Prompt: prompt, AutoApprove: prompt != "ask", Label: prompt, Dir: s.path("work")}); err != nil {
					t.Fatal(err)
				}
			}
			s.awaitStray("one")
			s.awaitStray("two")
			s.questions(client, "rt_3", 1)
			s.until("rt_4", func() bool { return s.status(client, "rt_4").State == "idle" })
			c.end(s, client)
			s.wait()
			s.gone(c.exit, c.reason)
		})
	}
}

// A supervisor that has nothing to do ends, also if a run waits for a prompt. As long as one works it does not.
func TestStableIdle(t *testing.T) {
	t.Parallel()
	s := newStable(t, `steps: [{call: {tool: bash, input: {command: "sleep 1"}}}, {text: Done.}]`, "--idle-timeout", "700ms")
	c, told := s.client(s.socket)
	if _, err := c.Subscribe(t.Context(), control.Subscribe{}); err != nil {
		t.Fatal(err)
	}
	s.spawn(c, control.Spawn{AutoApprove: true})
	<-c.Done()
	close(told)
	ended := false
	for e := range told {
		ended = ended || strings.Contains(string(e.Raw), `"event":"session.end"`)
	}
	if !ended {
		t.Error("it did not let its run come to an end")
	}
	s.wait()
	s.gone(0, "idle")
}

// A run that cannot be begun is an error, and takes no room; a time is seconds or a duration.
func TestStableSpawnErrors(t *testing.T) {
	t.Parallel()
	s := newStable(t, sleepy, "--max-runtimes", "1")
	client, _ := s.client(s.socket)
	for _, c := range []struct {
		p    control.Spawn
		want string
	}{
		{control.Spawn{}, "there is no prompt"},
		{control.Spawn{Prompt: "x", Dir: s.path("nowhere")}, "no such file"},
		{control.Spawn{Prompt: "x", OnEvent: s.path("nowhere/x")}, "no such file"},
		{control.Spawn{Prompt: "x", Timeout: 1.5}, "whole seconds"},
		{control.Spawn{Prompt: "x", Timeout: "soon"}, "or a duration"},
		{control.Spawn{Prompt: "x", PermissionHandler: "tcp:1"}, "it is file:BASE"},
		{control.Spawn{Prompt: "x", PromptFile: "y"}, "only one of them"},
		{control.Spawn{Prompt: "x", MaxRetries: -1}, "--max-retries -1"},
	} {
		var e *rpc.Error
		if _, err := client.Spawn(t.Context(), c.p); !errors.As(err, &e) || e.Code != rpc.CodeParams || !strings.Contains(e.Message, c.want) {
			t.Errorf("%+v: %v, want %s", c.p, err, c.want)
		}
	}
	id := s.spawn(client, control.Spawn{AutoApprove: true, Timeout: 1})
	s.until("its end", func() bool { return s.status(client, id).State == "ended" })
	if st := s.status(client, id); st.StopReason != "timeout" || st.Outcome != "timeout" {
		t.Errorf("it ended by %s %s", st.StopReason, st.Outcome)
	}
	s.shutdown(client, "graceful")
}
