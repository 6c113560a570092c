//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/control"
	"github.com/sluice-dev/sluice/internal/rpc"
)

// fiveCalls asks five questions at once, and then says something.
const fiveCalls = `steps: [{calls: [` +
	`{tool: bash, input: {command: echo 1}}, {tool: bash, input: {command: echo 2}}, {tool: bash, input: {command: echo 3}}, ` +
	`{tool: bash, input: {command: echo 4}}, {tool: bash, input: {command: echo 5}}]}, {text: Done.}, {text: More.}, {text: Even more.}]`

// A steeredRun is a run of avenor that has a control socket.
type steeredRun struct {
	*avenorRun
	socket string
}

func newSteered(t *testing.T, text string, args ...string) *steeredRun {
	t.Helper()
	s := &steeredRun{socket: shortPath(t)}
	s.avenorRun = newAvenor(t, text, append([]string{"--control-socket", s.socket, "--label", "nightly"}, args...)...)
	return s
}

// shortPath is a path for a socket: those of tests are too long.
func shortPath(t *testing.T) string {
	dir, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// begin starts the run, and waits until it is there, and can be found by its label.
func (s *steeredRun) begin() *steeredRun {
	s.start(nil)
	s.until("the socket", func() bool {
		known, _ := filepath.Glob(s.path("state/sluice/sockets/*.sock"))
		return len(known) == 1 && exists(s.socket)
	})
	return s
}

// until waits for something.
func (r *run) until(what string, so func() bool) {
	r.Helper()
	for end := time.Now().Add(patient); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("%s never came; stderr: %s", what, r.errs.Bytes())
		}
	}
}

// client connects to a socket. What it is told goes to the channel.
func (r *run) client(socket string) (*control.Client, chan control.Event) {
	r.Helper()
	told := make(chan control.Event, 4096)
	c, err := control.Dial(r.Context(), socket, func(e control.Event) { told <- e })
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(c.Close)
	return c, told
}

// status is where the run stands.
func (r *run) status(c *control.Client, id string) control.Status {
	r.Helper()
	st, err := c.Status(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	return st
}

// questions waits until so many are open, and returns their ids.
func (r *run) questions(c *control.Client, id string, n int) (ids []string) {
	r.Helper()
	r.until(fmt.Sprintf("%d questions", n), func() bool { return len(r.status(c, id).Permissions) == n })
	for _, q := range r.status(c, id).Permissions {
		ids = append(ids, q.RequestID)
	}
	return ids
}

// other starts another program in the same world.
func (r *run) other(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	r.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Dir = r.env, r.path("work")
	return cmd
}

// does runs another program to its end, which must have this exit code, and returns what it printed.
func (r *run) does(exit int, args ...string) string {
	r.Helper()
	var out, errs strings.Builder
	cmd := r.other(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		r.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != exit {
		r.Errorf("%v: exit %d, want %d: %s%s", args, got, exit, out.String(), errs.String())
	}
	return out.String() + errs.String()
}

// A listener keeps what it hears, and says when it has heard anything.
type listener struct {
	mu    sync.Mutex
	said  strings.Builder
	once  sync.Once
	first chan struct{}
}

func (l *listener) Write(p []byte) (int, error) {
	l.once.Do(func() { close(l.first) })
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Write(p)
}

func (l *listener) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.String()
}

// Five questions are open at once. They are answered in another order than they were asked in, by the socket and by files of both
// names, while somebody looks on; a late answer, and one that is no answer, change nothing.
func TestAvenorDefect06FiveQuestionsAnsweredByAnySource(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "perm")
	s := newSteered(t, fiveCalls, "--permission-handler", "file:"+base).begin()
	tail := s.other("sluice", "control", "--run", "nightly", "tail", "--replay")
	seen := &listener{first: make(chan struct{})}
	tail.Stdout = seen
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	<-seen.first
	c, _ := s.client(s.socket)
	q := s.questions(c, "", 5)
	for _, id := range q {
		if !exists(base + "." + id + ".req") {
			t.Errorf("question %s has no file", id)
		}
	}
	answer := func(id, option string) error {
		return c.Answer(t.Context(), control.Answer{RequestID: id, OptionID: option})
	}
	if err := answer(q[3], "allow"); err != nil {
		t.Error(err)
	}
	var late *rpc.Error
	if err := answer(q[3], "reject"); !errors.As(err, &late) || late.Code != control.CodeNoPending {
		t.Errorf("an answer that came late: %v", err)
	}
	if err := answer(q[0], "perhaps"); !errors.As(err, &late) || late.Code != rpc.CodeParams {
		t.Errorf("an answer that is none: %v", err)
	}
	s.does(0, "avenor", "answer", base, "--option", "allow", "--request", q[4])
	s.does(0, "sluice", "answer", "--option", "allow", base) // the oldest
	s.does(0, "sluice", "control", "--run", "nightly", "answer-permission", q[2], "allow")
	if err := answer(q[1], "allow"); err != nil {
		t.Error(err)
	}
	s.wait()
	s.ended(0, "end_turn")
	sources := map[string]string{}
	for _, l := range s.only("permission.response") {
		sources[fmt.Sprint(l["request_id"])] = fmt.Sprint(l["source"], l["option_id"])
	}
	want := map[string]string{q[0]: "fileallow", q[1]: "controlallow", q[2]: "controlallow", q[3]: "controlallow", q[4]: "fileallow"}
	if d := cmp.Diff(want, sources); d != "" {
		t.Errorf("who answered what: %s", d)
	}
	if n := len(s.only("permission.request")); n != 5 {
		t.Errorf("%d questions", n)
	}
	if err := tail.Wait(); err != nil {
		t.Errorf("whoever looked on: %v", err)
	}
	told := strings.Split(strings.TrimSpace(seen.String()), "\n")
	if len(told) != len(s.lines) {
		t.Errorf("whoever looked on was told %d events of %d", len(told), len(s.lines))
	}
	if left, _ := filepath.Glob(base + "*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	s.oneTimeline()
}

// Who answers is killed in the middle of it, twice: connected to the socket, and with half an answer written. Somebody else
// answers, and nothing else is different.
func TestAnsweringProcessIsKilled(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "perm")
	s := newSteered(t, fiveCalls, "--permission-handler", "file:"+base).begin()
	c, _ := s.client(s.socket)
	q := s.questions(c, "", 5)
	connected := s.other("sluice", "control", "--socket", s.socket, "tail", "--replay")
	out, err := connected.StdoutPipe()
	if err == nil {
		err = connected.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it is there, and hears
		t.Fatal(err)
	}
	if err := connected.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = connected.Wait() // it was killed
	half := s.other("sh", "-c", `printf '{"request_id":"`+q[0]+`","option' > "$1.`+q[0]+`.req.response"; kill -9 $$`, "sh", base)
	if err := half.Run(); err == nil || half.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it was not killed: %v", err)
	}
	if got := s.questions(c, "", 5); !slices.Equal(got, q) {
		t.Errorf("open are %v, of %v", got, q)
	}
	for i, id := range q {
		if i%2 == 0 {
			s.does(0, "sluice", "answer", base, "--force", "--request", id, "--option", "allow")
		} else {
			s.does(0, "sluice", "control", "--socket", s.socket, "answer-permission", id, "allow")
		}
	}
	s.wait()
	s.ended(0, "end_turn")
	if n := len(s.only("avenor.error")); n > 0 {
		t.Errorf("%d errors", n)
	}
}

// A handler's "cancelled" denies that question, and no other; the run goes on.
func TestAvenorDefect07CancelledDeniesOneQuestion(t *testing.T) {
	t.Parallel()
	s := newSteered(t, fiveCalls, "--permission-handler", "file:"+filepath.Join(t.TempDir(), "perm")).begin()
	c, _ := s.client(s.socket)
	for i, id := range s.questions(c, "", 5) {
		a := control.Answer{RequestID: id, OptionID: "allow"}
		if i == 2 {
			a = control.Answer{RequestID: id, Outcome: control.Cancelled}
		}
		if err := c.Answer(t.Context(), a); err != nil {
			t.Error(err)
		}
	}
	s.wait()
	s.ended(5, "blocked")
	kinds := map[any]int{}
	for _, l := range s.only("permission.response") {
		kinds[l["kind"]]++
	}
	if kinds["allow"] != 4 || kinds["reject"] != 1 {
		t.Errorf("%v", kinds)
	}
}

// Every question has a tool, a text and options with id and kind, in the stream and over the socket; what nobody answers in time is no.
func TestAvenorDefect08QuestionsAreWhole(t *testing.T) {
	t.Parallel()
	s := newSteered(t, fiveCalls, "--permission-timeout", "300ms").begin()
	c, told := s.client(s.socket)
	if _, err := c.Subscribe(t.Context(), control.Subscribe{Replay: true}); err != nil {
		t.Fatal(err)
	}
	var first map[string]any
	for e := range told {
		if err := json.Unmarshal(e.Raw, &first); err != nil {
			t.Fatal(err)
		}
		if first["event"] == "permission.request" {
			break
		}
	}
	s.wait()
	s.ended(5, "blocked")
	asked := s.only("permission.request")
	if len(asked) != 5 {
		t.Errorf("%d questions", len(asked))
	}
	for _, q := range append(asked, first) {
		options, _ := q["options"].([]any)
		if q["tool"] != "bash" || !strings.HasPrefix(fmt.Sprint(q["question"]), "allow bash echo ") || len(options) < 2 {
			t.Errorf("a question is not whole: %v", q)
		}
		for _, o := range options {
			if o, _ := o.(map[string]any); o["optionId"] == nil || o["kind"] == nil {
				t.Errorf("an option is not whole: %v", o)
			}
		}
	}
	for _, l := range s.only("permission.response") {
		if l["kind"] != "reject" || l["option_id"] != "reject" || l["source"] != "avenor" {
			t.Errorf("nobody answered, and the stream says %v", l)
		}
	}
}

// The numbers rise by one for the life of a run, over retries and prompts that follow. Who comes back again and again is told
// what somebody is told who never left: everything, and nothing twice.
func TestAvenorDefect09OneSeqForSubscribers(t *testing.T) {
	t.Parallel()
	s := newSteered(t, `{chunk: 1, steps: [{text: "One and a bit", fault: {status: 500, times: 2}}, {text: "Two, more or less."}, {text: Three of it., fault: {status: 500, times: 1}}]}`,
		"--max-retries", "3", "--retry-wait", "1ms", "--park", "1m").begin()
	watch, all := s.client(s.socket)
	if _, err := watch.Subscribe(t.Context(), control.Subscribe{Replay: true, Format: "native"}); err != nil {
		t.Fatal(err)
	}
	var restless []string
	over := make(chan struct{})
	go func() {
		defer close(over)
		last := uint64(0)
		for n := 1; ; n = n%7 + 1 {
			told := make(chan control.Event, 4096)
			c, err := control.Dial(context.Background(), s.socket, func(e control.Event) { told <- e })
			if err != nil {
				return // the run is over
			}
			_, err = c.Subscribe(context.Background(), control.Subscribe{AfterSeq: new(last), Format: "native"})
			for i := 0; i < n && err == nil; i++ {
				select {
				case e := <-told:
					last, restless = e.Seq, append(restless, string(e.Line))
				case <-c.Done():
					err = rpc.ErrClosed
				}
			}
			c.Close()
		}
	}()
	for _, text := range []string{"and two", "and three"} {
		s.does(0, "sluice", "await", "--timeout", "30s", "nightly")
		if err := watch.Prompt(t.Context(), control.Prompt{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.does(0, "sluice", "await", "--timeout", "30s", "--print-output", "nightly"); !strings.Contains(got, "Three of it.") {
		t.Errorf("the last word is %q", got)
	}
	if err := watch.Cancel(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	<-watch.Done()
	s.wait()
	<-over
	s.oneTimeline()
	s.session = s.sessionOf()
	book, err := os.ReadFile(s.journal())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(book)), "\n")
	close(all)
	var faithful []string
	for e := range all {
		faithful = append(faithful, string(e.Line))
	}
	if d := cmp.Diff(lines, faithful); d != "" {
		t.Errorf("who never left was not told what the journal has: %s", d)
	}
	if n := len(restless); n < len(lines)/2 || !slices.Equal(lines[:n], restless) {
		t.Errorf("who came back was told %d of %d events, and not the same", n, len(lines))
	}
	count := map[event.Kind]int{}
	for _, l := range lines {
		if e, err := event.Parse([]byte(l)); err == nil {
			count[e.Kind]++
		}
	}
	if count["phase.retry"] != 3 || count["prompt"] != 6 || count["reply.done"] != 3 || count["run.cancelled"] != 1 {
		t.Errorf("there are %v", count)
	}
}

// sessionOf reads the events and returns whose they are.
func (a *avenorRun) sessionOf() string {
	a.Helper()
	stream, err := os.ReadFile(a.file)
	if err != nil {
		a.Fatal(err)
	}
	a.lines = a.parse(stream)
	return fmt.Sprint(a.only("session.start")[0]["session_id"])
}
