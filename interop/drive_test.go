//go:build interop && linux

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A situation is a run that other programs do not always tell the truth about.
type situation struct {
	name    string
	prompt  string
	steps   func(a agent, w *world) string // what the model says
	flags   []string                       // of sluice drive
	format  string                         // of its stdout; the journal is native in any case
	during  func(d *drive)                 // what happens while it runs
	meets   func(d *drive)                 // what must be true afterwards
	exit    int
	outcome string

	instead    string                     // why the agent is not run by itself, if it is not
	everything bool                       // and may do what it likes
	upset      func(w *world, p *process) // what happens to it
}

// slow is a command that says that it has begun, and does not end.
const slow = "touch begun; tail -f /dev/null"

var situations = []situation{
	{name: "hello", prompt: "Say hello.", format: "native", outcome: "done",
		steps: func(agent, *world) string { return "  - text: Hello from the script.\n" },
		meets: func(d *drive) { d.said("Hello from the script.") },
	},
	{name: "three tools", prompt: "Use three tools.", format: "avenor", flags: []string{"--mode", "yolo"}, outcome: "done", everything: true,
		steps: func(a agent, w *world) string {
			return fmt.Sprintf("  - call: %s\n  - call: %s\n  - call: %s\n  - text: All three are done.\n",
				a.shell("echo shell > shell.txt"), a.write(filepath.Join(w.project, "written.txt"), "written\n"), a.read(filepath.Join(w.project, "README.md")))
		},
		meets: func(d *drive) {
			d.said("All three are done.")
			if n := len(kinds(d.events, "tool.done")); n != 3 || len(kinds(d.events, "tool.called")) != 3 || !d.w.has("shell.txt") || !d.w.has("written.txt") {
				d.t.Errorf("%d tools are done; %v", n, kinds(d.events, "tool.called", "tool.done", "tool.failed", "tool.denied"))
			}
		},
	},
	{name: "permission allowed", prompt: "Touch it.", format: "native", flags: []string{"--on-ask", "forward"}, outcome: "done", steps: touch, instead: "nobody could answer",
		during: func(d *drive) { d.answer("allow") },
		meets: func(d *drive) {
			if by := d.one("gate.allowed").field("by"); by != "control" || !d.w.has("touched.txt") || len(kinds(d.events, "tool.done")) != 1 {
				d.t.Errorf("allowed by %q: %v", by, d.events)
			}
		},
	},
	{name: "permission denied", prompt: "Touch it.", format: "avenor", flags: []string{"--on-ask", "forward"}, outcome: "denied", exit: 5, steps: touch,
		during: func(d *drive) { d.answer("reject") },
		meets: func(d *drive) {
			if by := d.one("gate.denied").field("by"); by != "control" || d.w.has("touched.txt") || d.one("tool.denied").Call != d.one("tool.called").Call {
				d.t.Errorf("denied by %q: %v", by, d.events)
			}
		},
	},
	{name: "401", prompt: "Say hello.", format: "native", outcome: "failed", exit: 3,
		steps: func(agent, *world) string {
			return "  - text: never\n    fault: {status: 401, message: the key is not good, headers: {x-should-retry: \"false\"}}\n"
		},
		meets: func(d *drive) {
			if why := d.one("run.failed").field("reason"); why == "" {
				d.t.Errorf("there is no reason: %v", d.events)
			}
		},
	},
	{name: "429 once", prompt: "Say hello.", format: "avenor", outcome: "done",
		steps: func(agent, *world) string {
			return "  - text: Hello after all.\n    fault: {status: 429, message: slow down, headers: {retry-after: \"1\"}, times: 1}\n"
		},
		meets: func(d *drive) {
			if d.said("Hello after all."); !strings.Contains(d.w.log(), ": 429 ") {
				d.t.Errorf("nothing was refused: %s", d.w.log())
			}
		},
	},
	{name: "SIGTERM in a tool", prompt: "Take long.", format: "native", flags: []string{"--mode", "yolo"}, outcome: "cancelled", exit: 143, steps: takeLong, everything: true,
		during: func(d *drive) {
			if d.w.until("the tool begins", func() bool { return d.w.has("begun") }) {
				d.process.cmd.Process.Signal(syscall.SIGTERM)
			}
		},
		meets: func(d *drive) { d.one("tool.cancelled") },
		upset: func(w *world, p *process) { p.cmd.Process.Signal(syscall.SIGTERM) },
	},
	{name: "killed in a tool", prompt: "Take long.", format: "avenor", flags: []string{"--mode", "yolo"}, outcome: "failed", exit: 3, steps: takeLong, everything: true,
		during: func(d *drive) {
			if d.w.until("the tool begins", func() bool { return d.w.has("begun") }) {
				d.w.end(children(d.process.cmd.Process.Pid)...)
			}
		},
		meets: func(d *drive) {
			if why := d.one("run.failed").field("reason"); !strings.Contains(why, "ended before it had answered") {
				d.t.Errorf("%s", why)
			}
		},
		upset: func(w *world, p *process) { p.cmd.Process.Kill() },
	},
	{name: "follow-up", prompt: "Say one.", format: "native", flags: []string{"--park", "6s"}, outcome: "done", steps: two, instead: "it takes one prompt",
		during: func(d *drive) {
			if d.replies(1) {
				d.w.ok(d.w.command(sluice(d.t), "control", "--socket", d.socket, "prompt", "And now two."))
				d.replies(2)
			}
		},
		meets: func(d *drive) { d.said("This is one."); d.said("And this is two."); d.remembered() },
	},
	{name: "resume", prompt: "Say one.", format: "avenor", outcome: "done", steps: two, instead: "not compared",
		meets: func(d *drive) {
			d.said("This is one.")
			session := len(kinds(d.events, "diag"))
			if d.a.rest != nil {
				d.a.rest()
			}
			again := d.w.start(sluice(d.t), d.args("--resume", "latest", "And now two.")...)
			if !again.wait(patience) || again.code != 0 {
				d.t.Errorf("exit %d: %s%s", again.code, again.out.String(), again.err.String())
			}
			_, d.events = d.w.journal()
			d.said("And this is two.")
			d.remembered()
			for _, e := range kinds(d.events, "diag")[session:] {
				if strings.Contains(e.field("text"), "the guest's session is") {
					d.t.Errorf("it is another session: %v", e)
				}
			}
		},
	},
}

func touch(a agent, w *world) string {
	return fmt.Sprintf("  - text: I shall touch it.\n    call: %s\n  - text: That was that.\n", a.shell("touch touched.txt"))
}

func takeLong(a agent, w *world) string {
	return fmt.Sprintf("  - text: It will take long.\n    call: %s\n  - text: That was long.\n", a.shell(slow))
}

func two(agent, *world) string { return "  - text: This is one.\n  - text: And this is two.\n" }

// script is a whole one. Agents ask for titles on the side.
func script(a agent, steps string) string {
	more := ""
	if a.seeded { // and no longer, when the conversation is opened again
		more = "  - when: {last: 'And now two'}\n    steps:\n      - text: never\n      - text: And this is two.\n      - text: And this is two.\n"
		steps = "  - text: never\n" + steps
	}
	return "usage: {input: 10, output: 5}\nconversations:\n  - when: {system: '(?i)title generator|generate a (short|concise|brief)[^.]*title'}\n    steps:\n      - text: A title\n" + more + "steps:\n" + steps
}

// A drive is a run of an agent by our program.
type drive struct {
	t       *testing.T
	w       *world
	a       agent
	s       situation
	socket  string
	process *process
	events  []entry
}

func (d *drive) args(more ...string) []string {
	args := []string{"drive", d.a.name, "--format", d.s.format, "--timeout", "3m"}
	if d.a.model != "" {
		args = append(args, "--model", d.a.model)
	}
	args = append(args, d.a.flags...)
	return append(args, more...)
}

// one is the only event of its kind.
func (d *drive) one(kind string) entry {
	d.t.Helper()
	list := kinds(d.events, kind)
	if len(list) != 1 {
		d.t.Errorf("there are %d %s, and not one: %v", len(list), kind, list)
		return entry{}
	}
	return list[0]
}

func (d *drive) said(text string) {
	d.t.Helper()
	if !slices.ContainsFunc(kinds(d.events, "text"), func(e entry) bool { return strings.TrimSpace(e.field("text")) == text }) {
		d.t.Errorf("it did not say %q: %v", text, kinds(d.events, "text"))
	}
}

// remembered says that the model was told the first answer again when it was asked for the second.
func (d *drive) remembered() {
	d.t.Helper()
	data, _ := os.ReadFile(d.w.served)
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "This is one.") && strings.Contains(line, "And now two.") {
			return
		}
	}
	d.t.Error("the model was not told what it had said")
}

// wait waits until the journal holds so many events of these kinds.
func (d *drive) wait(n int, want ...string) (found []entry) {
	d.t.Helper()
	d.w.until(want[0], func() bool {
		_, list := d.w.journal()
		found = kinds(list, want...)
		return len(found) >= n || d.process.wait(0)
	})
	return found
}

func (d *drive) replies(n int) bool {
	return len(d.wait(n, "reply.done", "reply.failed", "reply.cancelled")) >= n
}

// answer answers the question that is asked, from outside.
func (d *drive) answer(side string) {
	d.t.Helper()
	list := d.wait(1, "gate.asked")
	if len(list) == 0 {
		d.t.Errorf("nothing was asked")
		return
	}
	var asked struct {
		Request string
		Options []struct{ ID, Kind string }
	}
	json.Unmarshal(list[0].Body, &asked)
	for _, o := range asked.Options {
		if strings.HasPrefix(o.Kind, side) && !strings.HasSuffix(o.Kind, "always") {
			d.w.ok(d.w.command(sluice(d.t), "control", "--socket", d.socket, "answer-permission", asked.Request, o.ID))
			return
		}
	}
	d.t.Errorf("there is no way to %s: %s", side, list[0].Body)
}

// run has our program drive an agent through a situation.
func (d *drive) run() (result string) {
	d.t.Helper()
	before := d.t.Failed()
	flags := append(slices.Clone(d.s.flags), "--control-socket", d.socket)
	d.process = d.w.start(sluice(d.t), d.args(append(flags, d.s.prompt)...)...)
	if d.s.during != nil {
		d.s.during(d)
	}
	if !d.process.wait(patience) {
		d.t.Errorf("it does not end: %v", told(d.w.living()))
		d.process.cmd.Process.Kill()
		d.process.wait(patience)
		return "does not end"
	}
	if left := d.w.living(); len(left) > 0 {
		d.t.Errorf("left behind: %q", told(left))
	}
	file, events := d.w.journal()
	d.events = events
	d.truth(file)
	if d.s.meets != nil {
		d.s.meets(d)
	}
	if d.t.Failed() && !before {
		for _, e := range d.events {
			if e.Kind != "foreign" || os.Getenv("FOREIGN") != "" {
				d.t.Log(e)
			}
		}
		d.t.Logf("stdout: %.3000s\nstderr: %s\nmodel: %s", d.process.out.String(), d.process.err.String(), d.w.log())
	}
	if len(d.events) == 0 {
		return fmt.Sprintf("%d, nothing", d.process.code)
	}
	return fmt.Sprintf("%d, %s", d.process.code, d.events[len(d.events)-1].field("outcome"))
}

// truth checks what must be so in every situation: the exit code is the outcome, there is one end, each call has one, and the stream is
// what its specification says, in every dialect.
func (d *drive) truth(file string) {
	d.t.Helper()
	if d.process.code != d.s.exit {
		d.t.Errorf("exit code %d, and not %d", d.process.code, d.s.exit)
	}
	ends := kinds(d.events, "run.done", "run.failed", "run.cancelled")
	if len(ends) != 1 || ends[0].Seq != len(d.events) || ends[0].field("outcome") != d.s.outcome {
		d.t.Errorf("it did not end once, last and %s: %v", d.s.outcome, ends)
	}
	open := map[string]int{}
	for _, e := range d.events {
		switch e.Kind {
		case "tool.called":
			open[e.Call]++
		case "tool.done", "tool.failed", "tool.denied", "tool.cancelled":
			open[e.Call] += 10
		}
	}
	for id, n := range open {
		if n != 11 {
			d.t.Errorf("call %s was not begun and ended once: %d", id, n)
		}
	}
	stream := filepath.Join(d.w.dir, "stdout")
	write(d.t, stream, d.process.out.String())
	d.lint(d.s.format, stream)
	d.lint("native", file)
	for _, name := range []string{"aictrl", "grok", "avenor", "enso", "aionrs"} {
		to := filepath.Join(d.w.dir, name)
		write(d.t, to, d.w.ok(d.w.command(sluice(d.t), "convert", "--from", "native", "--to", name, file)))
		d.lint(name, to)
	}
}

func (d *drive) lint(name, file string) {
	d.t.Helper()
	if out, err := d.w.command(sluice(d.t), "lint", "--dialect", name, file).CombinedOutput(); err != nil {
		d.t.Errorf("%s: %v: %s", name, err, out)
	}
}

// alone runs the agent without us, and says what it says of itself.
func alone(t *testing.T, a agent, s situation) string {
	t.Helper()
	switch {
	case a.direct == nil:
		return "– (it cannot be run so)"
	case s.instead != "":
		return "– (" + s.instead + ")"
	}
	w := newWorld(t)
	w.with(a.set)
	w.model(script(a, s.steps(a, w)))
	a.setup(w)
	w.set("NO_COLOR=1", "CI=1")
	args := a.direct(s.prompt, s.everything)
	p := w.start(args[0], args[1:]...)
	limit := patience
	if s.upset != nil {
		w.until("the tool begins", func() bool { return w.has("begun") || p.wait(0) })
		s.upset(w, p)
		limit = 5 * time.Second
	}
	if !p.wait(limit) {
		return "does not end"
	}
	for end := time.Now().Add(2 * time.Second); len(w.living()) > 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond) // what it ends itself may take a moment
	}
	said := fmt.Sprintf("%d, %s", p.code, lastWord(p.out.Bytes()))
	if left := w.living(); len(left) > 0 {
		said += fmt.Sprintf("; %d left behind", len(left))
	}
	return said
}

// lastWord is the last event of an agent's own stream, in a few words.
func lastWord(out []byte) string {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var e struct {
		Type    string `json:"type"`
		Subtype string `json:"subtype"`
		Status  string `json:"status"`
		IsError bool   `json:"is_error"`
		Part    struct {
			Reason string `json:"reason"`
		} `json:"part"`
	}
	if json.Unmarshal(lines[len(lines)-1], &e) != nil || e.Type == "" {
		return "no event"
	}
	words := []string{e.Type}
	for _, word := range []string{e.Subtype, e.Status, e.Part.Reason} {
		if word != "" {
			words = append(words, word)
		}
	}
	if e.IsError {
		words = append(words, "is_error")
	}
	return strings.Join(words, " ")
}

// through takes an agent through all situations, and prints what became of them.
func through(t *testing.T, a agent, sets ...string) {
	fetch(t, a.name, append([]string{a.set}, sets...)...)
	var table strings.Builder
	fmt.Fprintf(&table, "\n| %s | by itself: exit code, last event | sluice drive: exit code, outcome |\n|---|---|---|\n", a.name)
	for _, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			own := alone(t, a, s)
			if why := a.cannot[s.name]; why != "" {
				fmt.Fprintf(&table, "| %s | %s | – (%s) |\n", s.name, own, why)
				return
			}
			w := newWorld(t)
			w.with(a.set)
			w.model(script(a, s.steps(a, w)))
			a.setup(w)
			d := &drive{t: t, w: w, a: a, s: s, socket: filepath.Join(w.dir, "socket")}
			ours := d.run()
			if t.Failed() {
				ours += " **wrong**"
			}
			fmt.Fprintf(&table, "| %s | %s | %s |\n", s.name, own, ours)
		})
	}
	fmt.Println(table.String())
}

func TestClaude(t *testing.T)    { through(t, claude) }
func TestClaudeTUI(t *testing.T) { through(t, claudeTUI) }
func TestCodex(t *testing.T)     { through(t, codex) }
func TestClaudeACP(t *testing.T) { through(t, claudeACP) }
func TestOpencode(t *testing.T)  { through(t, opencode) }
func TestGemini(t *testing.T)    { through(t, gemini) }
func TestQwen(t *testing.T)      { through(t, qwen) }
func TestPi(t *testing.T)        { through(t, pi) }
