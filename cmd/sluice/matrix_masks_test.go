//go:build unix

package main

import (
	"fmt"

	"github.com/sluice-dev/sluice/event"
)

var grokMask = &mask{
	name: "grok", tools: map[string]string{"read": "read_file"}, asks: true, aside: true,
	line: func(r *run, w wishes) []string {
		args := []string{"as", "grok", "--format", "json"}
		w.take("--format")
		w.take("--session-id")
		if w.prompt != "" {
			args = append(args, "--prompt", w.prompt)
		}
		args = w.put(args, "--resume", "--session", "--max-tool-rounds", "--max-tool-rounds", "-C", "-d")
		r.configured(w)
		return args
	},
	exit: func(f fault) int {
		switch f.outcome {
		case event.Denied, event.Budget, event.Unverified, event.Timeout:
			return 3
		case event.Stalled:
			return 2
		}
		return f.exit
	},
	words: map[string]string{letPass: "Tool `bash` denied: command not in allowlist, since a rule asks about bash(stray one)"},
	cannot: map[string]string{
		"--agent":                    "it has no profiles",
		"a session is there already": "it names new sessions itself",
		"resume of the latest, and there is none": "latest begins a session then: TestGrokLatest",
		"SIGINT before there is a prompt":         "it waits for none: stdin is no prompt",
	},
	turns: map[string]func(*fault){
		// Its steps are counted: the calls of the last one are done, and the model is not asked again.
		"round limit": func(f *fault) {
			f.after = func(r *run, events []map[string]any) {
				if n := count(events, "tool.done"); n != 1 {
					r.Errorf("%d rounds were done, want one", n)
				}
			}
		},
	},
}

var aictrlMask = &mask{
	name: "aictrl", asks: true, aside: true, exit: ours,
	line: func(r *run, w wishes) []string {
		w.take("--format")
		w.take("--session-id")
		args := []string{"as", "aictrl", "run", "--format", "json"}
		args = w.put(args, "--resume", "--session", "--agent", "--agent", "-C", "--dir")
		r.configured(w)
		return w.last(args)
	},
	words: map[string]string{letPass: "to let it pass, take the rule that asks away"},
	cannot: map[string]string{
		"--max-tool-rounds":                       "it counts no rounds",
		"a session is there already":              "it names new sessions itself",
		"resume of the latest, and there is none": "--continue begins a session then, which its tests show",
	},
}

var ensoMask = &mask{
	name: "enso", tools: map[string]string{"task": "spawn_agent"}, exit: ours,
	line: func(r *run, w wishes) []string {
		w.take("--format")
		w.take("--session-id")
		w.take("-C") // it works where it is
		args := []string{"as", "enso", "run", "--format", "json"}
		if len(w.flags["--resume"]) > 0 && w.flags["--resume"][0] == "latest" {
			w.take("--resume")
			args = append(args, "--continue")
		}
		args = w.put(args, "--resume", "--resume", "--agent", "--agent")
		r.configured(w)
		return w.last(args)
	},
	cannot: map[string]string{
		"--max-tool-rounds":          "it counts no rounds",
		"no such workspace":          "it works where it is",
		"a session is there already": "it names new sessions itself",
	},
	turns: map[string]func(*fault){
		"arguments of the wrong type": func(f *fault) { f.after = failsWith("tool.failed", `"cmd" must be a string`) },
	},
}

// aionrsMask is a client that sends one message and has nothing more to say.
var aionrsMask = &mask{
	name:  "aionrs",
	tools: map[string]string{"read": "Read", "bash": "Bash", "task": "Spawn"},
	line: func(r *run, w wishes) []string {
		w.take("--format")
		args := []string{"as", "aionrs", "--json-stream"}
		if w.take("--mode") == "yolo" {
			args = append(args, "--auto-approve")
		}
		args = w.put(args, "--session-id", "--session-id", "--resume", "--resume", "-C", "--workspace", "--max-turns", "--max-turns")
		if w.prompt != "" {
			r.says = fmt.Sprintf(`{"type":"message","msg_id":"m1","input":%q}`, w.prompt) + "\n"
		}
		r.configured(w)
		return args
	},
	exit: ours,
	sees: func(f *fault) {
		switch f.outcome {
		case event.Done, event.Cancelled:
		case event.Denied: // it is the client who decides, and what a rule decides is no failure
			f.exit, f.outcome, f.reason = 0, event.Done, ""
		case event.Misuse, event.Internal: // which is fatal
			f.exit = 1
		default:
			f.exit, f.reply = 0, true
		}
	},
	cannot: map[string]string{
		"--max-tool-rounds": "it counts no rounds",
		"--agent":           "it has no profiles",
		"--timeout":         "a conversation has no clock",
		"--stall":           "a conversation has no clock",
		"no prompt":         "a conversation without a message is one, too",
	},
	turns: map[string]func(*fault){
		"nobody to ask":                clientLeft,
		"asked in a sub-agent":         clientLeft,
		"asked in a sub-agent's child": clientLeft,
	},
}

// clientLeft is how a call ends that is asked about when the client has gone.
func clientLeft(f *fault) { f.after = failsWith("tool.cancelled", "the client has gone") }
