//go:build unix

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// avenorMask is avenor in the failure matrix. Each run has a sentinel, which must say what the stream and the exit code say.
var avenorMask = &mask{
	name: "avenor", file: true,
	line: func(r *run, w wishes) []string {
		args := []string{"as", "avenor", "run", "--on-event", r.stream, "--sentinel-file", r.path("sentinel"), "--prompt", w.prompt}
		w.take("--format")
		w.take("--session-id")
		args = w.put(args, "-C", "--dir", "--resume", "--resume", "--agent", "--agent", "--model", "--model", "--timeout", "--timeout", "--stall", "--progress-timeout")
		r.configured(w)
		r.Cleanup(r.checkSentinel)
		return args
	},
	exit: func(f fault) int {
		switch f.outcome {
		case event.Done, event.Denied, event.Timeout, event.Stalled, event.Cancelled:
			return f.exit
		}
		switch f.ends.avenor {
		case "refusal":
			return 2
		case "max_tokens":
			return 3
		case "max_turn_requests":
			return 4
		}
		return 1
	},
	cannot: map[string]string{
		"--max-tool-rounds":               "it has no limit of rounds",
		"a session is there already":      "it names new sessions itself",
		"no prompt":                       "it is said before there is a stream: as_avenor.txtar",
		"SIGINT before there is a prompt": "it waits for none: stdin is no prompt",
	},
	turns: map[string]func(*fault){
		"denied by rule":               blocked,
		"nobody to ask":                blocked,
		"asked in a sub-agent":         blocked,
		"asked in a sub-agent's child": blocked,
	},
}

// blocked is how a run ends that was denied what it needed: its document's "end_turn" would be a lie.
func blocked(f *fault) { f.ends.avenor = "blocked" }

// checkSentinel sees to it that the sentinel says how the run ended.
func (r *run) checkSentinel() {
	data, err := os.ReadFile(r.path("sentinel"))
	if err != nil {
		r.Error(err)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	status, numbered := "FAILED", true
	switch r.exit {
	case 0:
		status, numbered = "DONE", false
	case 5:
		status, numbered = "BLOCKED", false
	case 124:
		status, numbered = "TIMEOUT", false
	case 129, 130, 141, 143:
		status = "KILLED"
	}
	said := map[string]string{}
	for _, l := range lines[1:] {
		k, v, _ := strings.Cut(l, "=")
		said[k] = v
	}
	code, has := said["EXIT_CODE"]
	if lines[0] != status || has != numbered || has && code != fmt.Sprint(r.exit) {
		r.Errorf("exit %d, and the sentinel says %q", r.exit, lines)
	}
	if end := lastOf(r.parse(r.out[:1+strings.LastIndexByte(string(r.out), '\n')]), "event", "session.end"); end != nil && said["STOP_REASON"] != end["stop_reason"] {
		r.Errorf("the stream says %v, and the sentinel says %q", end, lines)
	} else if end != nil && end["session_id"] != nil && said["SESSION"] != end["session_id"] {
		r.Errorf("the session is %v, and the sentinel says %q", end["session_id"], lines)
	}
}
