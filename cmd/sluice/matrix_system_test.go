//go:build unix

package main

import (
	"os"

	"github.com/sluice-dev/sluice/event"
)

// Time, disk and what was typed.
var systemFaults = []fault{
	{
		name: "timeout", script: `steps: [{text: Hello there., fault: {hang: text}}]`, flags: []string{"--timeout", "1s"},
		exit: 124, outcome: event.Timeout, reason: "longer than 1s", ends: endings{"timeout", "timeout", "internal_error"},
	},
	{
		name: "timeout in a tool", script: `steps: [{call: {tool: bash, input: {command: "stray one; sleep 60"}}}, {text: Done.}]`, flags: []string{"--timeout", "1s"},
		exit: 124, outcome: event.Timeout, reason: "longer than 1s", ends: endings{"timeout", "timeout", "internal_error"},
		after: failsWith("tool.cancelled", "longer than 1s"),
	},
	{
		name: "stall", script: `steps: [{text: Hello there., fault: {hang: text}}]`, flags: []string{"--stall", "500ms"},
		exit: 124, outcome: event.Stalled, reason: "nothing happened for 500ms", ends: endings{"timeout", "timeout", "internal_error"},
	},
	{
		name: "stall in a tool", script: `steps: [{call: {tool: bash, input: {command: "stray one; sleep 60"}}}, {text: Done.}]`, flags: []string{"--stall", "500ms"},
		exit: 124, outcome: event.Stalled, reason: "nothing happened for 500ms", ends: endings{"timeout", "timeout", "internal_error"},
	},
	{
		name: "journal cannot be made",
		before: func(r *run) {
			if err := os.WriteFile(r.path("file"), nil, 0o600); err != nil {
				r.Fatal(err)
			}
			r.set("XDG_STATE_HOME", r.path("file/state"))
		},
		exit: 4, outcome: event.Internal, reason: "not a directory", ends: endings{"unknown", "error", "internal_error"}, unkept: true,
	},
	{
		// The journal is the one file that grows; 8 blocks are 4 or 8 kB, by the shell.
		name: "disk full", script: `{chunk: 1, steps: [{call: {tool: bash, input: {command: stray one}}}, {text: "` + long + `"}]}`,
		before: func(r *run) { r.wrap("ulimit -f 8; exec sluice \"$@\"") },
		exit:   4, outcome: event.Internal, reason: "file too large", ends: endings{"unknown", "error", "internal_error"}, unkept: true,
	},
	{
		name:   "stdout is full",
		before: func(r *run) { r.wrap("exec sluice \"$@\" >/dev/full") },
		exit:   4, outcome: event.Internal, reason: "no space left", unread: true,
	},
	{
		name: "no prompt", before: func(r *run) { r.args = r.args[:len(r.args)-1] },
		exit: 1, outcome: event.Misuse, reason: "there is no prompt", ends: endings{"unknown", "error", "config_error"},
	},
	{
		name: "no such provider", flags: []string{"--model", "nobody/knows"},
		exit: 1, outcome: event.Misuse, reason: "nobody", ends: endings{"unknown", "error", "config_error"},
	},
	{
		name: "no such workspace", flags: []string{"-C", "not-there"},
		exit: 1, outcome: event.Misuse, reason: "not-there", ends: endings{"unknown", "error", "config_error"}, unkept: true,
	},
	{
		name: "wrong configuration",
		before: func(r *run) {
			if err := os.MkdirAll(r.path("home/sluice"), 0o700); err != nil {
				r.Fatal(err)
			}
			if err := os.WriteFile(r.path("home/sluice/config.toml"), []byte("modle = 1\n"), 0o600); err != nil {
				r.Fatal(err)
			}
		},
		exit: 1, outcome: event.Misuse, reason: "modle", ends: endings{"unknown", "error", "config_error"}, unkept: true,
	},
}

const long = "The quick brown fox jumps over the lazy dog, and then again, and again, until somebody says that it is enough for today."
