package cli

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/secret"
	"github.com/sluice-dev/sluice/journal"
)

// A gallery keeps what was shown.
type gallery struct{ shown []event.Event }

func (g *gallery) Put(e event.Event) error {
	g.shown = append(g.shown, e)
	return nil
}

// A journal that breaks with its very last line does not take the end with it, and the run is not done.
func TestJournalBreaksAtTheEnd(t *testing.T) {
	w, err := journal.Create(filepath.Join(t.TempDir(), "journal.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var g gallery
	line := newTimeline("ses", w, &g, secret.New(nil), func(*outcome.Cause) {})
	for _, b := range []event.Body{event.RunStarted{Format: event.Format}, event.Prompt{ID: "m", Text: "hi"}, event.ReplyDone{Prompt: "m"}} {
		if _, err := line.src.Emit(event.Event{Body: b}); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	end := line.finish(event.RunEnd{Outcome: event.Done})
	last := g.shown[len(g.shown)-1]
	told, ok := last.Body.(event.RunFailed)
	if len(g.shown) != 4 || last.Seq != 4 || !ok || told.Outcome != event.Internal || end.Outcome != event.Internal || told.Reason == "" {
		t.Errorf("it ends with %+v after %d, and says %+v", last, len(g.shown), end)
	}
	if line.finish(event.RunEnd{Outcome: event.Done}); len(g.shown) != 4 {
		t.Error("there is a second end")
	}
}

// Whoever waits for a reader has the end in the journal already.
func TestEndIsWrittenBeforeItIsShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.ndjson")
	w, err := journal.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	line := newTimeline("ses", w, slow(func() {
		last, err := journal.Last(path)
		if err != nil || last.Kind != "run.failed" {
			t.Errorf("the journal's last line is %s, %v", last.Kind, err)
		}
	}), secret.New(nil), func(*outcome.Cause) {})
	line.book.mender.Put(event.Event{Body: event.RunStarted{}}, func(event.Event) {})
	line.finish(event.RunEnd{Outcome: event.Internal, Reason: "broken", Duration: new(time.Second.Milliseconds())})
}

// A slow reader does something before each event.
type slow func()

func (s slow) Put(event.Event) error { s(); return nil }

// A bug in an encoder ends the run, and not the program.
func TestEncoderPanics(t *testing.T) {
	var why *outcome.Cause
	line := newTimeline("ses", nil, slow(func() { panic("oh no") }), secret.New(nil), func(c *outcome.Cause) { why = c })
	line.src.Emit(event.Event{Body: event.RunStarted{}})
	if why == nil || why.Outcome != event.Internal || !strings.Contains(why.Reason, "oh no") {
		t.Errorf("the run goes on: %v", why)
	}
	line.finish(event.RunEnd{Outcome: event.Internal})
}

// A paper takes every line but one.
type paper struct {
	bytes.Buffer
	tears string
	err   error
}

func (p *paper) Write(data []byte) (int, error) {
	if bytes.Contains(data, []byte(p.tears)) {
		return 0, p.err
	}
	return p.Buffer.Write(data)
}

// A stream whose last line could not be written is no success, although the journal has it.
func TestLastLineCannotBeWritten(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for err, want := range map[error]int{errors.New("no space"): 4, syscall.EPIPE: 141} {
		var errs bytes.Buffer
		out := &paper{tears: `"session_end"`, err: err}
		args := []string{"run", "--ephemeral", "--model", "demo/demo", "--format", "enso", "-C", t.TempDir(), "hi"}
		if exit := Run(context.Background(), args, IO{In: strings.NewReader(""), Out: out, Err: &errs}); exit != want {
			t.Errorf("exit %d, want %d", exit, want)
		}
		if !strings.HasPrefix(errs.String(), "sluice: ") || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("stderr: %q", errs.String())
		}
	}
}
