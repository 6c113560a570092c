package control

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

// blocks are the fenced blocks of a document, by the word behind the fence.
func blocks(t *testing.T, doc, word string) (list []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", doc))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range strings.Split(string(data), "```"+word+"\n")[1:] {
		b, _, _ = strings.Cut(b, "```")
		list = append(list, b)
	}
	return list
}

// TestControlDocument plays the examples of docs/control.md, one after another, over one connection.
func TestControlDocument(t *testing.T) {
	p := newPlay(t, "r1")
	p.say("I shall look.")
	p.ask(within(t), "q1")
	s := serve(t, ServerOptions{}, p)
	c, err := net.Dial("unix", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	r := bufio.NewReader(c)
	examples := blocks(t, "control.md", "rpc")
	if len(examples) < 5 {
		t.Fatalf("only %d examples", len(examples))
	}
	for _, example := range examples {
		var want []string
		check := func() { // answers and events may come in any order among themselves
			for len(want) > 0 {
				got, err := r.ReadString('\n')
				if err != nil {
					t.Fatalf("%v, and this is missing: %s", err, want)
				}
				i := 0
				for i < len(want) && !shown(want[i]).MatchString(strings.TrimSuffix(got, "\n")) {
					i++
				}
				if i == len(want) {
					t.Fatalf("got %s\nwant one of %s", got, strings.Join(want, "\n"))
				}
				want = append(want[:i], want[i+1:]...)
			}
		}
		for line := range strings.Lines(example) {
			line = strings.TrimSuffix(line, "\n")
			if sent, ok := strings.CutPrefix(line, "> "); ok {
				check()
				if _, err := c.Write([]byte(sent + "\n")); err != nil {
					t.Fatal(err)
				}
			} else if w, ok := strings.CutPrefix(line, "< "); ok {
				want = append(want, w)
			} else {
				t.Fatalf("neither sent nor received: %s", line)
			}
		}
		check()
	}
	for name := range methods {
		if data, _ := os.ReadFile(filepath.Join("..", "..", "docs", "control.md")); !strings.Contains(string(data), "`"+name+"`") {
			t.Errorf("the document does not know %s", name)
		}
	}
}

func shown(text string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(text), "…", ".*") + "$")
}

// TestPermissionDocument holds the examples of docs/permission-handlers.md to what is written and read.
func TestPermissionDocument(t *testing.T) {
	examples := blocks(t, "permission-handlers.md", "json")
	f := &Files{Base: "x", Session: func() string { return "ses-1" }}
	var want, got map[string]any
	if err := json.Unmarshal([]byte(examples[0]), &want); err != nil {
		t.Fatal(err)
	}
	body := f.write(event.GateAsked{Request: "q1", Tool: "bash", Question: "allow bash ls?", Permission: "bash", Options: gate.Options(), Input: event.Raw(`{"command":"ls"}`)})
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	for key, v := range want["payload"].(map[string]any) { // of which the document shows a part
		if d := cmp.Diff(v, got["payload"].(map[string]any)[key]); d != "" {
			t.Errorf("payload.%s: %s", key, d)
		}
	}
	delete(want, "payload")
	delete(got, "payload")
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	var r response
	if err := json.Unmarshal([]byte(examples[1]), &r); err != nil || r != (response{Selected, "q1", "allow_once", "fine"}) {
		t.Errorf("%+v, %v", r, err)
	}
}
