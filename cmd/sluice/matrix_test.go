//go:build unix

package main

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
)

// A fault is a row of the failure matrix: what goes wrong with a run, and what must come of it. Every row is played in every
// dialect and through every face, by the real program as a process of its own, against a scripted model behind a socket.
type fault struct {
	name   string
	script string   // what the model says; empty: it greets
	flags  []string // behind those that every run has

	before func(*run)                   // sets the stage
	during func(*run)                   // does what goes wrong, if it is not in the script
	read   func(*run, *os.File) []byte  // reads stdout; nil: as fast as it comes
	after  func(*run, []map[string]any) // looks at the journal's events

	exit    int
	outcome event.Outcome
	reason  string // some words of the reason that the end gives; empty: it gives none
	ends    endings

	reply  bool // only the reply ends so: the conversation that it is part of is done
	unread bool // stdout is not read to its end, or cannot be written
	unkept bool // the journal cannot be written
}

// endings are how dialects say how a run ended, beyond what the outcome tells them.
type endings struct {
	aictrl string // reason of session_error; empty: there is none
	avenor string // stop_reason of session.end; empty: end_turn
	aionrs string // code of the last error; empty: there is none, since the dialect has no word for it
}

// keep has the streams of the matrix, for a person to read.
var keep = flag.String("keep", "", "`folder` to keep the streams of the failure matrix in")

// faults are the rows of what may go wrong with any run; longFaults those of what makes it long.
func faults() []fault {
	return slices.Concat(providerFaults, toolFaults, gateFaults, signalFaults(), readerFaults, systemFaults)
}

func longFaults() []fault {
	return slices.Concat(agentFaults, mcpFaults, contextFaults, checkFaults, sessionFaults, configFaults)
}

func matrix() []fault { return append(faults(), longFaults()...) }

func TestFailureMatrix(t *testing.T) {
	rows := faults()
	if diff := missing(rows); len(diff) > 0 {
		t.Fatalf("no row for %s", strings.Join(diff, ", "))
	}
	for _, f := range rows {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.playAll(t)
		})
	}
}

// required is what must be in the matrix, whatever else is.
var required = []string{
	"no key", "400", "401", "403", "429 once", "429 for ever", "500", "529", "connection refused", "no such host", "cut in text",
	"cut in a call", "hang", "malformed", "empty answer", "max tokens", "refusal", "unknown tool", "arguments are not JSON",
	"arguments of the wrong type", "tool fails", "tool times out", "tool panics", "denied by rule", "nobody to ask", "on-ask fail",
	"turn limit", "round limit", "SIGINT in text", "SIGTERM in text", "SIGHUP in text", "SIGINT in a tool", "SIGTERM in a tool",
	"SIGHUP in a tool", "SIGINT in a retry", "SIGTERM in a retry", "SIGHUP in a retry", "second SIGINT", "reader closes the pipe",
	"reader at 1 kB/s", "reader stalls at the end", "timeout", "stall", "journal cannot be made", "disk full", "stdout is full",
}

func missing(rows []fault) []string {
	return slices.DeleteFunc(slices.Clone(required), func(name string) bool {
		return slices.ContainsFunc(rows, func(f fault) bool { return f.name == name })
	})
}

// played are the dialects that a row is played in: all, or in a hurry native and one other.
func played(name string) []*dialect.Dialect {
	all := dialect.All()
	if !testing.Short() {
		return all
	}
	return []*dialect.Dialect{all[0], oneOf(all[1:], name)}
}

// oneOf picks one, which differs from row to row and from day to day.
func oneOf[T any](list []T, name string) T {
	h := fnv.New32()
	fmt.Fprint(h, name, time.Now().YearDay())
	return list[int(h.Sum32())%len(list)]
}

// playAll plays a row in its dialects, and through its faces.
func (f fault) playAll(t *testing.T) {
	for _, d := range played(f.name) {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			f.play(t, d, nil)
		})
	}
	for _, m := range worn(f) {
		t.Run("as "+m.name, func(t *testing.T) {
			t.Parallel()
			d, err := dialect.Lookup(m.name)
			if err != nil {
				t.Fatal(err)
			}
			f.seen(m).play(t, d, m)
		})
	}
}

// play plays a row in one dialect, by a face or by sluice run.
func (f fault) play(t *testing.T, d *dialect.Dialect, m *mask) {
	r := newRun(t, d)
	r.mask = m
	r.serve(f.script)
	r.args = append(r.args, f.flags...)
	if f.before != nil {
		f.before(r)
	}
	if m != nil && m.file {
		if r.stream = r.path("events.ndjson"); f.read != nil || f.unread || r.shell != "" {
			r.stream = "-" // what happens there happens to stdout
		}
	}
	r.start(f.read)
	if f.during != nil {
		f.during(r)
	}
	r.wait()
	r.keepStream(f.name)
	defer func() {
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", clipped(r.out), r.errs.Bytes())
		}
	}()
	if r.exit != f.exit {
		t.Errorf("exit %d, want %d", r.exit, f.exit)
	}
	if limit := 30 * time.Second; !r.cause.IsZero() && r.took > limit {
		t.Errorf("the run went on for %v after what ended it", r.took)
	}
	r.checkStderr(f)
	r.checkStrays()
	if !f.unread {
		r.checkStream(f)
	}
	if f.unkept {
		return
	}
	events := r.checkJournal(f)
	if f.after != nil {
		f.after(r, events)
	}
}

func (r *run) keepStream(name string) {
	if *keep == "" {
		return
	}
	base := filepath.Join(*keep, strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "/", "-")+"."+r.dialect.Name)
	if r.mask != nil {
		base += ".face"
	}
	text := fmt.Sprintf("%s\n--- exit %d\n%s", r.out, r.exit, r.errs.Bytes())
	if err := os.WriteFile(base, []byte(text), 0o600); err != nil {
		r.Error(err)
	}
}

// clipped is a stream as far as a person wants to see it.
func clipped(out []byte) []byte {
	const most = 16 << 10
	if len(out) <= most {
		return out
	}
	return slices.Concat(out[:most/2], []byte("\n…\n"), out[len(out)-most/2:])
}
