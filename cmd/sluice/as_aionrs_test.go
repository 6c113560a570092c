//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/script"
)

// A talk is a conversation with the real program, by a client that keeps to the document: it waits for ready, then sends commands
// and reads events, each within a time.
type talk struct {
	*run
	events chan line
	told   []line // all that it said
	mind   *mind
}

// A mind is what the model was asked.
type mind struct {
	sync.Mutex
	requests []string
	refused  []string // why it would not answer
}

type line = map[string]any

// newTalk prepares a conversation; the model says what the script says.
func newTalk(t *testing.T, text string, args ...string) *talk {
	t.Helper()
	d, err := dialect.Lookup("aionrs")
	if err != nil {
		t.Fatal(err)
	}
	a := &talk{run: newRun(t, d), mind: &mind{}}
	a.program, a.silent = "aionrs", true
	a.args = append([]string{"--json-stream", "--provider", "anthropic", "--model", "scripted"}, args...)
	if text == "" {
		text = greets
	}
	s, err := script.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	server := httptest.NewServer(modelserver.New(s, modelserver.Options{
		AccessKey: "AKID", SecretKey: "SECRET",
		Record: func(q modelserver.Recorded) {
			a.mind.Lock()
			defer a.mind.Unlock()
			a.mind.requests = append(a.mind.requests, string(q.Body))
		},
		Log: func(e modelserver.Entry) {
			a.mind.Lock()
			defer a.mind.Unlock()
			if e.Refused != "" {
				a.mind.refused = append(a.mind.refused, e.Refused)
			}
		},
	}))
	t.Cleanup(server.Close)
	a.set("ANTHROPIC_BASE_URL", server.URL)
	a.set("OPENAI_BASE_URL", server.URL)
	a.set("OPENAI_API_KEY", "sk-openai-0123456789")
	return a
}

// spawn starts the program.
func (a *talk) spawn() *talk {
	a.Helper()
	a.events = make(chan line, 1000)
	a.start(func(_ *run, in *os.File) (all []byte) {
		defer close(a.events)
		for r := bufio.NewReader(in); ; {
			data, err := r.ReadBytes('\n')
			all = append(all, data...)
			if len(data) > 0 {
				var l line
				if json.Unmarshal(data, &l) != nil {
					l = line{"type": "not JSON", "line": string(data)}
				}
				a.events <- l
			}
			if err != nil {
				return all
			}
		}
	})
	return a
}

// open starts the program and waits for ready.
func (a *talk) open() *talk {
	a.Helper()
	a.spawn().expect("ready")
	return a
}

// again is a later process in the same world.
func (a *talk) again(args ...string) *talk {
	r := *a.run
	r.errs = bytes.Buffer{}
	r.args = append([]string{"--json-stream", "--provider", "anthropic", "--model", "scripted"}, args...)
	return &talk{run: &r, mind: a.mind}
}

// raw sends a line as it stands.
func (a *talk) raw(text string) {
	a.Helper()
	if _, err := a.mouth.WriteString(text + "\n"); err != nil {
		a.Fatal(err)
	}
}

// send sends a command.
func (a *talk) send(fields line) {
	a.Helper()
	data, err := json.Marshal(fields)
	if err != nil {
		a.Fatal(err)
	}
	a.raw(string(data))
}

func (a *talk) message(id, input string) {
	a.send(line{"type": "message", "msg_id": id, "input": input})
}
func (a *talk) approve(call, scope string) {
	a.send(line{"type": "tool_approve", "call_id": call, "scope": scope})
}
func (a *talk) deny(call, reason string) {
	a.send(line{"type": "tool_deny", "call_id": call, "reason": reason})
}
func (a *talk) mode(mode string) { a.send(line{"type": "set_mode", "mode": mode}) }

// next is the next event.
func (a *talk) next() line {
	a.Helper()
	select {
	case l, ok := <-a.events:
		if !ok {
			a.Fatalf("the program has ended after %s; stderr: %s", a.types(), a.errs.Bytes())
		}
		a.told = append(a.told, l)
		return l
	case <-time.After(patient):
		a.Fatalf("nothing comes after %s", a.types())
	}
	return nil
}

// types are the types of all events so far.
func (a *talk) types() string {
	var list []string
	for _, l := range a.told {
		list = append(list, fmt.Sprint(l["type"]))
	}
	return strings.Join(list, " ")
}

// expect reads events of exactly these types, and returns the last.
func (a *talk) expect(types ...string) (l line) {
	a.Helper()
	for _, want := range types {
		if l = a.next(); l["type"] != want {
			a.Fatalf("%v comes, want %s (so far: %s)", l, want, a.types())
		}
	}
	return l
}

// until reads on to an event of a type.
func (a *talk) until(typ string) line {
	a.Helper()
	for {
		if l := a.next(); l["type"] == typ {
			return l
		}
	}
}

// reply sends a message and reads its whole stream.
func (a *talk) reply(id, input string) []line {
	a.Helper()
	from := len(a.told)
	a.message(id, input)
	for l := a.until("stream_end"); l["msg_id"] != id; l = a.until("stream_end") {
	}
	return a.told[from:]
}

// wants compares a field, by its path.
func (a *talk) wants(l line, path string, want any) {
	a.Helper()
	var got any = l
	for key := range strings.SplitSeq(path, ".") {
		m, _ := got.(line)
		got = m[key]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		a.Errorf("%s is %v, want %v: %v", path, got, want, l)
	}
}

// close ends stdin, and sees to it that the program exits with this code.
func (a *talk) close(code int) {
	a.Helper()
	a.mouth.Close()
	a.finish(code)
}

// term sends SIGTERM, and likewise.
func (a *talk) term() {
	a.Helper()
	a.signal(syscall.SIGTERM)
	a.finish(143)
}

// finish waits for the end, and looks at everything that must hold of every conversation.
func (a *talk) finish(code int) {
	a.Helper()
	a.wait()
	for l := range a.events {
		a.told = append(a.told, l)
	}
	if a.exit != code {
		a.Errorf("exit %d, want %d; stderr: %s", a.exit, code, a.errs.Bytes())
	}
	a.checkStrays()
	a.lint(a.dialect, a.out)
	if len(a.told) > 0 && a.told[0]["type"] == "ready" {
		a.session, _ = a.told[0]["session_id"].(string)
		data, err := os.ReadFile(a.journal())
		if err != nil {
			a.Error(err)
		}
		a.lint(dialect.All()[0], data)
	}
	ended := map[any]bool{}
	open := 0
	for _, l := range a.told {
		if msg := l["msg_id"]; msg != nil && msg != "" && ended[msg] {
			a.Errorf("after its stream_end comes %v", l)
		}
		switch l["type"] {
		case "stream_start":
			open++
		case "stream_end":
			open--
			ended[l["msg_id"]] = true
		}
	}
	if open != 0 {
		a.Errorf("%d streams are not ended: %s", open, a.types())
	}
	for l := range strings.Lines(a.errs.String()) {
		if !strings.HasPrefix(l, "sluice: ") {
			a.Errorf("stderr: %s", l)
		}
	}
	a.mind.Lock()
	defer a.mind.Unlock()
	for _, why := range a.mind.refused {
		if !strings.Contains(why, "could not be read") { // it was stopped while it asked
			a.Errorf("the model refused a request: %s", why)
		}
	}
	if a.Failed() {
		a.Logf("told:\n%s", clipped(a.out))
	}
}

// sent is what the model was sent last.
func (a *talk) sent() string {
	a.Helper()
	a.mind.Lock()
	defer a.mind.Unlock()
	if len(a.mind.requests) == 0 {
		a.Fatal("the model was not asked")
	}
	return a.mind.requests[len(a.mind.requests)-1]
}

// model says whether the last request holds a text.
func (a *talk) model(text string) {
	a.Helper()
	if sent := a.sent(); !strings.Contains(sent, text) {
		a.Errorf("the model was not sent %q: %s", text, clipped([]byte(sent)))
	}
}

// of are the events of a type.
func of(list []line, typ string) (found []line) {
	for _, l := range list {
		if l["type"] == typ {
			found = append(found, l)
		}
	}
	return found
}

// keys are the fields of an object, in order.
func keys(l any) string {
	m, _ := l.(line)
	var list []string
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}
