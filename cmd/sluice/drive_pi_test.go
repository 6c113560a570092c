//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/internal/guest/standin"
)

func init() { programs["pi"] = standin.Pi }

// The backend pi asks nobody, and is only begun if everything may pass.
func TestAvenorBackendPi(t *testing.T) {
	for name, c := range map[string]struct {
		prompt string
		flags  []string
		exit   int
		stop   string
		events string
	}{
		"hello": {"hello", []string{"--auto-approve"}, 0, "end_turn", "session.start user.message_chunk agent.message_chunk agent.message_chunk session.end"},
		"tools": {"run make", []string{"--auto-approve"}, 0, "end_turn",
			"session.start user.message_chunk agent.message_chunk tool.call tool.call_update agent.message_chunk session.end"},
		"401":     {"error 401: no", []string{"--auto-approve"}, 1, "error", "session.start user.message_chunk avenor.error session.end"},
		"killed":  {"killed", []string{"--auto-approve"}, 1, "error", "session.start user.message_chunk tool.call tool.call_update avenor.error session.end"},
		"ungiven": {"hello", nil, 1, "error", "session.start avenor.error session.end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAvenor(t, "", append([]string{"--backend", "pi", "--prompt", c.prompt}, c.flags...)...)
			a.start(nil)
			a.wait()
			a.hosted(c.exit, c.stop)
			if got := a.events(); got != c.events {
				t.Errorf("events:\n got %s\nwant %s", got, c.events)
			}
			if name == "ungiven" && !strings.Contains(a.errs.String(), "--auto-approve") {
				t.Errorf("stderr: %s", a.errs.String())
			}
		})
	}
}
