//go:build unix

package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
)

func init() { programs["mcp-server"] = mcpServer }

// TestLongMatrix is the failure matrix of what makes a run long: sub-agents, servers, windows, budgets, checks and sessions.
func TestLongMatrix(t *testing.T) {
	for _, f := range longFaults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.playAll(t)
		})
	}
}

// children is a script in which the top agent has a child, the child a grandchild, and that does something.
func children(step string) string {
	return `
conversations:
- {when: {prompt: ^Child}, steps: [{call: {tool: task, input: {description: grandchild, prompt: Grandchild.}}}, {text: The child is done.}]}
- {when: {prompt: ^Grandchild}, steps: [` + step + `, {text: The grandchild is done.}]}
steps: [{call: {tool: task, input: {description: child, prompt: Child.}}}, {text: All done.}]`
}

// child is a script in which the top agent has a child that does something.
func child(step string) string {
	return `
conversations:
- {when: {prompt: ^Child}, steps: [` + step + `, {text: The child is done.}]}
steps: [{call: {tool: task, input: {description: child, prompt: Child.}}}, {text: All done.}]`
}

const strayCall = `{call: {tool: bash, input: {command: "stray one; sleep 60"}}}`

// What goes wrong in sub-agents.
var agentFaults = []fault{
	{
		name: "asked in a sub-agent", flags: []string{"--mode", "default", "--allow", "task"}, script: child(strayCall),
		exit: 5, outcome: event.Denied, reason: letPass,
		after: askedBy("task-1"),
	},
	{
		name: "asked in a sub-agent's child", flags: []string{"--mode", "default", "--allow", "task"}, script: children(strayCall),
		exit: 5, outcome: event.Denied, reason: letPass,
		after: askedBy("task-1/task-2"),
	},
	{
		name: "asked in a sub-agent's child, on-ask fail", flags: []string{"--mode", "default", "--allow", "task", "--on-ask", "fail"},
		script: children(strayCall),
		exit:   5, outcome: event.Denied, reason: "a question came up that nobody could answer", ends: endings{"", "error", "internal_error"},
		after: askedBy("task-1/task-2"),
	},
	{
		name: "sub-agent fails", script: child(`{text: No., fault: {status: 400, message: messages must not be odd}}`),
		outcome: event.Done, after: failsWith("tool.failed", "the sub-agent failed: messages must not be odd"),
	},
	{
		name: "sub-agent's child fails", script: children(`{text: No., fault: {status: 400, message: messages must not be odd}}`),
		outcome: event.Done, after: failsWith("tool.failed", "the sub-agent failed: messages must not be odd"),
	},
	{
		name: "sub-agent hangs", flags: []string{"--stall", "500ms"}, script: child(`{text: Hello there., fault: {hang: text}}`),
		exit: 124, outcome: event.Stalled, reason: "nothing happened for 500ms", ends: endings{"timeout", "timeout", "internal_error"},
		after: failsWith("tool.cancelled", "nothing happened"),
	},
	{
		name: "sub-agent is cut by SIGTERM", script: child(strayCall),
		during: func(r *run) { r.awaitStray("one"); r.signal(syscall.SIGTERM) },
		exit:   143, outcome: event.Cancelled, reason: "stopped by SIGTERM", ends: endings{"unknown", "cancelled", ""},
		after: failsWith("tool.cancelled", "stopped by SIGTERM"),
	},
	{
		name: "sub-agent's child is cut by SIGINT", script: children(strayCall),
		during: func(r *run) { r.awaitStray("one"); r.signal(syscall.SIGINT) },
		exit:   130, outcome: event.Cancelled, reason: "stopped by SIGINT", ends: endings{"unknown", "cancelled", ""},
		after: failsWith("tool.cancelled", "stopped by SIGINT"),
	},
}

// askedBy is a look at the journal for a question of an agent that was denied.
func askedBy(agent string) func(*run, []map[string]any) {
	return func(r *run, events []map[string]any) {
		failsWith("tool.denied", "nobody")(r, events)
		for _, e := range events {
			if e["kind"] == "gate.asked" && e["agent"] == agent {
				return
			}
		}
		r.Errorf("%s did not ask", agent)
	}
}

// serving configures an MCP server.
func serving(command ...string) func(*run) {
	return func(r *run) {
		list, _ := json.Marshal(command) // TOML has the same words for it
		r.configure("[mcp.frail]\ntimeout = \"1s\"\ncommand = " + string(list) + "\n")
	}
}

// What goes wrong with MCP servers.
var mcpFaults = []fault{
	{
		name: "MCP server is missing", before: serving("no-such-server"),
		outcome: event.Done, ends: endings{aionrs: "tool_error"}, after: tells("frail"),
	},
	{
		name: "required MCP server is missing", before: serving("no-such-server"), flags: []string{"--require-mcp", "frail"},
		exit: 1, outcome: event.Misuse, reason: "the MCP server frail is required", ends: endings{"unknown", "error", "config_error"},
		after: noRequest,
	},
	{
		name: "required MCP server is not configured", flags: []string{"--require-mcp", "frail"},
		exit: 1, outcome: event.Misuse, reason: "the MCP server frail is required, and is not configured", ends: endings{"unknown", "error", "config_error"},
		after: noRequest,
	},
	{
		name: "MCP server hangs at its start", before: serving("mcp-server", "hang"),
		outcome: event.Done, ends: endings{aionrs: "tool_error"}, after: tells("frail"),
	},
	{
		name: "required MCP server hangs at its start", before: serving("mcp-server", "hang"), flags: []string{"--require-mcp", "frail"},
		exit: 1, outcome: event.Misuse, reason: "the MCP server frail is required", ends: endings{"unknown", "error", "config_error"},
		after: noRequest,
	},
	{
		name: "MCP server dies in a call", before: serving("mcp-server"), script: `steps: [{call: {tool: frail_die, input: {}}}, {text: Done.}]`,
		outcome: event.Done, ends: endings{aionrs: "tool_error"},
		after: served("tool.failed", "frail"),
	},
	{
		name: "MCP server hangs in a call", before: serving("mcp-server"), script: `steps: [{call: {tool: frail_hang, input: {}}}, {text: Done.}]`,
		outcome: event.Done, after: served("tool.failed", "1s"),
	},
	{
		name: "SIGTERM in a call of an MCP server", before: serving("mcp-server"), script: `steps: [{call: {tool: frail_hang, input: {}}}, {text: Done.}]`,
		during: func(r *run) { r.await("tool.started"); r.signal(syscall.SIGTERM) },
		exit:   143, outcome: event.Cancelled, reason: "stopped by SIGTERM", ends: endings{"unknown", "cancelled", ""},
		after: served("tool.cancelled", "stopped by SIGTERM"),
	},
}

// mcpServer is a server whose tools die and hang; told so, it hangs before it has said anything. It leaves a stray's mark.
func mcpServer() {
	mark := filepath.Join(os.Getenv("STRAYS"), "server")
	if os.Getenv("STRAYS") != "" {
		_ = os.WriteFile(mark, strconv.AppendInt(nil, int64(os.Getpid()), 10), 0o600)
	}
	if len(os.Args) > 1 {
		_, _ = io.Copy(io.Discard, os.Stdin)
		time.Sleep(patient)
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "frail", Version: "1"}, nil)
	add := func(name string, f func(context.Context)) {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			f(ctx)
			return &sdk.CallToolResult{}, nil
		})
	}
	add("die", func(context.Context) { os.Exit(3) })
	add("hang", func(context.Context) { time.Sleep(patient) })
	_ = s.Run(context.Background(), &sdk.StdioTransport{}) // it ends when nobody is there any more
}

// served is [failsWith] of a call that a server was there for.
func served(kind, why string) func(*run, []map[string]any) {
	return func(r *run, events []map[string]any) {
		failsWith(kind, why)(r, events)
		if !exists(r.path("strays/server")) {
			r.Error("the server was never there")
		}
	}
}

// tells is a look at the journal for an error or a notice with these words.
func tells(words string) func(*run, []map[string]any) {
	return func(r *run, events []map[string]any) {
		for _, e := range events {
			body, _ := e["body"].(map[string]any)
			text, _ := body["text"].(string)
			message, _ := body["message"].(string)
			if k := e["kind"]; (k == "notice" || k == "error") && strings.Contains(text+message, words) {
				return
			}
		}
		r.Errorf("nothing is told of %q", words)
	}
}

func noRequest(r *run, events []map[string]any) {
	if count(events, "turn.started") != 0 {
		r.Error("the model was asked all the same")
	}
}

const tooLong = `fault: {status: 400, message: "prompt is too long: 210000 tokens > 200000 maximum"`

// What there is too much of.
var contextFaults = []fault{
	{
		name: "context overflows once",
		script: `
conversations:
- {when: {last: about to be shortened}, steps: [{text: Folded., repeat: 9}]}
- {when: {prompt: Folded}, steps: [{text: Done.}]}
steps: [{call: {tool: bash, input: {command: stray one}}}, {text: No., ` + tooLong + `}}]`,
		outcome: event.Done,
		after: func(r *run, events []map[string]any) {
			if count(events, "compacted") != 1 {
				r.Error("the history was not shortened once")
			}
		},
	},
	{
		name: "context overflows again and again",
		script: `
conversations:
- {when: {last: about to be shortened}, steps: [{text: Folded., repeat: 9}]}
steps: [{text: No., ` + tooLong + `}, repeat: 9}]`,
		exit: 3, outcome: event.Failed, reason: "the context is exhausted", ends: endings{"provider", "error", "provider_error"},
	},
	{
		name: "budget of calls", flags: []string{"--max-tool-calls", "1"},
		script: `steps: [{call: {tool: bash, input: {command: stray one}}}, {call: {tool: bash, input: {command: stray two}}}, {text: That is all.}]`,
		exit:   6, outcome: event.Budget, reason: "limit of 1 tool call", ends: endings{"unknown", "error", "internal_error"},
		after: failsWith("tool.cancelled", "limit of 1 tool call"),
	},
	{
		name: "budget of tokens", flags: []string{"--max-total-tokens", "1000"},
		script: `{usage: {input: 900, output: 200}, steps: [{call: {tool: bash, input: {command: stray one}}}, {text: That is all.}]}`,
		exit:   6, outcome: event.Budget, reason: "limit of 1000 tokens", ends: endings{"unknown", "error", "internal_error"},
	},
	{
		name: "budget of money", flags: []string{"--max-cost", "0.5"},
		before: func(r *run) { r.configure("[prices.\"anthropic/scripted\"]\ninput = 1000\noutput = 1000\n") },
		script: `{usage: {input: 900, output: 200}, steps: [{call: {tool: bash, input: {command: stray one}}}, {text: That is all.}]}`,
		exit:   6, outcome: event.Budget, reason: "limit of $0.5", ends: endings{"unknown", "error", "internal_error"},
	},
	{
		name: "budget is spent by a sub-agent", flags: []string{"--max-tool-calls", "1"}, script: child(`{call: {tool: bash, input: {command: stray one}}}`),
		exit: 6, outcome: event.Budget, reason: "limit of 1 tool call", ends: endings{"unknown", "error", "internal_error"},
	},
	{
		name: "loop", script: `steps: [{call: {tool: bash, input: {command: echo again}}, repeat: 99}]`,
		exit: 3, outcome: event.Failed, reason: "it goes round in a loop", ends: endings{"unknown", "error", "internal_error"},
	},
	{
		name:   "loop of three",
		script: `{loop: true, steps: [{call: {tool: bash, input: {command: echo a}}}, {call: {tool: bash, input: {command: echo b}}}, {call: {tool: bash, input: {command: echo c}}}]}`,
		exit:   3, outcome: event.Failed, reason: "it goes round in a loop", ends: endings{"unknown", "error", "internal_error"},
	},
}

// What is not as it was asked for.
var checkFaults = []fault{
	{
		name: "schema mismatch", flags: []string{"--output-schema", "schema.json"},
		before: func(r *run) { r.write("work/schema.json", `{"type":"object","required":["answer"]}`) },
		script: `steps: [{text: '{"question": 42}', repeat: 9}]`,
		exit:   7, outcome: event.Unverified, reason: "the answer does not fit its schema",
		after: func(r *run, events []map[string]any) {
			if n := count(events, "turn.ended"); n != 3 {
				r.Errorf("%d answers, want one and two repairs", n)
			}
		},
	},
	{
		name: "schema mismatch once", flags: []string{"--output-schema", "schema.json"},
		before:  func(r *run) { r.write("work/schema.json", `{"type":"object","required":["answer"]}`) },
		script:  `steps: [{text: "42, I think."}, {text: '{"answer": 42}'}]`,
		outcome: event.Done,
	},
	{
		name: "verify fails", flags: []string{"--verify", "stray verify; exit 3"},
		exit: 7, outcome: event.Unverified, reason: "--verify failed",
	},
	{
		name: "required tool is never called", flags: []string{"--require-tool", "bash"},
		exit: 7, outcome: event.Unverified, reason: `the tool "bash" was never called with success`,
	},
	{
		name: "required tool is missing", flags: []string{"--require-tool", "teleport"},
		exit: 7, outcome: event.Unverified, reason: `the tool "teleport" is required`, ends: endings{"", "error", "internal_error"}, after: noRequest,
	},
	{
		name: "no change, and one was expected", flags: []string{"--expect-change"},
		before: func(r *run) {
			if out, err := exec.Command("git", "init", "-q", r.path("work")).CombinedOutput(); err != nil {
				r.Fatalf("%v: %s", err, out)
			}
		},
		exit: 7, outcome: event.Unverified, reason: "nothing changed",
	},
}

// resuming goes on with a session.
func (r *run) resuming(session string) {
	r.args = []string{"run", "--format", r.dialect.Name, "--resume", session, "--model", "anthropic/scripted", "--mode", "yolo", "-C", r.path("work"), "Go on."}
}

// held is a session that another run has in its hands, until the test is over.
func held(r *run) {
	native, err := dialect.Lookup("native")
	if err != nil {
		r.Fatal(err)
	}
	other := &run{T: r.T, dialect: native, dir: r.dir, program: r.program, session: r.session, env: r.env, args: append(r.flags(native, r.session), "Do it.")}
	other.start(nil)
	other.await("text.delta")
	r.Cleanup(func() {
		other.signal(syscall.SIGTERM)
		other.wait()
		if other.exit != 143 {
			r.Errorf("the run that was there first: exit %d, %s", other.exit, other.errs.Bytes())
		}
		f := fault{outcome: event.Cancelled, reason: "stopped by SIGTERM", ends: endings{"unknown", "cancelled", ""}}
		other.checkStream(f)
		other.checkJournal(f)
	})
}

// damaged is a session whose journal is none. Whoever cannot read it leaves it as it is.
func damaged(text string) func(*run) {
	return func(r *run) {
		r.write("state/sluice/sessions/"+session+"/journal.ndjson", text)
		r.resuming(session)
		r.Cleanup(func() {
			if now, err := os.ReadFile(r.journal()); err != nil || string(now) != text {
				r.Errorf("the journal was touched: %v, %q", err, clipped(now))
			}
		})
	}
}

const endless = `steps: [{text: Hello there., fault: {hang: text}}]`

var misused = endings{"unknown", "error", "config_error"}

// What goes wrong with sessions.
var sessionFaults = []fault{
	{
		name: "a session is there already", script: endless, before: held,
		exit: 1, outcome: event.Misuse, reason: "there is a session", ends: misused, unkept: true,
	},
	{
		name: "two runs of one session", script: endless,
		before: func(r *run) { held(r); r.resuming(session) },
		exit:   1, outcome: event.Misuse, reason: "is being run by another process", ends: misused, unkept: true,
	},
	{
		name: "resume of a missing session", before: func(r *run) { r.resuming("nowhere") },
		exit: 1, outcome: event.Misuse, reason: `there is no session "nowhere"`, ends: misused, unkept: true,
	},
	{
		name: "resume of the latest, and there is none", before: func(r *run) { r.resuming("latest") },
		exit: 1, outcome: event.Misuse, reason: "there is no session in", ends: misused, unkept: true,
	},
	{
		name:   "resume of a damaged session",
		before: damaged(strings.Repeat("this was a journal once\n", 9)),
		exit:   1, outcome: event.Misuse, reason: "cannot be resumed", ends: misused, unkept: true,
	},
	{
		name:   "resume of a file that is something else",
		before: damaged("\x7fELF\x00\x01\x02" + strings.Repeat("\xff\x00", 5000)),
		exit:   1, outcome: event.Misuse, reason: "cannot be resumed", ends: misused, unkept: true,
	},
}

// What is set up wrongly.
var configFaults = []fault{
	{
		name: "malformed skill", before: func(r *run) { r.write("work/.sluice/skills/odd/SKILL.md", "---\nname: [odd\n---\nDo it.\n") },
		outcome: event.Done, after: tells("odd"),
	},
	{
		name: "malformed profile", before: func(r *run) { r.write("work/.sluice/agents/odd.md", "---\nname: [odd\n---\nDo it.\n") },
		outcome: event.Done, after: tells("odd"),
	},
	{
		name: "no such profile", flags: []string{"--agent", "nobody"},
		exit: 1, outcome: event.Misuse, reason: `there is no agent "nobody"`, ends: misused, after: noRequest,
	},
	{
		name: "unknown key in the configuration", before: func(r *run) { r.configure("modle = \"anthropic/scripted\"\n") },
		exit: 1, outcome: event.Misuse, reason: `"modle"`, ends: misused, unkept: true,
	},
	{
		name: "unknown key in the project's configuration", before: func(r *run) { r.write("work/.sluice/config.toml", "modle = \"anthropic/scripted\"\n") },
		exit: 1, outcome: event.Misuse, reason: `"modle"`, ends: misused, unkept: true,
	},
}
