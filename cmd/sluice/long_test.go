//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/script"
)

// window is how many tokens fit, in a long run.
const window = 16_000

// A long run has many turns, and its history is shortened again and again.
type longRun struct {
	*run
	mu     sync.Mutex
	bodies [][]byte // of the requests, in order
	peak   int      // memory, in KiB
}

// Five hundred turns take no more memory than fifty; every request fits into the window; and between compactions each begins,
// byte for byte, as the one before it.
func TestLongRun(t *testing.T) {
	long := 500
	if testing.Short() {
		long = 150
	}
	short, l := runLong(t, 50), runLong(t, long)
	largest := 0
	for _, body := range l.bodies {
		largest = max(largest, len(body))
	}
	t.Logf("%d KiB after 50 turns, %d KiB after %d; %d requests, the largest has %d bytes", short.peak, l.peak, long, len(l.bodies), largest)
	if l.peak > short.peak+10<<10 {
		t.Errorf("memory grows: %d KiB after 50 turns, %d KiB after %d", short.peak, l.peak, long)
	}
	if largest < 4*window/2 {
		t.Errorf("the largest request has %d bytes: nothing was put to the test", largest)
	}
	l.checkRequests(long)
}

// runLong is a run of so many turns. Each turn has a command that counts, so that no two are alike.
func runLong(t *testing.T, turns int) *longRun {
	l := &longRun{run: newRun(t, dialect.All()[0])}
	s, err := script.Parse([]byte(longScript(turns)))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(modelserver.New(s, modelserver.Options{Key: key, Record: l.record, Log: func(e modelserver.Entry) {
		if e.Status != 200 {
			t.Errorf("the server refused a request: %d %s %s", e.Status, e.Refused, e.Fault)
		}
	}}))
	t.Cleanup(server.Close)
	l.set("ANTHROPIC_BASE_URL", server.URL)
	l.configure(fmt.Sprintf("[prices.\"anthropic/scripted\"]\nwindow = %d\n", window))
	l.write("work/n", "0")
	l.args = append(l.args, "--max-turns", "0")
	l.mu.Lock() // nobody looks at the process before it is there
	l.start(nil)
	l.mu.Unlock()
	l.wait()
	if l.exit != 0 || l.peak == 0 {
		t.Fatalf("exit %d, %d KiB: %s%s", l.exit, l.peak, l.errs.Bytes(), clipped(l.out))
	}
	events := l.checkJournal(fault{outcome: event.Done})
	if n := count(events, "tool.done"); n < turns || n > turns+1 {
		t.Errorf("%d calls, want %d", n, turns)
	}
	return l
}

// longScript has the tokens of each answer grow as its history does. What is summed up begins anew.
func longScript(turns int) string {
	var steps strings.Builder
	for n := range 60 {
		fmt.Fprintf(&steps, `
  - text: Turn by turn, and so on, and so on.
    call: {tool: bash, input: {command: "n=$(($(cat n) + 1)); echo $n >n; echo turn $n $(head -c 1500 /dev/zero | tr '\\0' x)"}}
    usage: {input: %d, output: 40}`, 4000+500*n)
	}
	return `
conversations:
- {when: {last: about to be shortened}, steps: [{text: "Folded: some turns are over.", usage: {input: 9000, output: 10}, repeat: 99}]}
- {when: {last: '^turn (` + fmt.Sprint(turns) + "|" + fmt.Sprint(turns+1) + `) '}, steps: [{text: All is done., repeat: 99}]}
steps:` + steps.String()
}

func (l *longRun) record(q modelserver.Recorded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies = append(l.bodies, q.Body)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.cmd.Process.Pid))
	if err != nil {
		l.Error(err)
		return
	}
	_, line, _ := bytes.Cut(status, []byte("VmHWM:"))
	if _, err := fmt.Sscan(string(line), &l.peak); err != nil { // the last one counts
		l.Error(err)
	}
}

// marks say what may be cached. They move.
var marks = regexp.MustCompile(`,?"cache_control":\{[^}]*\}`)

// checkRequests looks at what was sent.
func (l *longRun) checkRequests(turns int) {
	var before map[string]json.RawMessage
	compactions, kept := 0, 0
	for i, body := range l.bodies {
		if tokens := len(body) / 4; tokens > window {
			l.Errorf("request %d has about %d tokens, and %d fit", i, tokens, window)
		}
		if n := len(marks.FindAll(body, -1)); n == 0 {
			l.Errorf("request %d asks for no cache", i)
		}
		var now map[string]json.RawMessage
		if err := json.Unmarshal(marks.ReplaceAll(body, nil), &now); err != nil {
			l.Fatal(err)
		}
		if before != nil {
			l.follows(i, before, now)
			kept++
		}
		before = now
		if bytes.Contains(body, []byte("about to be shortened")) { // asking for that follows, too; what comes next does not
			compactions++
			before = nil
		}
	}
	if compactions < turns/50 || kept < turns/2 {
		l.Errorf("%d compactions, %d requests that follow one: nothing was put to the test", compactions, kept)
	}
	l.Logf("%d compactions; %d requests begin as the one before", compactions, kept)
}

// follows: all but the messages is the same, and the messages go on where they were.
func (l *longRun) follows(i int, before, now map[string]json.RawMessage) {
	for name, was := range before {
		is := now[name]
		if name == "messages" {
			was = bytes.TrimSuffix(was, []byte("]"))
			is = is[:min(len(is), len(was))]
		}
		if !bytes.Equal(was, is) {
			l.Errorf("request %d: %s is not as in the one before:\n%s\n%s", i, name, clipped(was), clipped(is))
		}
	}
	if len(before) != len(now) {
		l.Errorf("request %d has other fields than the one before", i)
	}
}
