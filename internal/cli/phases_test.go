package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

// What is asked of a run of phases is accepted when a phase has it, and not before: the last one may be over by then.
func TestPromptsOfPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, over := context.WithCancel(t.Context())
		h := newHelm(steering{})
		if err := h.Send(event.Message{Text: "early"}); err != nil {
			t.Fatal(err)
		}
		out := h.feed(ctx)
		said := make(chan error, 3)
		take := func(want ...event.Command) {
			t.Helper()
			synctest.Wait()
			if len(said) > 0 {
				t.Error("it was accepted before anybody had it")
			}
			if diff := cmp.Diff(want, <-out); diff != "" {
				t.Error(diff)
			}
		}
		take(event.Message{Text: "early"})
		go func() { said <- h.Send(event.Message{Text: "one"}) }()
		take(event.Message{Text: "one"})
		if err := <-said; err != nil {
			t.Error(err)
		}
		go func() { said <- h.Interrupt(event.Message{Text: "two"}, false) }()
		take(event.Stop{}, event.Message{Text: "two"}) // at once: the phase must not end in between
		if err := <-said; err != nil {
			t.Error(err)
		}
		go func() { said <- h.Send(event.Message{Text: "late"}) }()
		synctest.Wait()
		over()
		if err := <-said; !errors.Is(err, errOver) {
			t.Errorf("a prompt that nobody will answer: %v", err)
		}
	})
}
