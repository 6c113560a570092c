package control

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

// complaints collects what Files tells.
type complaints struct{ more chan string }

func newComplaints() *complaints { return &complaints{more: make(chan string, 100)} }

func (c *complaints) tell(_ event.GateAsked, err error) { c.more <- err.Error() }

// next waits for the next one, and says whether it has these words.
func (c *complaints) next(t *testing.T, words string) {
	t.Helper()
	select {
	case got := <-c.more:
		if !strings.Contains(got, words) {
			t.Errorf("told %q, want %q", got, words)
		}
	case <-within(t).Done():
		t.Fatalf("nobody told %q", words)
	}
}

func newFiles(t *testing.T) (*Files, *complaints) {
	c := newComplaints()
	return &Files{Base: filepath.Join(t.TempDir(), "perm"), Tell: c.tell, Session: func() string { return "ses-1" }}, c
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := put(path, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

// left lists what is in the folder of the files.
func (f *Files) left(t *testing.T) (names []string) {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(f.Base))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if info, err := e.Info(); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
		names = append(names, e.Name())
	}
	return names
}

func allowed(t *testing.T, answers <-chan gate.Answer, want bool) gate.Answer {
	t.Helper()
	select {
	case a := <-answers:
		if a.Allow != want {
			t.Errorf("allowed: %t, want %t (%+v)", a.Allow, want, a)
		}
		return a
	case <-within(t).Done():
		t.Fatal("no answer came")
		panic("unreachable")
	}
}

func TestRequestFile(t *testing.T) {
	f, _ := newFiles(t)
	f.Hide = func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }
	f.Opened(event.GateAsked{
		Request: "17", Tool: "bash", Question: "Run hunter2?", Permission: "bash", Patterns: []string{"ls *"}, Input: event.Raw(`{"command":"echo hunter2"}`),
		Options: []event.Option{{ID: "allow", Kind: "allow"}, {ID: "reject", Kind: "reject", Name: "No"}},
	})
	for _, name := range []string{f.Base + ".17.req", f.Base + ".req"} {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var r, want any
		if err := json.Unmarshal(got, &r); err != nil {
			t.Fatal(err)
		}
		_ = json.Unmarshal([]byte(`{
			"request_id":"17","session_id":"ses-1","tool":"bash","question":"Run [redacted]?",
			"options":[{"optionId":"allow","kind":"allow"},{"optionId":"reject","kind":"reject","name":"No"}],
			"payload":{"event":"permission.request","request_id":"17","session_id":"ses-1","tool":"bash","question":"Run [redacted]?","permission":"bash",
				"patterns":["ls *"],"rawInput":{"command":"echo [redacted]"},
				"options":[{"optionId":"allow","kind":"allow"},{"optionId":"reject","kind":"reject","name":"No"}]}}`), &want)
		if d := cmp.Diff(want, r); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if d := cmp.Diff([]string{"perm.17.req", "perm.req"}, f.left(t)); d != "" {
		t.Error(d)
	}
	f.Closed(event.GateAsked{Request: "17"})
	if names := f.left(t); names != nil {
		t.Errorf("left: %v", names)
	}
}

// TestRequestFileBeforeTheEvent: the document says that the file is written, and then the event.
func TestRequestFileBeforeTheEvent(t *testing.T) {
	f, _ := newFiles(t)
	p := newPlay(t, "r1", f)
	q := p.gate.Ask(event.GateAsked{Request: "q1"}, []gate.Access{{Permission: "bash", Class: event.ClassExec}}, "")
	// Nothing has been emitted: whoever hears of the question now finds its file.
	if d := cmp.Diff([]string{"perm.q1.req", "perm.req"}, f.left(t)); d != "" {
		t.Error(d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := q.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if names := f.left(t); names != nil {
		t.Errorf("left of a question that was withdrawn: %v", names)
	}
}

func TestAnswerFile(t *testing.T) {
	for name, c := range map[string]struct {
		file, content string
		allow         bool
		reason        string
	}{
		"its own file":          {"perm.q1.req.response", `{"outcome":"selected","option_id":"allow_once"}`, true, ""},
		"the oldest":            {"perm.req.response", `{"option_id":"allow_once","message":"go on"}`, true, "go on"},
		"with its id":           {"perm.req.response", `{"request_id":"q1","option_id":"reject_once","message":"not now"}`, false, "not now"},
		"cancelled":             {"perm.req.response", `{"outcome":"cancelled"}`, false, "the permission handler cancelled it"},
		"cancelled, why":        {"perm.q1.req.response", `{"outcome":"cancelled","option_id":"allow_once","message":"stop"}`, false, "stop"},
		"fields we do not know": {"perm.req.response", `{"option_id":"allow_once","by":"me"}` + "\n\n", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := newFiles(t)
			p := newPlay(t, "r1", f)
			answers := p.ask(within(t), "q1")
			write(t, filepath.Join(filepath.Dir(f.Base), c.file), c.content)
			a := allowed(t, answers, c.allow)
			if a.Reason != c.reason || a.By != event.ByFile {
				t.Errorf("%+v", a)
			}
			if names := f.left(t); names != nil {
				t.Errorf("left: %v", names)
			}
		})
	}
}

// TestAnswersThatAreNotTaken: what is half written is waited out; what is wrong is told, and the question stays open.
func TestAnswersThatAreNotTaken(t *testing.T) {
	f, told := newFiles(t)
	p := newPlay(t, "r1", f)
	answers := p.ask(within(t), "q1")
	path := f.Base + ".req.response"
	for _, half := range []string{"", "   ", `{"option_id":"allow`, "no json"} {
		write(t, path, half)
		f.look()
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q was not waited out: %v", half, err)
		}
	}
	for content, words := range map[string]string{
		`{"option_id":"allow_everything"}`:             "no such option",
		`{"outcome":"selected"}`:                       "names no option_id",
		`{"option_id":5}`:                              "no object with texts in it",
		`["allow_once"]`:                               "no object with texts in it",
		`{"outcome":"maybe","option_id":"allow_once"}`: `no outcome "maybe"`,
		`{"option_id":"allow_once","request_id":"q0"}`: `request "q0", which is not open`,
		`{"option_id":"allow_once","message":"` + strings.Repeat("x", 64<<10+1) + `"}`:     "longer than 65536",
		`{"option_id":"allow_once","message":"\ud800"}`:                                    "not UTF-8",
		"{\"option_id\":\"allow_once\",\"message\":\"\xff\"}":                              "not UTF-8",
		`{"option_id":"allow_once","message":"` + strings.Repeat(`\u0041`, 200_000) + `"}`: "was not taken",
	} {
		write(t, path, content)
		told.next(t, words)
	}
	os.Remove(path)
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	told.next(t, "was not taken")
	write(t, f.Base+".q1.req.response", `{"option_id":"allow_once","request_id":"q2"}`)
	told.next(t, `it is for request "q2"`)
	select {
	case a := <-answers:
		t.Fatalf("answered: %+v", a)
	default:
	}
	write(t, path, `{"option_id":"allow_once","message":"`+strings.Repeat("x", 64<<10)+`"}`)
	allowed(t, answers, true)
}

// TestALateAnswerNeverHitsTheNextRequest, which it does in the program that the protocol is from.
func TestALateAnswerNeverHitsTheNextRequest(t *testing.T) {
	f, told := newFiles(t)
	p := newPlay(t, "r1", f)
	first := p.ask(within(t), "q1")
	if err := p.gate.Answer("q1", gate.Answer{By: event.ByControl}); err != nil {
		t.Fatal(err)
	}
	allowed(t, first, false)
	second := p.ask(within(t), "q2")
	write(t, f.Base+".req.response", `{"option_id":"allow_once"}`) // whoever wrote it had read q1
	told.next(t, "may be for one that is over")
	write(t, f.Base+".req.response", `{"option_id":"allow_once","request_id":"q1"}`)
	told.next(t, `"q1", which is not open`)
	write(t, f.Base+".req.response", `{"option_id":"allow_once"}`) // and this has read q2
	allowed(t, second, true)
	third := p.ask(within(t), "q3") // which nobody came late for
	write(t, f.Base+".req.response", `{"option_id":"reject_once"}`)
	allowed(t, third, false)
}

// TestOldFilesAreGone: an answer to an earlier run answers nothing.
func TestOldFilesAreGone(t *testing.T) {
	f, _ := newFiles(t)
	for _, name := range []string{".req", ".req.response", ".q1.req.response"} {
		write(t, f.Base+name, `{"option_id":"allow_once"}`)
	}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	p := newPlay(t, "r1", f)
	write(t, f.Base+".req.response", `{"option_id":"allow_once"}`)
	answers := p.ask(within(t), "q1")
	if d := cmp.Diff([]string{"perm.q1.req", "perm.req"}, f.left(t)); d != "" {
		t.Error(d)
	}
	write(t, f.Base+".q1.req.response", `{"option_id":"reject_once"}`)
	allowed(t, answers, false)
	if err := (&Files{Base: filepath.Join(t.TempDir(), "no", "such", "perm")}).Check(); err == nil {
		t.Error("a folder that is not there was fine")
	}
}

// TestHandlerTimesOut: the document's own words, and then the denial.
func TestHandlerTimesOut(t *testing.T) {
	f, told := newFiles(t)
	f.Deadline = 20 * time.Millisecond
	p := newPlay(t, "r1", f)
	a := allowed(t, p.ask(within(t), "q1"), false)
	if a.Reason != "handler timed out after 20ms" || a.By != event.ByNobody {
		t.Errorf("%+v", a)
	}
	if len(told.more) != 1 { // before the answer
		t.Error("it was not told")
	}
	told.next(t, "handler timed out after 20ms")
	if names := f.left(t); names != nil {
		t.Errorf("left: %v", names)
	}
	if got := brief(fileDeadline); got != "10m" {
		t.Errorf("if nobody says otherwise it is %s", got)
	}
	for d, want := range map[time.Duration]string{90 * time.Second: "1m30s", 2 * time.Hour: "2h", 10 * time.Minute: "10m", time.Second: "1s", 10 * time.Second: "10s"} {
		if got := brief(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
}

// TestFolderIsGone: a question that cannot be put out is denied, and told, and not waited for.
func TestFolderIsGone(t *testing.T) {
	f, told := newFiles(t)
	p := newPlay(t, "r1", f)
	os.RemoveAll(filepath.Dir(f.Base))
	answers := p.ask(within(t), "q1")
	told.next(t, "cannot be put out")
	allowed(t, answers, false)
}

func TestFileNames(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"q1", "", "../../etc/passwd", "a/b", "a%2Fb", "ü", "\x00", ".", "..", strings.Repeat("x", 500), strings.Repeat("x", 501), "Q1", "17", `"17"`} {
		name := fileName(id)
		if strings.ContainsAny(name, "/\\\x00.") || len(name) > 120 || name == "" {
			t.Errorf("%q has the name %q", id, name)
		}
		if before, ok := seen[name]; ok {
			t.Errorf("%q and %q are both %q", before, id, name)
		}
		seen[name] = id
	}
}

func TestReply(t *testing.T) {
	f, _ := newFiles(t)
	ask := func() { f.Opened(event.GateAsked{Request: "q/1", Options: gate.Options()}) }
	ask()
	for name, c := range map[string]struct {
		reply Reply
		words string
	}{
		"no option":       {Reply{Base: f.Base}, "--option"},
		"no base":         {Reply{Option: "x"}, "name the base"},
		"wrong option":    {Reply{Base: f.Base, Option: "x"}, "it has allow_once, allow_always, reject_once"},
		"wrong outcome":   {Reply{Base: f.Base, Option: "allow_once", Outcome: "x"}, "selected or cancelled"},
		"no such request": {Reply{Base: f.Base, Option: "allow_once", Request: "q2"}, "nothing is asked"},
		"no such base":    {Reply{Base: f.Base + "x/y", Option: "allow_once"}, "nothing is asked"},
		"long message":    {Reply{Base: f.Base, Option: "allow_once", Message: strings.Repeat("x", 64<<10+1)}, "at most"},
		"wrong message":   {Reply{Base: f.Base, Option: "allow_once", Message: "\xff"}, "UTF-8"},
	} {
		if err := c.reply.Send(); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Reply{Base: f.Base, Option: "allow_once", Message: "<ok>"}).Send(); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(f.Base + ".req.response")
	if want := `{"outcome":"selected","request_id":"q/1","option_id":"allow_once","message":"<ok>"}` + "\n"; string(got) != want {
		t.Errorf("%s", got)
	}
	again := Reply{Base: f.Base, Option: "reject_once"}
	if err := again.Send(); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a second answer: %v", err)
	}
	if again.Force = true; again.Send() != nil {
		t.Error("a second answer by force was refused")
	}
	if err := (Reply{Base: f.Base, Option: "allow_once", Request: "q/1"}).Send(); err != nil {
		t.Errorf("by its id: %v", err)
	}
	if d := cmp.Diff([]string{"perm.q%2F1.req", "perm.q%2F1.req.response", "perm.req", "perm.req.response"}, f.left(t)); d != "" {
		t.Error(d)
	}
	write(t, f.Base+".req", `{"request_id":"1","options":[{"optionId":"why","requiresMessage":true}]}`)
	if err := (Reply{Base: f.Base, Option: "why", Force: true}).Send(); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--message") {
		t.Errorf("an option that wants a message: %v", err)
	}
	write(t, f.Base+".req", `no json`)
	if err := again.Send(); !errors.Is(err, ErrRefused) {
		t.Errorf("a question that is none: %v", err)
	}
}
