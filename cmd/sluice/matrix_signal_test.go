//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-dev/sluice/event"
)

// signalFaults are runs that somebody stops, wherever they are.
func signalFaults() (rows []fault) {
	places := []fault{
		{
			name:   "text",
			script: `steps: [{text: Hello there., fault: {hang: text}}]`,
			during: func(r *run) { r.await("text.delta") },
		},
		{
			name:   "a tool",
			script: `steps: [{calls: [{tool: bash, input: {command: "stray one; echo hi; sleep 60"}}, {tool: bash, input: {command: "stray two; trap '' TERM INT; sleep 60; sleep 60"}}]}, {text: Done.}]`,
			during: func(r *run) { r.awaitStray("one"); r.awaitStray("two") },
			after:  failsWith("tool.cancelled", "stopped by SIG"),
		},
		{
			name:   "a retry",
			script: `steps: [{text: Hello there., fault: {status: 429, headers: {retry-after: "30"}}}]`,
			during: func(r *run) { r.await("retry") },
		},
		{
			name:   "silence",
			script: `steps: [{text: Hello there., fault: {hang: start}}]`,
			during: func(r *run) { r.await("turn.started") },
		},
	}
	for _, s := range []struct {
		signal syscall.Signal
		name   string
		exit   int
	}{{syscall.SIGINT, "SIGINT", 130}, {syscall.SIGTERM, "SIGTERM", 143}, {syscall.SIGHUP, "SIGHUP", 129}} {
		for _, f := range places {
			ready := f.during
			f.name = s.name + " in " + f.name
			f.during = func(r *run) { ready(r); r.signal(s.signal) }
			f.exit, f.outcome, f.reason = s.exit, event.Cancelled, "stopped by "+s.name
			f.ends = endings{"unknown", "cancelled", ""}
			rows = append(rows, f)
		}
	}
	return append(rows, otherSignals...)
}

var otherSignals = []fault{
	{
		name:   "second SIGINT",
		script: `steps: [{call: {tool: bash, input: {command: "stray one; trap '' TERM INT; sleep 60; sleep 60"}}}, {text: Done.}]`,
		during: func(r *run) {
			r.awaitStray("one")
			r.signal(syscall.SIGINT)
			r.signal(syscall.SIGINT)
		},
		exit: 130, outcome: event.Cancelled, reason: "stopped by SIGINT", ends: endings{"unknown", "cancelled", ""},
	},
	{
		// The reader is there, and reads nothing: only the second signal ends the run. The journal has its end all the same,
		// although each piece of the text ends as the key begins, and waits for what follows it.
		name:   "second SIGINT while the reader stalls",
		script: `{chunk: 40, steps: [{text: "` + strings.Repeat("s", 120_000) + `"}]}`,
		read:   func(r *run, in *os.File) []byte { <-r.over; return readAll(r, in) },
		during: func(r *run) { r.awaitFull(); r.insist(syscall.SIGINT) },
		exit:   130, outcome: event.Cancelled, reason: "stopped by SIGINT", unread: true,
	},
	{
		name:   "SIGINT before there is a prompt",
		before: func(r *run) { r.args, r.silent = r.args[:len(r.args)-1], true },
		during: func(r *run) { r.await("catalog"); r.signal(syscall.SIGINT) },
		exit:   130, outcome: event.Cancelled, reason: "stopped by SIGINT", ends: endings{"unknown", "cancelled", ""},
	},
	{
		name:   "SIGHUP to who was told not to hear it",
		script: `steps: [{text: Hello there., delay: 300ms, chunk: 4}]`,
		before: func(r *run) { r.wrap("trap '' HUP; exec sluice \"$@\"") },
		during: func(r *run) {
			r.await("text.delta")
			_ = r.cmd.Process.Signal(syscall.SIGHUP)
		},
		outcome: event.Done,
	},
}

// insist sends a signal again and again, as one does whom nobody hears.
func (r *run) insist(s syscall.Signal) {
	r.signal(s)
	go func() {
		again := time.NewTicker(200 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				_ = r.cmd.Process.Signal(s) // it may be gone by now
			case <-r.over:
				return
			}
		}
	}()
}

// wrap has the program started by a shell, which is told how.
func (r *run) wrap(script string) { r.shell = script }
