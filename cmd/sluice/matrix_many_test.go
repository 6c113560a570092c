//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
)

// The first command of the README, with no key, no network and no model that anybody chose.
func TestFirstCommand(t *testing.T) {
	for _, d := range dialect.All() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, d)
			r.set("ANTHROPIC_API_KEY", "")
			for _, name := range []string{"OLLAMA_BASE_URL", "LLAMACPP_BASE_URL", "LMSTUDIO_BASE_URL"} {
				r.set(name, "http://"+r.closed()) // whatever runs on this machine
			}
			if err := os.WriteFile(r.path("work/apple.txt"), []byte("red\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			r.args = []string{"run", "--format", d.Name, "--session-id", session, "What is in this folder?"}
			r.start(nil)
			r.wait()
			if r.exit != 0 {
				t.Errorf("exit %d", r.exit)
			}
			if said := r.errs.String(); !strings.HasPrefix(said, "sluice: ") || !strings.Contains(said, "demo") || strings.Count(said, "\n") != 1 {
				t.Errorf("stderr does not say in one line which model it is: %q", said)
			}
			if !bytes.Contains(r.out, []byte("apple.txt")) {
				t.Errorf("it did not look: %s", r.out)
			}
			done := fault{outcome: event.Done}
			r.checkStream(done)
			events := r.checkJournal(done)
			if events[0]["kind"] != "run.started" || events[1]["kind"] != "catalog" || count(events, "tool.done") == 0 {
				t.Error("the run does not begin with run.started and catalog, or calls no tool")
			}
		})
	}
}

// Calls of one answer run at the same time: each of these ends when all have begun.
func TestFourCallsTakeAsLongAsOne(t *testing.T) {
	t.Parallel()
	r := newRun(t, dialect.All()[0])
	var calls strings.Builder
	for i := range 4 {
		fmt.Fprintf(&calls, `{tool: bash, input: {command: "touch here.%d; until [ -e here.0 -a -e here.1 -a -e here.2 -a -e here.3 ]; do sleep 0.02; done"}},`, i)
	}
	r.serve(`steps: [{calls: [` + calls.String() + `]}, {text: Done.}]`)
	r.start(nil)
	r.wait()
	if events := r.checkJournal(fault{outcome: event.Done}); count(events, "tool.done") != 4 {
		t.Fatalf("not all calls are done:\n%s", r.out)
	}
}

// Fifty runs share a machine, a home and a model, and none knows of another: each has its own answer, its journal is whole, and
// what it kills at its end is its own.
func TestFiftyRunsAtOnce(t *testing.T) {
	const runs = 50
	var script strings.Builder
	script.WriteString("conversations:\n")
	for i := range runs {
		fmt.Fprintf(&script, `- {when: {prompt: "^run %d$"}, steps: [{call: {tool: bash, input: {command: "stray s%d; sleep 0.$((%d %% 7)); kill -0 $(cat $STRAYS/s%d) && echo s%d is alive"}}}, {text: Answer %d.}]}`+"\n", i, i, i, i, i, i)
	}
	host := newRun(t, dialect.All()[0])
	host.serve(script.String())
	var all []*run
	for i := range runs {
		d := dialect.All()[i%len(dialect.All())]
		r := &run{T: t, dialect: d, dir: host.dir, program: host.program, env: host.env, session: fmt.Sprintf("%s-%d", session, i)}
		r.args = append(host.flags(d, r.session), fmt.Sprint("run ", i))
		r.start(nil)
		all = append(all, r)
	}
	for i, r := range all {
		r.wait()
		if r.exit != 0 || r.errs.Len() > 0 {
			t.Errorf("run %d: exit %d, %s", i, r.exit, r.errs.Bytes())
		}
		done := fault{outcome: event.Done}
		r.checkStream(done)
		text := fmt.Sprint(r.checkJournal(done))
		if !strings.Contains(text, fmt.Sprintf("s%d is alive", i)) || !strings.Contains(text, fmt.Sprintf("Answer %d.", i)) {
			t.Errorf("run %d was disturbed: %s", i, text)
		}
	}
	if left, err := filepath.Glob(filepath.Join(host.path("strays"), "*")); err != nil || len(left) != runs {
		t.Errorf("%d strays, %v", len(left), err)
	}
	host.checkStrays()
}
