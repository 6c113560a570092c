//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/journal"
)

// A run that failed for a reason that may pass is tried again, in the same session and journal, and has one end.
func TestAvenorRetry(t *testing.T) {
	for name, c := range map[string]struct {
		fault   string
		flags   []string
		exit    int
		stop    string
		retries int
	}{
		"it passes":                {`{status: 500, times: 2}`, []string{"--max-retries", "3"}, 0, "end_turn", 2},
		"it does not pass":         {`{status: 529}`, []string{"--max-retries", "2"}, 1, "error", 2},
		"cut in the middle":        {`{cut: text, times: 1}`, []string{"--max-retries", "1"}, 0, "end_turn", 1},
		"nobody asked for a retry": {`{status: 500, times: 1}`, nil, 1, "error", 0},
		"401":                      {`{status: 401}`, []string{"--max-retries", "3"}, 1, "error", 0},
		"400":                      {`{status: 400}`, []string{"--max-retries", "3"}, 1, "error", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAvenor(t, `steps: [{text: "Hello [status: working | hello] there.", usage: {input: 5, output: 2}, fault: `+c.fault+`}]`, append(c.flags, "--retry-wait", "1ms")...).play(c.exit, c.stop)
			list := a.only("avenor.retry")
			for i, l := range list {
				if fmt.Sprint(l["attempt"]) != fmt.Sprint(i+1) || fmt.Sprint(l["max_retries"]) != c.flags[1] || l["ts"] == nil {
					t.Errorf("retry %d is %v", i+1, l)
				}
			}
			if len(list) != c.retries {
				t.Errorf("%d retries, want %d", len(list), c.retries)
			}
			if n := len(a.only("avenor.error")); n != c.retries+min(c.exit, 1) {
				t.Errorf("%d errors of %d failures", n, c.retries+min(c.exit, 1))
			}
			if n := len(a.only("user.message_chunk")); n != c.retries+1 {
				t.Errorf("the prompt was sent %d times", n)
			}
			if i := slices.Index(a.names(), "done <nil> avenor"); i != len(a.lines)-2 {
				t.Error("it was told that it is done, and went on")
			}
			a.oneTimeline()
		})
	}
}

// What the user or the model decides is not tried again.
func TestAvenorNoRetry(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		env    [2]string
		exit   int
		stop   string
	}{
		"refusal":    {`steps: [{text: No., finish: refusal}]`, [2]string{}, 2, "refusal"},
		"max tokens": {`steps: [{text: And so, finish: length}]`, [2]string{}, 3, "max_tokens"},
		"max turns":  {`steps: [{call: {tool: bash, input: {command: echo hi}}, repeat: 9}]`, [2]string{"SLUICE_MAX_TURNS", "2"}, 4, "max_turn_requests"},
		"no key":     {"", [2]string{"ANTHROPIC_API_KEY", ""}, 1, "error"},
		"no model":   {"", [2]string{"SLUICE_MODEL", "nobody/knows"}, 1, "error"},
		"degenerate": {`{chunk: 1, steps: [{thinking: "` + strings.Repeat("a1b2c3d4", 64) + `", text: Done.}]}`, [2]string{}, 1, "degenerate_reasoning_stream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAvenor(t, c.script, "--auto-approve", "--max-retries", "3", "--retry-wait", "1ms")
			if c.env[0] != "" {
				a.set(c.env[0], c.env[1])
			}
			a.play(c.exit, c.stop)
			if n := len(a.only("avenor.retry")); n > 0 {
				t.Errorf("%d retries", n)
			}
		})
	}
}

// oneTimeline sees to it that the numbers of the journal rise by one, whatever was tried again.
func (a *avenorRun) oneTimeline() {
	a.Helper()
	list, err := filepath.Glob(a.path("state/sluice/sessions/*/journal.ndjson"))
	if err != nil || len(list) != 1 {
		a.Fatalf("%d journals: %v", len(list), err)
	}
	f, err := os.Open(list[0])
	if err != nil {
		a.Fatal(err)
	}
	defer f.Close()
	seq := uint64(0)
	for l, err := range journal.Scan(f, nil) {
		if seq++; err != nil || l.Seq != seq {
			a.Fatalf("event %d has the number %d: %v", seq, l.Seq, err)
		}
	}
}

// A run that waits before it is tried again can be ended like any other.
func TestAvenorStoppedBetweenAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		flags  []string
		signal syscall.Signal
		exit   int
		stop   string
	}{
		"SIGTERM": {nil, syscall.SIGTERM, 143, "cancelled"},
		"SIGINT":  {nil, syscall.SIGINT, 130, "cancelled"},
		"timeout": {[]string{"--timeout", "1s"}, 0, 124, "timeout"},
		"stalled": {[]string{"--progress-timeout", "1s"}, 0, 124, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAvenor(t, `steps: [{text: No., fault: {status: 500}}]`, append(c.flags, "--max-retries", "3", "--retry-wait", "1m")...)
			a.start(nil)
			if c.signal != 0 {
				a.awaitEvent("phase.retry")
				a.signal(c.signal)
			}
			a.wait()
			a.ended(c.exit, c.stop)
			if n := len(a.only("avenor.retry")); n != 1 {
				t.Errorf("%d retries", n)
			}
		})
	}
}

// A run that is stopped in a tool leaves nothing behind: no process, no call and no question without an end.
func TestAvenorSignalsInATool(t *testing.T) {
	for signal, exit := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			a := newAvenor(t, `steps: [{calls: [{tool: bash, input: {command: "stray one; sleep 60"}}, {tool: edit, input: {file_path: x, old_string: a, new_string: b}}]}, {text: Done.}]`, "--auto-approve")
			a.start(nil)
			a.awaitStray("one")
			a.signal(signal)
			a.wait()
			a.ended(exit, "cancelled")
			if n := len(a.only("permission.request")) - len(a.only("permission.response")); n != 0 {
				t.Errorf("%d questions have no answer", n)
			}
		})
	}
}

// The file is made anew, and can be followed while it grows.
func TestAvenorFollowed(t *testing.T) {
	t.Parallel()
	a := newAvenor(t, `steps: [{text: Hello there., fault: {hang: text}}]`)
	if err := os.WriteFile(a.file, []byte(`{"event":"session.end","session_id":"old","stop_reason":"end_turn"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.start(nil)
	a.awaitEvent("text.delta")
	for end := time.Now().Add(patient); ; time.Sleep(2 * time.Millisecond) {
		data, err := os.ReadFile(a.file)
		if err == nil && bytes.Contains(data, []byte("agent.message_chunk")) && !bytes.Contains(data, []byte(`"old"`)) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the file does not grow: %s", data)
		}
	}
	a.signal(syscall.SIGTERM)
	a.wait()
	a.ended(143, "cancelled")
}

// mkfifo makes the file for the events a pipe with a name.
func (a *avenorRun) mkfifo() {
	if err := syscall.Mkfifo(a.file, 0o600); err != nil {
		a.Fatal(err)
	}
}

// A pipe with a name will do: the run waits for its reader, and knows when he has gone.
func TestAvenorPipe(t *testing.T) {
	t.Run("read to its end", func(t *testing.T) {
		t.Parallel()
		a := newAvenor(t, "")
		a.mkfifo()
		a.start(nil)
		stream, err := os.ReadFile(a.file)
		if err != nil {
			t.Fatal(err)
		}
		a.wait()
		if err := os.Remove(a.file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(a.file, stream, 0o600); err != nil {
			t.Fatal(err)
		}
		a.ended(0, "end_turn")
	})
	t.Run("the reader leaves", func(t *testing.T) {
		t.Parallel()
		a := newAvenor(t, `{chunk: 2, delay: 20ms, steps: [{text: "`+strings.Repeat("All work and no play. ", 200)+`"}]}`)
		a.mkfifo()
		a.start(nil)
		f, err := os.Open(a.file)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = bufio.NewReader(f).ReadString('\n')
		f.Close()
		a.wait()
		if a.checkSentinel(); a.exit != 141 {
			t.Errorf("exit %d: %s", a.exit, a.errs.Bytes())
		}
	})
	t.Run("nobody comes", func(t *testing.T) {
		t.Parallel()
		a := newAvenor(t, "")
		a.mkfifo()
		a.start(nil)
		a.awaitEvent("run.started")
		a.insist(syscall.SIGTERM)
		a.wait()
		if a.checkSentinel(); a.exit != 143 {
			t.Errorf("exit %d: %s", a.exit, a.errs.Bytes())
		}
	})
}

// A file that cannot be written ends the run: there is nothing to be read, but the sentinel and the journal say so.
func TestAvenorFileCannotBeWritten(t *testing.T) {
	for _, file := range []string{"/dev/full", "no/such/folder/events", "."} {
		t.Run(strings.ReplaceAll(file, "/", "_"), func(t *testing.T) {
			t.Parallel()
			if file == "/dev/full" && !exists(file) {
				t.Skip("this system has none")
			}
			a := newAvenor(t, "")
			a.args[slices.Index(a.args, "--on-event")+1] = file
			a.start(nil)
			a.wait()
			a.checkSentinel()
			if said := a.errs.String(); a.exit != 1 || len(a.out) > 0 || !strings.Contains(said, file) && !strings.Contains(said, "no space left") {
				t.Errorf("exit %d, stdout %q, stderr %q", a.exit, a.out, said)
			}
			if list, _ := filepath.Glob(a.path("state/sluice/sessions/*/journal.ndjson")); len(list) == 1 {
				data, err := os.ReadFile(list[0])
				if err != nil || !bytes.Contains(data, []byte(`"kind":"run.failed"`)) {
					t.Errorf("the journal has no end: %s", data)
				}
			}
		})
	}
}

// A session goes on with its history, and under its name; the file has what is new.
func TestAvenorResume(t *testing.T) {
	t.Parallel()
	a := newAvenor(t, `steps: [{call: {tool: bash, input: {command: echo hi}}}, {text: One.}, {call: {tool: bash, input: {command: echo ho}}}, {text: Two.}]`, "--auto-approve").play(0, "end_turn")
	first, _ := a.lines[0]["session_id"].(string)
	r := *a.run
	r.gone, r.errs = make(chan struct{}), bytes.Buffer{}
	b := &avenorRun{run: &r, file: a.file}
	b.args = append(slices.Clone(a.args), "--resume", first)
	b.play(0, "end_turn")
	for _, l := range b.lines {
		if l["session_id"] != first {
			t.Errorf("%v is of another session", l)
		}
	}
	if string(b.out) != "Two.\n" || len(b.only("tool.call")) != 1 {
		t.Errorf("it said %q", b.out)
	}
	if b.only("tool.call")[0]["toolCallId"] == a.only("tool.call")[0]["toolCallId"] {
		t.Error("two calls of a session have one id")
	}
	b.oneTimeline()
}

// Whoever reads stdout may leave: the run goes on, and says nothing of it.
func TestAvenorStdoutIsNotTheStream(t *testing.T) {
	t.Parallel()
	a := newAvenor(t, "")
	a.start(func(_ *run, in *os.File) []byte { in.Close(); return nil })
	a.wait()
	a.ended(0, "end_turn")
	if a.errs.Len() > 0 {
		t.Errorf("it complains: %s", a.errs.Bytes())
	}
}
