//go:build unix

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/script"
	"github.com/sluice-dev/sluice/journal"
)

// working is a piece of work that has all in it which a kill may interrupt: thoughts and text in small pieces, commands that
// take a while, a question, a sub-agent, a compaction. Wherever it is resumed, it goes on from what its history holds.
var working = `
chunk: 6
delay: 1ms
usage: {input: 100, output: 10}
conversations:
- when: {last: about to be shortened}
  steps: [{text: "Folded: half of the work is done, the other half is not.", repeat: 99}]
- when: {prompt: Folded}
  steps:
  - {text: The other half., call: {tool: bash, input: {command: "echo $$ >$STRAYS/$$; echo last; sleep 0.02; echo $RANDOM$RANDOM"}}}
  - {text: All is done now., repeat: 99}
- when: {prompt: ^Child}
  steps:
  - {text: I am the child., call: {tool: bash, input: {command: "echo $$ >$STRAYS/$$; echo child; sleep 0.02"}}}
  - {text: The child is done., repeat: 99}
steps:
- thinking: What is to be done, and what comes first? It may well be that nobody knows, but somebody has to find out.
  text: I begin with a command.
  calls:
  - {tool: bash, input: {command: "echo $$ >$STRAYS/$$; echo begin; sleep 0.02; echo end"}}
  - {tool: bash, input: {command: "echo $$ >$STRAYS/$$; for i in 1 2 3 4 5 6; do echo $i; sleep 0.005; done"}}
- {text: May I?, chunk: 10000, call: {tool: bash, input: {command: "ask ` + asked + `"}}}
- {text: Then somebody else., call: {tool: task, input: {description: a child, prompt: Child of the work.}}}
- {text: The window fills., call: {tool: bash, input: {command: "echo $RANDOM$RANDOM"}}, usage: {input: 9000, output: 10}, repeat: 99}
`

// asked makes a line longer than a narrow pipe holds: who stops reading in its middle stops the program right there.
var asked = strings.Repeat("may I ", 1400)

// A moment is when a run is killed: after a time, at a line that the reader sees, or when the server is asked for something.
type moment struct {
	after time.Duration
	sight string // in stdout; the reader reads no further
	asked string // in a request
}

// A mortal is a session whose runs are killed.
type mortal struct {
	*run
	mu    sync.Mutex
	asked string // kill when a request says this; empty: not
}

// places are what may be interrupted; all must have been, in the end.
var places = []string{"text", "thought", "call", "question", "agent", "compaction"}

// Killed at any moment, once or several times in a row, a session is resumed: nothing that was shown is lost, no request is
// refused, and the work is done in the end.
func TestKilledAndResumed(t *testing.T) {
	sessions := 200
	if testing.Short() {
		sessions = 24
	}
	began := time.Now()
	m := newMortal(t, dialect.All()[0])
	m.live(moment{})
	m.finished()
	usual := time.Since(began) * 3 / 2 // many at once take longer
	var mu sync.Mutex
	hit := map[string]int{}
	t.Run("kill", func(t *testing.T) {
		for n := range sessions {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(4, uint64(n)))
				d := dialect.All()[0]
				if n%4 == 2 { // sights are native ones
					d = dialect.All()[n/4%len(dialect.All())]
				}
				m := newMortal(t, d)
				for _, at := range moments(n, random, usual) {
					m.live(at)
					mu.Lock()
					for _, place := range m.interrupted() {
						hit[place]++
					}
					mu.Unlock()
					if t.Failed() {
						return
					}
				}
				m.live(moment{})
				m.finished()
			})
		}
	})
	t.Logf("a run takes %v; interrupted: %v", usual, hit)
	for _, place := range places {
		if hit[place] == 0 && !testing.Short() { // a few sessions may miss one
			t.Errorf("no kill hit a %s", place)
		}
	}
}

// moments are when the runs of a session are killed.
func moments(n int, random *rand.Rand, usual time.Duration) (list []moment) {
	sights := []moment{
		{sight: `"kind":"gate.asked"`}, {asked: "about to be shortened"}, {sight: `"kind":"tool.output"`}, {sight: `"kind":"agent.started"`},
		{sight: `"kind":"thought.delta"`}, {sight: `"kind":"text.delta"`}, {sight: `"kind":"compacted"`}, {sight: `"kind":"turn.ended"`}, {sight: `"kind":"reply.done"`},
	}
	for range 1 + random.IntN(3) {
		list = append(list, moment{after: time.Duration(random.Int64N(int64(usual)))})
	}
	if n%4 == 0 { // moments that are too short to be hit by chance
		list[0] = sights[n/4%len(sights)]
	}
	return list
}

func newMortal(t *testing.T, d *dialect.Dialect) *mortal {
	m := &mortal{run: newRun(t, d)}
	s, err := script.Parse([]byte(working))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(modelserver.New(s, modelserver.Options{Key: key, Record: m.request, Log: func(e modelserver.Entry) {
		if half := "the request could not be read"; e.Refused != half && (e.Refused != "" || e.Status != 200 && e.Status != 0) { // who is killed while he asks
			t.Errorf("the server refused a request: %d %s %s", e.Status, e.Refused, e.Fault)
		}
	}}))
	t.Cleanup(server.Close)
	m.set("ANTHROPIC_BASE_URL", server.URL)
	m.configure(`[prices."anthropic/scripted"]` + "\nwindow = 10_000\n")
	return m
}

// configure writes the user's configuration.
func (r *run) configure(text string) {
	r.Helper()
	r.write("home/sluice/config.toml", text)
}

// write writes a file of the run's world.
func (r *run) write(name, text string) {
	r.Helper()
	if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o700); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

func (m *mortal) request(q modelserver.Recorded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked != "" && bytes.Contains(q.Body, []byte(m.asked)) {
		m.kill()
	}
}

func (m *mortal) kill() { _ = m.cmd.Process.Kill() } // it may have ended by itself

// live runs the session until it is killed, or ends by itself.
func (m *mortal) live(at moment) {
	m.args = []string{
		"run", "--format", m.dialect.Name, "--model", "anthropic/scripted", "-C", m.path("work"),
		"--allow", "bash", "--allow", "edit", "--allow", "outside", "--allow", "task", "--ask", "bash(ask *)", "--denied-ok",
	}
	switch events := m.events(); {
	case !exists(m.journal()):
		m.args = append(m.args, "--session-id", m.session, "Do it.")
	case count(events, "prompt") == 0:
		m.args = append(m.args, "--resume", m.session, "Do it.")
	default:
		m.args = append(m.args, "--resume", m.session)
	}
	before := m.journalled()
	m.errs.Reset()
	m.narrow = at.sight != ""
	m.mu.Lock()
	m.start(m.reader(at))
	m.asked = at.asked
	m.mu.Unlock()
	if at.after > 0 {
		this := m.cmd.Process
		defer time.AfterFunc(at.after, func() { _ = this.Kill() }).Stop()
	}
	m.wait()
	m.mu.Lock()
	m.asked = ""
	m.mu.Unlock()
	if m.exit != 0 && m.exit != -1 {
		m.Errorf("exit %d: %s%s", m.exit, m.errs.Bytes(), clipped(m.out))
	}
	after := m.journalled()
	if !bytes.HasPrefix(after, before) {
		m.Errorf("the resumed run changed what was written before")
	}
	m.checkShown()
	m.awaitNobody()
}

// reader reads stdout up to what it is to see, and kills the program there: what follows is still in the pipe, or was never
// written, since the program waits for the reader.
func (m *mortal) reader(at moment) func(*run, *os.File) []byte {
	if at.sight == "" {
		return nil
	}
	return func(r *run, in *os.File) (all []byte) {
		buf := make([]byte, 512)
		for {
			n, err := in.Read(buf)
			all = append(all, buf[:n]...)
			if bytes.Contains(all, []byte(at.sight)) {
				m.kill()
				<-r.over // while it lives, it must not get any further
				return append(all, readAll(r, in)...)
			}
			if err != nil {
				return all
			}
		}
	}
}

// journalled are the whole lines of the journal.
func (m *mortal) journalled() []byte {
	data, err := os.ReadFile(m.journal())
	if err != nil && !os.IsNotExist(err) {
		m.Fatal(err)
	}
	return data[:bytes.LastIndexByte(data, '\n')+1]
}

func (m *mortal) events() []map[string]any { return m.parse(m.journalled()) }

// checkShown: what the last run showed is what the journal has of it, told by the same dialect; the journal may have more.
func (m *mortal) checkShown() {
	if len(m.out) == 0 {
		return
	}
	var list []event.Event
	begun := 0
	for l, err := range journal.Scan(bytes.NewReader(m.journalled()), nil) {
		if err != nil {
			m.Fatal(err)
		}
		e, err := l.Event()
		if err != nil {
			m.Fatal(err)
		}
		if e.Kind == "run.started" {
			begun = len(list)
		}
		list = append(list, e)
	}
	var told bytes.Buffer
	w := dialect.NewWriter(&told, m.dialect, dialect.Options{})
	for i, e := range list {
		if i < begun {
			w.Recall(e)
		} else if err := w.Put(e); err != nil {
			m.Fatal(err)
		}
	}
	if !bytes.HasPrefix(told.Bytes(), m.out) {
		m.Errorf("what was shown is not in the journal: shown\n%s\nkept\n%s", clipped(m.out), clipped(told.Bytes()))
	}
}

// awaitNobody waits until nothing runs any more that the run started itself.
func (m *mortal) awaitNobody() {
	files, err := os.ReadDir(m.path("strays"))
	if err != nil {
		m.Fatal(err)
	}
	for _, f := range files {
		var pid int
		if _, err := fmt.Sscan(f.Name(), &pid); err != nil {
			m.Fatal(err)
		}
		for end := time.Now().Add(5 * time.Second); alive(pid); time.Sleep(2 * time.Millisecond) {
			if time.Now().After(end) {
				m.Errorf("a command (%d) is left behind", pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
				break
			}
		}
		if err := os.Remove(filepath.Join(m.path("strays"), f.Name())); err != nil {
			m.Fatal(err)
		}
	}
}

// interrupted says what was going on when the last run was killed.
func (m *mortal) interrupted() (list []string) {
	open := map[string]int{}
	full := false
	for _, e := range m.events() {
		switch body, _ := e["body"].(map[string]any); e["kind"] {
		case "run.started":
			clear(open)
			full = false
		case "text.delta":
			open["text"] = 1
		case "text":
			open["text"] = 0
		case "thought.delta":
			open["thought"] = 1
		case "thought":
			open["thought"] = 0
		case "tool.started":
			open["call"]++
		case "tool.done", "tool.failed", "tool.denied", "tool.cancelled":
			open["call"] = max(0, open["call"]-1)
			open["compaction"] = 0
			if full && open["call"] == 0 {
				open["compaction"] = 1
			}
		case "gate.asked":
			open["question"] = 1
		case "gate.denied":
			open["question"] = 0
		case "agent.started":
			open["agent"] = 1
		case "agent.ended":
			open["agent"] = 0
		case "turn.started", "compacted", "run.done":
			full, open["compaction"] = false, 0
		case "turn.ended":
			used, _ := body["context"].(map[string]any)
			n, _ := used["used"].(float64)
			full = n > 8000
		}
	}
	for place, n := range open {
		if n > 0 {
			list = append(list, place)
		}
	}
	return list
}

// finished: the work is done, and the journal is whole.
func (m *mortal) finished() {
	m.Helper()
	if m.exit != 0 || m.errs.Len() > 0 {
		m.Errorf("exit %d: %s", m.exit, m.errs.Bytes())
	}
	data := m.journalled()
	m.lint(dialect.All()[0], data)
	m.lint(m.dialect, m.out)
	var sum fold.Digest
	if err := fold.Run(journal.Scan(bytes.NewReader(data), fold.Wanted(&sum)), &sum); err != nil {
		m.Error(err)
	}
	if s := sum.Summary(); s.Outcome != event.Done || s.Unended != 0 {
		m.Errorf("the digest says %q, and %d runs without an end", s.Outcome, s.Unended)
	}
	if events := m.events(); count(events, "compacted") == 0 || count(events, "tool.done") == 0 || !bytes.Contains(data, []byte("All is done now.")) {
		m.Error("the work was not done")
	}
	if m.Failed() {
		m.Logf("journal:\n%s", clipped(data))
	}
}
