//go:build unix

package main

import (
	"bytes"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// What goes wrong with calls. Each command leaves a stray behind.
var toolFaults = []fault{
	{
		name: "unknown tool", script: `steps: [{call: {tool: teleport, input: {to: Mars}}}, {text: Done.}]`,
		outcome: event.Done, after: failsWith("tool.failed", "there is no tool"),
	},
	{
		name: "arguments are not JSON", script: `steps: [{call: {tool: bash, raw: '{"command":"stray never'}}, {text: Done.}]`,
		outcome: event.Done, after: failsWith("tool.failed", "not a JSON object"),
	},
	{
		name: "arguments of the wrong type", script: `steps: [{call: {tool: bash, input: {command: [stray, never]}}}, {text: Done.}]`,
		outcome: event.Done, after: failsWith("tool.failed", "command"),
	},
	{
		name: "arguments are a list", script: `steps: [{call: {tool: read, input: [a, b]}}, {text: Done.}]`,
		outcome: event.Done, after: failsWith("tool.failed", "not a JSON object"),
	},
	{
		name: "tool fails", script: `steps: [{call: {tool: bash, input: {command: "stray one; echo oh no; exit 3"}}}, {text: Done.}]`,
		outcome: event.Done,
		after: func(r *run, events []map[string]any) {
			failsWith("tool.failed", "exit status 3")(r, events)
			if r.dialect.Name == "aictrl" && !bytes.Contains(r.out, []byte(`"state":{"status":"completed","input":{"command":"stray one; echo oh no; exit 3"},"metadata":{"exit":3,`)) {
				r.Error("a command that ended with 3 is no failure of the tool there")
			}
		},
	},
	{
		name: "tool times out", script: `steps: [{call: {tool: bash, input: {command: "stray one; echo wait; sleep 60", timeout: 500}}}, {text: Done.}]`,
		outcome: event.Done, after: failsWith("tool.failed", "timed out after 500ms"),
	},
	{
		name: "tool goes on in the background", script: `steps: [{call: {tool: bash, input: {command: "stray one; sleep 60", background: true}}}, {call: {tool: bash, input: {command: "until [ -e $STRAYS/one ]; do sleep 0.01; done"}}}, {text: Done.}]`,
		outcome: event.Done,
		after: func(r *run, events []map[string]any) {
			end := events[len(events)-1]["body"].(map[string]any)
			if list, _ := end["killed"].([]any); len(list) < 2 {
				r.Errorf("the end does not say what was killed: %v", end)
			}
		},
	},
	{
		name: "a command's pipe breaks", script: `steps: [{call: {tool: bash, input: {command: "(yes; echo yes ended with $? >&2) | head -1"}}}, {text: Done.}]`,
		outcome: event.Done,
		after: func(r *run, events []map[string]any) {
			for _, e := range events {
				if body, _ := e["body"].(map[string]any); e["kind"] == "tool.done" && !strings.Contains(body["output"].(string), "ended with 141") {
					r.Errorf("commands live in another world than they expect: %v", body["output"])
				}
			}
		},
	},
	{
		name: "tool panics", before: strangely,
		script: `steps: [{calls: [{tool: bash, input: {command: "stray one; echo hi"}}, {tool: bomb, input: {when: run}}]}, {text: Done.}]`,
		exit:   4, outcome: event.Internal, reason: "panic: runtime error: index out of range", ends: endings{"unknown", "error", "internal_error"},
		after: failsWith("tool.failed", "panic: "),
	},
	{
		name: "tool panics before it is run", before: strangely,
		script: `steps: [{call: {tool: bomb, input: {when: plan}}}, {text: Done.}]`,
		exit:   4, outcome: event.Internal, reason: "panic: runtime error: index out of range", ends: endings{"unknown", "error", "internal_error"},
		after: failsWith("tool.failed", "panic: "),
	},
	{
		name: "turn limit", flags: []string{"--max-turns", "2"},
		script: `steps: [{call: {tool: bash, input: {command: stray one}}, repeat: 9}]`,
		exit:   3, outcome: event.Failed, reason: "limit of 2 turns", ends: endings{"unknown", "max_turn_requests", "internal_error"},
		after: failsWith("tool.cancelled", "limit of 2 turns"),
	},
	{
		name: "round limit", flags: []string{"--max-tool-rounds", "1"},
		script: `steps: [{call: {tool: bash, input: {command: stray one}}, repeat: 9}]`,
		exit:   3, outcome: event.Failed, reason: "limit of 1 tool round", ends: endings{"unknown", "max_turn_requests", "internal_error"},
		after: failsWith("tool.cancelled", "limit of 1 tool round"),
	},
}

// What may not pass.
var gateFaults = []fault{
	{
		name: "denied by rule", flags: []string{"--deny", "bash(stray *)"},
		script: `steps: [{call: {tool: bash, input: {command: stray one}}}, {text: So I did nothing.}]`,
		exit:   5, outcome: event.Denied, reason: "one of its calls was denied: denied by the rule bash(stray *)",
		after: failsWith("tool.denied", "bash(stray *)"),
	},
	{
		name: "denied by rule, and that is fine", flags: []string{"--deny", "bash(stray *)", "--denied-ok"},
		script:  `steps: [{call: {tool: bash, input: {command: stray one}}}, {text: So I did nothing.}]`,
		outcome: event.Done, after: failsWith("tool.denied", "bash(stray *)"),
	},
	{
		name: "nobody to ask", flags: []string{"--mode", "default"},
		script: `steps: [{call: {tool: bash, input: {command: stray one}}}, {text: So I did nothing.}]`,
		exit:   5, outcome: event.Denied, reason: letPass,
		after: func(r *run, events []map[string]any) {
			failsWith("tool.denied", "nobody")(r, events)
			if count(events, "gate.asked") != 1 || count(events, "gate.denied") != 1 {
				r.Error("the question and its answer are not told")
			}
		},
	},
	{
		name: "on-ask fail", flags: []string{"--mode", "default", "--on-ask", "fail"},
		script: `steps: [{calls: [{tool: bash, input: {command: stray one}}, {tool: bash, input: {command: stray two}}]}, {text: Never said.}]`,
		exit:   5, outcome: event.Denied, reason: "nobody could answer: allow bash stray one?", ends: endings{"", "error", "internal_error"},
		after: failsWith("tool.denied", "nobody"),
	},
}

// letPass is what somebody is told who should have allowed what was asked about.
const letPass = "to let it pass: --allow 'bash(stray *)'"

func strangely(r *run) { r.program = "sluice-strange" }

// failsWith is a look at the journal for a call that ended so, for a reason with these words.
func failsWith(kind, why string) func(*run, []map[string]any) {
	return func(r *run, events []map[string]any) {
		for _, e := range events {
			body, _ := e["body"].(map[string]any)
			if text, _ := body["error"].(string); e["kind"] == kind && strings.Contains(text, why) {
				return
			}
		}
		r.Errorf("no %s with %q", kind, why)
	}
}
