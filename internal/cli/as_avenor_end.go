package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/loop"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// avenorCodes are the exit codes of stop reasons. What is not here is 1.
var avenorCodes = map[string]int{"end_turn": 0, "stop_sequence": 0, "refusal": 2, "max_tokens": 3, "max_turn_requests": 4, loop.MaxIterations: 4, "blocked": 5, "timeout": 124}

// avenorExit is the exit code of a run that ended so.
func avenorExit(end event.RunEnd, v outcome.Verdict) int {
	if end.Outcome == event.Cancelled {
		return exitCode(end)
	}
	if code, ok := avenorCodes[avenorStop(end, v)]; ok {
		return code
	}
	return 1
}

// avenorStop is the stop reason of a run that ended so, as session.end has it.
func avenorStop(end event.RunEnd, v outcome.Verdict) string {
	switch end.Outcome {
	case event.Done:
		return first(v.Stop, "end_turn")
	case event.Cancelled:
		if v.Stop == "cancelled_forced" {
			return v.Stop
		}
		return "cancelled"
	case event.Timeout, event.Stalled:
		return "timeout"
	case event.Denied:
		return "blocked"
	case event.Failed:
		if slices.Contains([]string{"refusal", "max_tokens", "max_turn_requests", loop.MaxIterations, "blocked", fold.DegenerateStream}, v.Stop) {
			return v.Stop
		}
	}
	return "error"
}

// A sentinel is a file that says how a run ended, for whoever waits for it.
type sentinel struct {
	path, run string
	label     string // of the marker that blocked it
	io        IO
}

// clear takes away what an earlier run left: whoever waits must not find that.
func (s *sentinel) clear() error {
	if s.path == "" {
		return nil
	}
	info, err := os.Lstat(s.path)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0: // a folder, or a device, which must not become a file
		return &fs.PathError{Op: "write", Path: s.path, Err: errors.New("it is there, and is not a file")}
	}
	return os.Remove(s.path)
}

// write writes the file, whole at once. That it cannot be written is told, and changes nothing.
func (s *sentinel) write(session string, end event.RunEnd, v outcome.Verdict, code int) {
	if s.path == "" {
		return
	}
	if err := s.put(s.text(session, end, v, code)); err != nil {
		s.io.complain(hinted{fmt.Errorf("the sentinel cannot be written: %w", err), "--sentinel-file names the file"})
	}
}

func (s *sentinel) put(text string) error {
	f, err := os.CreateTemp(filepath.Dir(s.path), ".sentinel-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // once it has its name there is nothing to remove
	_, err = f.WriteString(text)
	err = either(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	return err
}

// text is what the sentinel says. Its first line is the status; the order of the others is avenor's.
func (s *sentinel) text(session string, end event.RunEnd, v outcome.Verdict, code int) string {
	stop := avenorStop(end, v)
	status, reason, numbered := "FAILED", "", true
	switch {
	case end.Outcome == event.Cancelled:
		status = "KILLED"
	case code == 0:
		status, numbered = "DONE", false
	case stop == "blocked":
		status, reason, numbered = "BLOCKED", first(s.label, end.Reason), false
	case stop == "timeout":
		status, numbered = "TIMEOUT", false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nSESSION=%s\nSTOP_REASON=%s\n", status, oneLine(session), stop)
	if reason != "" {
		fmt.Fprintf(&b, "REASON=%s\n", oneLine(reason))
	}
	if numbered {
		fmt.Fprintf(&b, "EXIT_CODE=%d\n", code)
	}
	if s.run != "" {
		fmt.Fprintf(&b, "RUN=%s\n", oneLine(s.run))
	}
	return b.String()
}
