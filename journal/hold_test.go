package journal

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/event"
)

func TestHold(t *testing.T) {
	path := write(t, event.Event{Body: event.RunStarted{Format: 1}})
	before, _ := os.ReadFile(path)
	release, err := Hold(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(path); !errors.Is(err, ErrLocked) {
		t.Errorf("somebody writes what is held: %v", err)
	}
	release()
	w, err := Resume(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := Hold(path); !errors.Is(err, ErrLocked) {
		t.Errorf("what is written is held: %v", err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("it was changed")
	}
	if _, err := Hold(path + ".not"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Who only looks is not in the way of who wants to write.
func TestHoldForAMoment(t *testing.T) {
	path := write(t, event.Event{Body: event.RunStarted{Format: 1}})
	release, err := Hold(path)
	if err != nil {
		t.Fatal(err)
	}
	resumed := make(chan error)
	go func() {
		w, err := Resume(path)
		if err == nil {
			err = w.Close()
		}
		resumed <- err
	}()
	select {
	case err := <-resumed:
		t.Fatalf("it was not waited for: %v", err)
	case <-time.After(time.Millisecond):
	}
	release()
	if err := <-resumed; err != nil {
		t.Error(err)
	}
}
