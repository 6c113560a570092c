package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/rpc"
)

// code is the code of what a server says went wrong.
func code(t *testing.T, err error) int {
	t.Helper()
	var e *rpc.Error
	if !errors.As(err, &e) {
		t.Errorf("%v is no error of the server's", err)
		return 0
	}
	return e.Code
}

func TestStatus(t *testing.T) {
	p := newPlay(t, "r1")
	s := serve(t, ServerOptions{Token: "tok", Version: "1"}, p)
	c := connect(t, s, nil)
	ctx := within(t)
	if id, err := c.Identity(ctx); err != nil || id.Token != "tok" || id.Runs != 1 || id.Spawns || id.PID != os.Getpid() {
		t.Errorf("%+v, %v", id, err)
	}
	st, err := c.Status(ctx, "")
	if err != nil || st.RuntimeID != "r1" || st.SessionID != "ses-r1" || st.RunID != "run-r1" || st.RunLabel != "label-r1" ||
		st.TurnState != "running" || st.Phase != "thinking" || st.LatestSeq != 3 || st.PendingPermission {
		t.Errorf("%+v, %v", st, err)
	}
	long := strings.Repeat("ü", 5000)
	p.say(long)
	answers := p.ask(ctx, "q1")
	st, err = c.Status(ctx, "r1")
	if err != nil || st.Phase != "waiting" || !st.PendingPermission || st.Permission == nil || st.Permission.RequestID != "q1" || st.Permission.Tool != "bash" ||
		len(st.Permission.Options) != 3 || st.Permission.Options[0].ID != "allow_once" || st.Permission.Question == "" {
		t.Errorf("%+v, %v", st, err)
	}
	if len([]rune(st.FinalOutput)) != 4096 || !st.FinalOutputTruncated {
		t.Errorf("%d of the output, cut: %t", len([]rune(st.FinalOutput)), st.FinalOutputTruncated)
	}
	if said, err := c.Result(ctx, ""); err != nil || said != long {
		t.Errorf("%d bytes, %v", len(said), err)
	}
	if err := c.Answer(ctx, Answer{RequestID: "q1", OptionID: "allow_once"}); err != nil {
		t.Error(err)
	}
	if a := allowed(t, answers, true); a.By != event.ByControl {
		t.Errorf("%+v", a)
	}
	if err := c.Cancel(ctx, ""); err != nil {
		t.Error(err)
	}
	st, err = c.Status(ctx, "")
	if err != nil || st.State != "ended" || st.Outcome != event.Cancelled || st.PendingPermission {
		t.Errorf("%+v, %v", st, err)
	}
	// Nothing says ok and does nothing.
	for name, err := range map[string]error{
		"cancel":    c.Cancel(ctx, ""),
		"prompt":    c.Prompt(ctx, Prompt{Text: "more"}),
		"interrupt": c.Interrupt(ctx, Prompt{Text: "more"}),
		"emit":      c.Emit(ctx, "", json.RawMessage(`{"event":"x"}`)),
	} {
		if code(t, err) != rpc.CodeFailed || !strings.Contains(err.Error(), "is over") {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
}

func TestWhichRun(t *testing.T) {
	a, b := newPlay(t, "r1"), newPlay(t, "r2")
	s := serve(t, ServerOptions{}, a, b)
	c := connect(t, s, nil)
	ctx := within(t)
	for name, err := range map[string]error{
		"cancel": c.Cancel(ctx, ""), "prompt": c.Prompt(ctx, Prompt{Text: "x"}), "status": c.Call(ctx, "status", nil, nil),
		"emit": c.Emit(ctx, "", json.RawMessage(`{"event":"x"}`)),
	} {
		if code(t, err) != rpc.CodeParams || !strings.Contains(err.Error(), "there are 2 runs: say which one (r1, r2)") {
			t.Errorf("%s without a run: %v", name, err)
		}
	}
	if err := c.Cancel(ctx, "r3"); code(t, err) != rpc.CodeParams || !strings.Contains(err.Error(), `no run "r3"`) {
		t.Error(err)
	}
	if err := c.Prompt(ctx, Prompt{RuntimeID: "r2", Text: "hello", RequestID: "m1"}); err != nil {
		t.Error(err)
	}
	if got := <-b.sent; got != "event.Message {ID:m1 Text:hello Files:[] Source:}" {
		t.Error(got)
	}
	if err := c.Interrupt(ctx, Prompt{RuntimeID: "r2", Text: "stop", KeepQueue: true}); err != nil || <-b.sent != "interrupt stop keep=true" {
		t.Error(err)
	}
	if err := c.Prompt(ctx, Prompt{RuntimeID: "r2"}); code(t, err) != rpc.CodeParams {
		t.Errorf("a prompt without text: %v", err)
	}
	list, err := c.List(ctx)
	if err != nil || len(list) != 2 || list[0].RuntimeID != "r1" || list[1].RuntimeID != "r2" {
		t.Errorf("%+v, %v", list, err)
	}
	// A question is found by its id, whatever run asks it.
	answers := b.ask(ctx, "q7")
	if err := c.Answer(ctx, Answer{RequestID: "q7", OptionID: "reject_once", Message: "no"}); err != nil {
		t.Error(err)
	}
	if got := allowed(t, answers, false); got.Reason != "no" {
		t.Errorf("%+v", got)
	}
	if len(a.sent) != 0 {
		t.Error("the other run was told too")
	}
	if _, err := c.Spawn(ctx, Spawn{Prompt: "x"}); code(t, err) != rpc.CodeMethod {
		t.Error(err)
	}
	if err := c.Shutdown(ctx, "immediate"); code(t, err) != rpc.CodeParams {
		t.Error(err)
	}
	if err := c.Shutdown(ctx, ""); err != nil {
		t.Error(err)
	}
	for _, st := range must(c.List(ctx)) {
		if st.Outcome != event.Cancelled {
			t.Errorf("%+v", st)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestAnswerErrors(t *testing.T) {
	p := newPlay(t, "r1")
	c := connect(t, serve(t, ServerOptions{}, p), nil)
	ctx := within(t)
	answers := p.ask(ctx, "q1")
	err := c.Answer(ctx, Answer{RequestID: "q1", OptionID: "yes"})
	var e *rpc.Error
	if !errors.As(err, &e) || e.Code != rpc.CodeParams || !strings.Contains(string(e.Data), `"optionId":"allow_once"`) {
		t.Errorf("an option that is not offered: %v %s", err, e.Data)
	}
	for _, a := range []Answer{{OptionID: "allow_once"}, {RequestID: "q1"}, {RequestID: "q1", OptionID: "x", Outcome: "maybe"}, {RequestID: "q1", OptionID: "allow_once", Message: strings.Repeat("x", 64<<10+1)}} {
		if err := c.Answer(ctx, a); code(t, err) != rpc.CodeParams {
			t.Errorf("%.80v: %v", a, err)
		}
	}
	if err := c.Answer(ctx, Answer{RequestID: "q0", OptionID: "allow_once"}); code(t, err) != CodeNoPending {
		t.Error(err)
	}
	if err := c.Answer(ctx, Answer{RequestID: "q1", Outcome: Cancelled, OptionID: "allow_once"}); err != nil {
		t.Error(err)
	}
	allowed(t, answers, false)
	if err := c.Answer(ctx, Answer{RequestID: "q1", OptionID: "allow_once"}); code(t, err) != CodeNoPending {
		t.Errorf("a late answer: %v", err)
	}
}

// TestFiveQuestions: five questions at once, answered in any order by any source; somebody who only looks changes nothing.
func TestFiveQuestions(t *testing.T) {
	f, _ := newFiles(t)
	p := newPlay(t, "r1", f)
	s := serve(t, ServerOptions{}, p)
	watcher := connect(t, s, func(Event) {})
	ctx := within(t)
	if _, err := watcher.Subscribe(ctx, Subscribe{Replay: true}); err != nil {
		t.Fatal(err)
	}
	var answers []<-chan gate.Answer
	for i := range 5 {
		answers = append(answers, p.ask(ctx, fmt.Sprint("q", i)))
	}
	st := must(watcher.Status(ctx, ""))
	if len(st.Permissions) != 5 {
		t.Fatalf("%d are open", len(st.Permissions))
	}
	// Whoever connects, looks and goes takes nothing away.
	for range 3 {
		c := connect(t, s, nil)
		must(c.Status(ctx, ""))
		c.Close()
	}
	one, two := connect(t, s, nil), connect(t, s, nil)
	steps := []struct {
		q     int
		allow bool
		by    event.By
		give  func() error
	}{
		{3, true, event.ByControl, func() error { return one.Answer(ctx, Answer{RequestID: "q3", OptionID: "allow_once"}) }},
		{1, false, event.ByFile, func() error { return Reply{Base: f.Base, Request: "q1", Option: "reject_once"}.Send() }},
		{4, true, event.ByFile, func() error { return Reply{Base: f.Base, Request: "q4", Option: "allow_once"}.Send() }},
		{0, true, event.ByFile, func() error { return Reply{Base: f.Base, Option: "allow_once"}.Send() }}, // the oldest
		{2, false, event.ByControl, func() error { return two.Answer(ctx, Answer{RequestID: "q2", OptionID: "reject_once"}) }},
	}
	for _, step := range steps {
		if err := step.give(); err != nil {
			t.Fatal(err)
		}
		if a := allowed(t, answers[step.q], step.allow); a.By != step.by {
			t.Errorf("q%d: by %s, want %s", step.q, a.By, step.by)
		}
	}
	if names := f.left(t); names != nil {
		t.Errorf("left: %v", names)
	}
	if st := must(watcher.Status(ctx, "")); st.PendingPermission {
		t.Errorf("%+v", st.Permissions)
	}
}

// TestKilledClient: a client that dies in the middle of its answer changes nothing but time.
func TestKilledClient(t *testing.T) {
	p := newPlay(t, "r1")
	s := serve(t, ServerOptions{}, p)
	ctx := within(t)
	answers := p.ask(ctx, "q1")
	for _, part := range []string{"", `{"jsonrpc":"2.0","id":1,"method":"answer_permission","params":{"request_id":"q1","option_id":"allow_once"`, "\x00\x01", `{"jsonrpc":"2.0","id":1,"method":"subscribe"}` + "\n"} {
		c, err := net.Dial("unix", s.Path())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, part)
		c.Close()
	}
	select {
	case a := <-answers:
		t.Fatalf("answered: %+v", a)
	default:
	}
	if err := connect(t, s, nil).Answer(ctx, Answer{RequestID: "q1", OptionID: "allow_once"}); err != nil {
		t.Error(err)
	}
	allowed(t, answers, true)
}

// TestLines holds the wire itself: what is sent, byte by byte, and what comes back.
func TestLines(t *testing.T) {
	p := newPlay(t, "r1")
	s := serve(t, ServerOptions{}, p)
	c, err := net.Dial("unix", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for _, x := range []struct{ send, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"prompt","params":{"text":"hi"}}`, `{"jsonrpc":"2.0","id":1,"result":{"runtime_id":"r1","accepted":true,"ok":true}}`},
		{`{"jsonrpc":"2.0","id":2,"method":"result"}`, `{"jsonrpc":"2.0","id":2,"result":{"runtime_id":"r1","final_output":""}}`},
		{`{"jsonrpc":"2.0","method":"prompt","params":{"text":"no answer"}}` + "\n" + `{"jsonrpc":"2.0","id":3,"method":"nope"}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"there is no method \"nope\""}}`},
		{`not json`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{`{"id":4,"method":"status"}`, `{"jsonrpc":"2.0","id":4,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":5,"method":"prompt","params":{}}`, `{"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"a prompt has a text","data":{"required":"text"}}}`},
		{`{"jsonrpc":"2.0","id":6,"method":"prompt","params":{"text":5}}`, `{"jsonrpc":"2.0","id":6,"error":{"code":-32602,"message":"the parameters of prompt: text cannot be number","data":{"required":"text"}}}`},
		{`{"jsonrpc":"2.0","id":7,"method":"prompt","params":[1]}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"the parameters of prompt are an object, and not array"}}`},
		{`{"jsonrpc":"2.0","id":71,"method":"subscribe","params":{"after_seq":-1}}`, `{"jsonrpc":"2.0","id":71,"error":{"code":-32602,"message":"the parameters of subscribe: after_seq cannot be number -1","data":{"required":"after_seq"}}}`},
		{`{"jsonrpc":"2.0","id":72,"method":"emit","params":{"runtime_id":5}}`, `{"jsonrpc":"2.0","id":72,"error":{"code":-32602,"message":"the parameters of emit: runtime_id cannot be number","data":{"required":"runtime_id"}}}`},
		{`{"jsonrpc":"2.0","id":8,"method":"subscribe","params":{"format":"klingon"}}`, `{"jsonrpc":"2.0","id":8,"error":{"code":-32602,`},
		{`{"jsonrpc":"2.0","id":9,"method":"emit","params":{"event":{"x":1}}}`, `{"jsonrpc":"2.0","id":9,"error":{"code":-32602,`},
		{`{"jsonrpc":"2.0","id":10,"method":"emit","params":{"event":{"z":1,"event":"my.event","a":12345678901234567890,"s":"<&>"}}}`, `{"jsonrpc":"2.0","id":10,"result":{`},
		{`{"jsonrpc":"2.0","id":11,"method":"history","params":{"limit":1}}`,
			`{"jsonrpc":"2.0","id":11,"result":{"runtime_id":"r1","events":[{"event":"my.event","session_id":"ses-r1","run_id":"run-r1","run_label":"label-r1","z":1,"a":12345678901234567890,"s":"<&>","ts":`},
	} {
		io.WriteString(c, x.send+"\n")
		got, err := r.ReadString('\n')
		if err != nil || !strings.HasPrefix(got, x.want) {
			t.Errorf("%s\n got %s\nwant %s (%v)", x.send, got, x.want, err)
		}
	}
	if got := <-p.sent + <-p.sent; strings.Count(got, "Text:") != 2 {
		t.Error(got)
	}
}

func TestSocket(t *testing.T) {
	dir := filepath.Join(folder(t), "new", "er")
	path := filepath.Join(dir, "s.sock")
	ctx := within(t)
	a, err := Listen(path, ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, path: 0o600 | os.ModeSocket} {
		if info, err := os.Lstat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if _, err := Listen(path, ServerOptions{}); err == nil || !strings.Contains(err.Error(), "another process serves it") {
		t.Errorf("a second one: %v", err)
	}
	if err := a.Close(ctx); err != nil {
		t.Error(err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("left: %v", list)
	}
	if _, err := Dial(ctx, path, nil); !errors.Is(err, ErrNobody) {
		t.Errorf("%v", err)
	}
	// One that is left over is replaced; one that somebody else serves, or that is something else, is not.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, ServerOptions{}); err == nil || !strings.Contains(err.Error(), "another process serves it") {
		t.Errorf("one that is served: %v", err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	if _, err := Dial(ctx, path, nil); !errors.Is(err, ErrNobody) {
		t.Errorf("%v", err)
	}
	b, err := Listen(path, ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Somebody puts another file there: it is not ours to take away.
	os.Remove(path)
	os.WriteFile(path, []byte("mine"), 0o600)
	b.Close(ctx)
	if data, err := os.ReadFile(path); err != nil || string(data) != "mine" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := Listen(path, ServerOptions{}); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("a file: %v", err)
	}
	if _, err := Listen(filepath.Join(dir, strings.Repeat("x", 100)), ServerOptions{}); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a long path: %v", err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left: %v", list)
	}
}

func TestRegistry(t *testing.T) {
	for name, dir := range map[string]string{"short": folder(t), "long": filepath.Join(folder(t), strings.Repeat("long/", 30))} {
		t.Run(name, func(t *testing.T) {
			r := Registry{Dir: dir}
			ctx := within(t)
			if live, err := r.Live(ctx); err != nil || len(live) != 0 {
				t.Errorf("%v, %v", live, err)
			}
			for _, id := range []string{"r1", "r/2"} {
				s, err := r.Listen(id, ServerOptions{})
				if err != nil {
					t.Fatal(err)
				}
				s.Add(newPlay(t, strings.ReplaceAll(id, "/", "")))
				defer s.Close(ctx)
			}
			dead := r.Path("dead")
			if name == "short" {
				l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
				if err != nil {
					t.Fatal(err)
				}
				l.SetUnlinkOnClose(false)
				l.Close()
			} else {
				os.Symlink(filepath.Join(folder(t), "gone"), dead)
			}
			live, err := r.Live(ctx)
			if err != nil || len(live) != 2 || live[0].RuntimeID != "r2" || live[1].RuntimeID != "r1" {
				t.Errorf("%+v, %v", live, err)
			}
			if _, err := os.Lstat(dead); err == nil {
				t.Error("a dead socket is still there")
			}
			found, others, err := r.Find(ctx, "label-r2")
			if err != nil || found.RuntimeID != "r2" || len(others) != 0 {
				t.Errorf("%+v, %v", found, err)
			}
			c, err := Dial(ctx, found.Socket, nil)
			if err != nil {
				t.Fatal(err)
			}
			must(c.Status(ctx, ""))
			c.Close()
			if _, _, err := r.Find(ctx, "nobody"); err == nil || !strings.Contains(err.Error(), "label-r1") {
				t.Error(err)
			}
		})
	}
}

// TestSpawn: a supervisor begins runs, and whoever subscribed to all of them hears of the new one from its first event.
func TestSpawn(t *testing.T) {
	n := 0
	ended := make(chan string, 1)
	s := serve(t, ServerOptions{
		Spawn: func(_ context.Context, p Spawn) (Run, error) {
			if p.Prompt == "" {
				return nil, rpc.Errorf(rpc.CodeParams, "a run has a prompt")
			}
			n++
			return newPlay(t, fmt.Sprint("rt_", n)), nil
		},
		Shutdown: func(mode string) { ended <- mode },
	})
	seen := make(chan Event, 100)
	c := connect(t, s, func(e Event) { seen <- e })
	ctx := within(t)
	if _, err := c.Subscribe(ctx, Subscribe{Format: "native"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Subscribe(ctx, Subscribe{Replay: true}); code(t, err) != rpc.CodeParams {
		t.Error(err)
	}
	if _, err := c.Spawn(ctx, Spawn{}); code(t, err) != rpc.CodeParams {
		t.Error(err)
	}
	for i := range 2 {
		st, err := c.Spawn(ctx, Spawn{Prompt: "x"})
		if err != nil || st.RuntimeID != fmt.Sprint("rt_", i+1) {
			t.Errorf("%+v, %v", st, err)
		}
		for want := range uint64(3) {
			if e := <-seen; e.RuntimeID != st.RuntimeID || e.Seq != want+1 {
				t.Errorf("%+v", e)
			}
		}
	}
	if err := c.Shutdown(ctx, "kill"); err != nil || <-ended != "kill" {
		t.Error(err)
	}
	s.Remove("rt_1")
	if list := must(c.List(ctx)); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}
