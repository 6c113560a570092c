package loop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/agent"
	"github.com/sluice-dev/sluice/internal/outcome"
)

const ship = `-- ship.md --
---
name: ship
description: plan, build and test, review
roles:
  planner: {tools: [read, grep], model: script/plan}
  builder:
  tester: {}
  reviewer:
    prompt: |
      Review {{.Task}} of {{.Outputs.planner}}.
      {{.Input}}
edges:
  - planner -> builder, tester -> reviewer
---
What stands before the first heading is for people.

## planner

Plan this: {{.Task}}

## Notes

This belongs to the planner.

## builder ##
Build by {{.Input}} in {{.WorkDir}}.

## tester
Test, {{.Role}}.
`

func load(t *testing.T, archive, name string) (Workflow, error) {
	t.Helper()
	path, err := FindWorkflow(name, []string{filepath.Join(t.TempDir(), "none"), unpack(t, archive)})
	if err != nil {
		t.Fatal(err)
	}
	return LoadWorkflow(path)
}

// A cast plays roles by their names, and remembers what it was asked.
type cast struct {
	mu     sync.Mutex
	acts   map[string]func(context.Context) (string, outcome.Verdict)
	asked  map[string]string
	order  []string
	events []event.Event
}

func (c *cast) Put(e event.Event) error {
	c.events = append(c.events, e)
	return nil
}

func (c *cast) play(ctx context.Context, r Role, prompt string) (string, outcome.Verdict) {
	c.mu.Lock()
	if c.asked == nil {
		c.asked = map[string]string{}
	}
	c.asked[r.Name] = prompt
	c.order = append(c.order, r.Name+" begins")
	c.mu.Unlock()
	said, v := r.Name+" was here", outcome.Verdict{Outcome: event.Done, Stop: "end_turn", Usage: event.Usage{Input: new(int64(5))}}
	if act := c.acts[r.Name]; act != nil {
		said, v = act(ctx)
	}
	c.mu.Lock()
	c.order = append(c.order, r.Name+" ends")
	c.mu.Unlock()
	return said, v
}

func (c *cast) run(ctx context.Context, w Workflow) (string, outcome.Verdict) {
	return w.Run(ctx, WorkflowOptions{
		Source: event.NewSource("run", 0, c, nil, time.Now), Play: c.play,
		Task: event.Message{ID: "m1", Text: "the thing", Source: "argument"}, Dir: "/w",
	})
}

func (c *cast) kinds() (list []string) {
	for _, e := range c.events {
		list = append(list, string(e.Kind))
	}
	return list
}

func TestWorkflow(t *testing.T) {
	w, err := load(t, ship, "ship")
	if err != nil {
		t.Fatal(err)
	}
	if r := w.Roles["planner"]; r.Model != "script/plan" || !slices.Equal(r.Tools, []string{"read", "grep"}) || w.Roles["tester"].Tools != nil {
		t.Errorf("%+v", w.Roles)
	}
	synctest.Test(t, func(t *testing.T) {
		// The two in the middle wait for each other: they do work at the same time.
		meet := make(chan bool)
		c := &cast{acts: map[string]func(context.Context) (string, outcome.Verdict){
			"builder": func(context.Context) (string, outcome.Verdict) {
				meet <- true
				return "built", outcome.Verdict{Outcome: event.Done}
			},
			"tester": func(context.Context) (string, outcome.Verdict) {
				<-meet
				time.Sleep(time.Second)
				return "tested", outcome.Verdict{Outcome: event.Done}
			},
		}}
		said, v := c.run(t.Context(), w)
		if said != "reviewer was here" || v.Outcome != event.Done || v.Stop != "end_turn" || *v.Usage.Input != 10 {
			t.Errorf("%q %+v", said, v)
		}
		want := map[string]string{
			"planner":  "Plan this: the thing\n\n## Notes\n\nThis belongs to the planner.",
			"builder":  "Build by planner was here in /w.",
			"tester":   "Test, tester.",
			"reviewer": "Review the thing of planner was here.\n## builder\n\nbuilt\n\n## tester\n\ntested\n",
		}
		if diff := cmp.Diff(want, c.asked); diff != "" {
			t.Error(diff)
		}
		if c.order[0] != "planner begins" || c.order[len(c.order)-2] != "reviewer begins" {
			t.Error(c.order)
		}
		if diff := cmp.Diff([]string{"prompt", "reply.done"}, c.kinds()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWorkflowEnds(t *testing.T) {
	w, err := load(t, ship, "ship")
	if err != nil {
		t.Fatal(err)
	}
	waits := func(ctx context.Context) (string, outcome.Verdict) {
		<-ctx.Done()
		return "", outcome.Ended(ctx)
	}
	returns := func(said string, v outcome.Verdict) func(context.Context) (string, outcome.Verdict) {
		return func(context.Context) (string, outcome.Verdict) { return said, v }
	}
	for name, tt := range map[string]struct {
		builder func(context.Context) (string, outcome.Verdict)
		stop    bool
		outcome event.Outcome
		reply   string
		reason  string
		kinds   []string
	}{
		"a role fails":     {builder: returns("", outcome.Failed("refusal", "no")), outcome: event.Failed, reply: "refusal", reason: "role builder: no", kinds: []string{"prompt", "error", "reply.failed"}},
		"a role gives up":  {builder: returns("[abort | no disk]", outcome.Verdict{Outcome: event.Done}), outcome: event.Failed, reply: "blocked", reason: "role builder gave up: no disk", kinds: []string{"prompt", "error", "reply.failed"}},
		"a role has a bug": {builder: func(context.Context) (string, outcome.Verdict) { panic("oh") }, outcome: event.Internal, reply: "error", reason: "role builder: panic: oh", kinds: []string{"prompt", "error", "reply.failed"}},
		"it is stopped":    {builder: waits, stop: true, outcome: event.Cancelled, reply: "cancelled", reason: "stopped", kinds: []string{"prompt", "reply.cancelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.stop {
					time.AfterFunc(time.Second, func() { cancel(&outcome.Cause{Outcome: event.Cancelled, Reason: "stopped"}) })
				}
				c := &cast{acts: map[string]func(context.Context) (string, outcome.Verdict){"builder": tt.builder, "tester": waits}}
				_, v := c.run(ctx, w)
				if v.Outcome != tt.outcome || v.Stop != tt.reply || !strings.Contains(v.Reason, tt.reason) || tt.stop && v.Reason != tt.reason {
					t.Errorf("%+v", v)
				}
				if diff := cmp.Diff(tt.kinds, c.kinds()); diff != "" {
					t.Error(diff)
				}
				if slices.Contains(c.order, "reviewer begins") || !slices.Contains(c.order, "tester ends") {
					t.Error(c.order)
				}
			})
		})
	}
}

func TestWorkflowProblems(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want []string
	}{
		"none":       {"roles:\n", []string{"1: it has no frontmatter: its first line must be ---"}},
		"no end":     {"---\nroles:\n", []string{"its frontmatter has no end: a second line must be ---"}},
		"empty":      {"---\nroles: {}\n---\n", []string{"2: there are no roles"}},
		"not YAML":   {"---\na: b: c\n---\n", []string{"2: this is no YAML: "}},
		"other name": {"---\nname: x\nroles: {a: {prompt: x}}\n---\n", []string{`2: it is named "x" but the file "w": they must be the same`}},
		"keys": {"---\nroles:\n  a: {promt: x}\nedge: []\n---\n## a\nx\n", []string{
			`3: there is no key "promt" in roles.a: is prompt meant?`, `4: there is no key "edge" here: is edges meant?`,
		}},
		"no prompt": {"---\nroles:\n  planner: {}\n---\n## planer\nx\n", []string{"3: role planner has no prompt: write it under a heading ## planner"}},
		"two":       {"---\nroles:\n  a: {prompt: x}\n---\n## a\ny\n", []string{"3: role a has two prompts: say one of them"}},
		"a name":    {"---\nroles:\n  A-b: {prompt: x}\n---\n", []string{`3: "A-b" is no name for a role: small letters, digits and underlines`}},
		"edges": {"---\nroles: {one: {prompt: x}, two: {prompt: x}}\nedges:\n  - one\n  - one -> tow\n  - one -> zebra, two\n---\n", []string{
			`4: "one" is no edge: write a -> b`, `5: there is no role "tow": is two meant?`, `6: there is no role "zebra"`,
		}},
		"a circle": {"---\nroles: {a: {prompt: x}, b: {prompt: x}, c: {prompt: x}, d: {prompt: x}}\nedges: [d -> a -> b -> a, b -> c]\n---\n", []string{
			"3: a, b, c wait for each other in a circle, or for somebody who does",
		}},
		"speaks of a stranger": {"---\nroles: {a: {prompt: '{{.Outputs.b}}'}, b: {prompt: '{{.Iteration}}'}}\n---\n", []string{
			`2: the prompt of a: map has no entry for key "b" ({{"{{"}} stands for two braces, and template: false leaves the whole prompt alone)`,
			`2: the prompt of b: there is no .Iteration: there are .Input, .Outputs, .Role, .Task, .WorkDir`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := load(t, "-- w.md --\n"+tt.file, "w")
			problems, _ := errors.AsType[Problems](err)
			var got []string
			for i, p := range problems {
				line := strings.TrimPrefix(strings.TrimPrefix(p.Error(), w.Location+":"), " ")
				if i < len(tt.want) && strings.HasSuffix(tt.want[i], ": ") && strings.HasPrefix(line, tt.want[i]) {
					line = tt.want[i]
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFindWorkflow(t *testing.T) {
	dir := unpack(t, "-- a/ship.md --\nx\n-- a/test.md --\nx\n-- b/ship.md --\nx\n")
	folders := []string{filepath.Join(dir, "b"), filepath.Join(dir, "a")}
	if path, err := FindWorkflow("ship", folders); err != nil || path != filepath.Join(dir, "b", "ship.md") {
		t.Error(path, err)
	}
	for name, want := range map[string]string{
		"shop":      `there is no workflow "shop": is ship meant?`,
		"x":         `there is no workflow "x": there are ship, test`,
		"../a/ship": `"../a/ship" cannot name a workflow: `,
	} {
		if _, err := FindWorkflow(name, folders); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Many roles, each waiting for all before it: neither reading nor running takes long, and never too many work at once.
func TestWideWorkflow(t *testing.T) {
	var file, edges strings.Builder
	file.WriteString("-- w.md --\n---\nroles:\n")
	for i := range 12 {
		var names []string
		for j := range 12 {
			name := fmt.Sprintf("r%d_%d", i, j)
			names = append(names, name)
			fmt.Fprintf(&file, "  %s: {prompt: go}\n", name)
		}
		if i > 0 {
			edges.WriteString(" -> ")
		}
		edges.WriteString(strings.Join(names, ", "))
	}
	fmt.Fprintf(&file, "edges: ['%s']\n---\n", edges.String())
	w, err := load(t, file.String(), "w")
	if err != nil {
		t.Fatal(err)
	}
	c := &cast{}
	if _, v := c.run(t.Context(), w); v.Outcome != event.Done {
		t.Error(v)
	}
	working, most := 0, 0
	for _, line := range c.order {
		if strings.HasSuffix(line, "begins") {
			working++
		} else {
			working--
		}
		most = max(most, working)
	}
	if len(c.order) != 288 || most > mostAtOnce {
		t.Error(len(c.order), most)
	}
}

// Our own agent in the roles: each is a sub-agent with its role's name, tools and prompt.
func TestWorkflowOfAgents(t *testing.T) {
	w, err := load(t, ship, "ship")
	if err != nil {
		t.Fatal(err)
	}
	tr := newTroupe(t, `
conversations:
  - when: {prompt: ^Plan}
    steps: [{text: a plan}]
  - when: {prompt: ^Build}
    steps: [{call: {tool: write, input: {file_path: out.txt, content: x}}}, {text: built}]
  - when: {prompt: ^Test}
    steps: [{text: tested}]
  - when: {prompt: ^Review}
    steps: [{text: "well done"}]
steps: [{text: nobody asks this}]
`)
	top := agent.New(tr.config, tr.src)
	said, v := w.Run(t.Context(), WorkflowOptions{
		Source: tr.src, Task: event.Message{ID: "m1", Text: "it", Source: "argument"}, Dir: tr.dir,
		Play: func(ctx context.Context, r Role, prompt string) (string, outcome.Verdict) {
			return top.Play(ctx, r.Name, prompt, agent.Role{Name: r.Name, Tools: r.Tools})
		},
	})
	if said != "well done" || v.Outcome != event.Done {
		t.Errorf("%q %+v", said, v)
	}
	roles := map[string]string{}
	for _, e := range tr.list {
		if b, ok := e.Body.(event.AgentStarted); ok {
			roles[b.Role] = e.Session + " " + e.Agent
			if b.Depth != 1 || b.Prompt == "" {
				t.Errorf("%+v", b)
			}
		}
	}
	if len(roles) != 4 || roles["planner"] != "child1 task-1" || roles["reviewer"] != "child4 task-4" {
		t.Error(roles)
	}
	tr.clean(v)
}
