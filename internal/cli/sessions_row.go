package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/journal"
)

// States of a session that are no outcome.
const (
	stateRunning = "running" // somebody writes its journal
	stateCut     = "cut"     // its last run has no end, and nobody writes it
	stateDamaged = "damaged" // its journal cannot be read
)

// A sessionRow is what a list says of a session.
type sessionRow struct {
	ID        string    `json:"id"`
	State     string    `json:"state"` // running, cut, damaged, or the outcome of its last run
	Started   time.Time `json:"started,omitzero"`
	Written   time.Time `json:"written"`
	Turns     int       `json:"turns"`
	Cost      *float64  `json:"cost,omitempty"`      // in US dollars; absent if nobody knows
	AtLeast   bool      `json:"at_least,omitempty"`  // the journal is too long to add everything up: the cost of the last run
	Workspace string    `json:"workspace,omitempty"` //
	Model     string    `json:"model,omitempty"`     // provider/name
	Prompt    string    `json:"prompt,omitempty"`    // the first line of the first one
	Journal   string    `json:"journal"`
	Size      int64     `json:"size"` // of the journal, in bytes

	end  event.RunEnd
	last event.Kind
}

// readRows reads what a list says, several sessions at a time.
func readRows(list []sessionFolder) []sessionRow {
	rows := make([]sessionRow, len(list))
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, f := range list {
		slots <- struct{}{}
		wg.Go(func() {
			rows[i] = readRow(f)
			<-slots
		})
	}
	wg.Wait()
	return rows
}

// readRow reads a journal, or both its ends if it is long.
func readRow(f sessionFolder) sessionRow {
	row := sessionRow{ID: filepath.Base(f.dir), Written: f.written.UTC().Truncate(time.Millisecond), Journal: filepath.Join(f.dir, journalName), Size: f.size}
	file, err := os.Open(row.Journal)
	if err != nil {
		row.State = stateDamaged
		return row
	}
	defer file.Close()
	var ledger fold.Ledger
	r := bothEnds(file, f.size)
	_ = fold.Run(journal.Scan(r, fold.Wanted(&row, &ledger)), &row, &ledger) // what cannot be read is passed over
	cost := ledger.Accounts().Total.Cost
	if row.AtLeast = f.size > longJournal; row.AtLeast {
		cost = row.end.Cost
		if l, err := journal.Last(row.Journal); err == nil { // a last line may be longer than what was read
			row.last = l.Kind
		}
	}
	if sum, known := cost.Sum(); known {
		row.Cost = &sum
	} else {
		row.AtLeast = false
	}
	row.State = row.state()
	return row
}

// Journals up to longJournal bytes are read whole. Of a longer one so much is read at both ends.
const (
	longJournal = 1 << 20
	headBytes   = 64 << 10
	tailBytes   = 256 << 10
)

// bothEnds reads a file, or whole lines at its beginning and at its end if it is long.
func bothEnds(file *os.File, size int64) io.Reader {
	if size <= longJournal {
		return file
	}
	head, tail := make([]byte, headBytes), make([]byte, tailBytes)
	n, _ := file.ReadAt(head, 0)
	head = head[:bytes.LastIndexByte(head[:n], '\n')+1]
	n, _ = file.ReadAt(tail, size-tailBytes)
	tail = tail[bytes.IndexByte(tail[:n], '\n')+1 : n]
	return io.MultiReader(bytes.NewReader(head), bytes.NewReader(tail))
}

// Wants implements [fold.Fold].
func (r *sessionRow) Wants() []event.Body {
	return []event.Body{event.RunStarted{}, event.Prompt{}, event.TurnEnded{}, event.RunDone{}, event.RunFailed{}, event.RunCancelled{}}
}

// Fields implements [fold.Skimmer]: a prompt may have files in it.
func (r *sessionRow) Fields() map[event.Kind][]string {
	return map[event.Kind][]string{
		"run.started": {"cwd", "provider", "model"}, "prompt": {"text", "source"}, "turn.ended": {"number"},
		"run.done": {"outcome", "cost"}, "run.failed": {"outcome", "cost"}, "run.cancelled": {"outcome", "cost"},
	}
}

// Apply implements [fold.Fold].
func (r *sessionRow) Apply(e event.Event) {
	r.last = e.Kind
	if r.Started.IsZero() {
		r.Started = e.At
	}
	if !e.Top() {
		return
	}
	switch b := e.Body.(type) {
	case event.RunStarted:
		r.Workspace = one(r.Workspace, b.Cwd)
		if b.Model != "" {
			r.Model = b.Provider + "/" + b.Model
		}
	case event.Prompt:
		if r.Prompt == "" && b.Source != event.SourceHistory {
			r.Prompt = firstLine(b.Text)
		}
	case event.TurnEnded:
		r.Turns = max(r.Turns+1, b.Number)
	}
	if end, ok := event.AsRunEnd(e.Body); ok {
		r.end = end
	}
}

// state says how the session stands. The lock is asked for only where it makes a difference.
func (r *sessionRow) state() string {
	switch r.last {
	case "run.done", "run.failed", "run.cancelled":
		return one(string(r.end.Outcome), string(r.last[len("run."):]))
	}
	if held(r.Journal) {
		return stateRunning
	}
	if r.last == "" && r.Size > 0 {
		return stateDamaged
	}
	return stateCut
}

// held says whether somebody writes the journal.
func held(path string) bool {
	release, err := journal.Hold(path)
	if err == nil {
		release()
	}
	return errors.Is(err, journal.ErrLocked)
}

// firstLine returns the first line that says something, with what steers a terminal taken out.
func firstLine(text string) string {
	const longest = 400 // more is never shown
	for len(text) > 0 {
		end := len(text)
		if i := strings.IndexByte(text, '\n'); i >= 0 {
			end = i
		}
		if line := tameLine(flatten(text[:end], longest)); line != "" {
			return line
		}
		text = text[min(end+1, len(text)):]
	}
	return ""
}
