package cli

import (
	"strconv"

	"github.com/sluice-dev/sluice/event"
)

// exits is the table of outcomes: what a run's exit code says. A cancelled run has the code of what stopped it.
var exits = map[event.Outcome]int{
	event.Done:        0,
	event.Misuse:      1,
	event.Unavailable: 2,
	event.Failed:      3,
	event.Internal:    4,
	event.Denied:      5,
	event.Budget:      6,
	event.Unverified:  7,
	event.Timeout:     124,
	event.Stalled:     124,
	event.Cancelled:   130,
}

// exitTable is the same for a person.
const exitTable = `  0 done            3 failed (the agent)     6 over a budget            124 timed out, or stalled
  1 wrong usage     4 internal error         7 not verified             129, 130, 131, 143 stopped by HUP, INT, QUIT, TERM
  2 unavailable     5 denied                                            141 the reader closed the pipe`

// exitCode is the exit code of a run that ended so.
func exitCode(end event.RunEnd) int {
	if end.Outcome == event.Cancelled {
		if n, err := strconv.Atoi(end.Code); err == nil && n > 128 && n < 256 {
			return n
		}
	}
	if n, ok := exits[end.Outcome]; ok {
		return n
	}
	return exits[event.Internal]
}
