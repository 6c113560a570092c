package provider

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-dev/sluice/event"
)

// tries is a model that gives one list after the other: events, and an error or none at the end of each. After the last it
// starts over.
type tries struct {
	lists [][]any
	asked int
}

func (m *tries) Answer(ctx context.Context, _ Request) iter.Seq2[event.Event, error] {
	list := m.lists[m.asked%len(m.lists)]
	m.asked++
	return func(yield func(event.Event, error) bool) {
		for _, x := range list {
			switch x := x.(type) {
			case callOf:
				if !yield(event.Event{Header: event.Header{Call: string(x)}, Body: event.ToolCalled{Name: "bash"}}, nil) {
					return
				}
			case event.Body:
				if !yield(event.Event{Body: x}, nil) {
					return
				}
			case time.Duration:
				if err := sleep(ctx, x); err != nil {
					yield(event.Event{}, err)
					return
				}
			case error:
				yield(event.Event{}, x)
				return
			}
		}
	}
}

// callOf is a call by its id.
type callOf string

// told is all that a model says: bodies, ids of calls, and the error at the end.
func told(ctx context.Context, m Model) (list []any) {
	for e, err := range m.Answer(ctx, Request{}) {
		switch {
		case err != nil:
			list = append(list, err.Error())
		case e.Call != "":
			list = append(list, callOf(e.Call))
		default:
			list = append(list, e.Body)
		}
	}
	return list
}

// steady has no chance in it: half a second, one second, two …
var steady = Policy{Retries: 3, Base: time.Second, Cap: 3 * time.Second, For: time.Minute, Rand: func() float64 { return 0 }}

var (
	overloaded = &Error{Class: Overloaded, Status: 529, Message: "overloaded"}
	broken     = &Error{Class: Cut, Message: "cut"}
	end        = event.TurnEnded{Finish: event.FinishStop}
)

func retry(n int, wait time.Duration, e *Error) event.Retry {
	return event.Retry{Attempt: n, Limit: 3, Wait: wait.Milliseconds(), Class: e.Class, Status: e.Status, Message: e.Message}
}

func TestRetrying(t *testing.T) {
	type list = []any
	for name, tt := range map[string]struct {
		answers []list
		policy  Policy
		want    list
		took    time.Duration
	}{
		"what works passes": {
			answers: []list{{event.TextDelta{Text: "a"}, event.Text{Text: "a"}, callOf("1"), callOf("2"), end}},
			want:    list{event.TextDelta{Text: "a"}, event.Text{Text: "a"}, callOf("1"), callOf("2"), end},
		},
		"a cut block is partial, and the next attempt has its own": {
			answers: []list{
				{event.TextDelta{Text: "I w"}, event.Text{Text: "I w", Partial: true}, broken},
				{event.TextDelta{Text: "I will"}, event.Text{Text: "I will"}, end},
			},
			want: list{
				event.TextDelta{Text: "I w"}, event.Text{Text: "I w", Partial: true}, retry(1, time.Second/2, broken),
				event.TextDelta{Text: "I will"}, event.Text{Text: "I will"}, end,
			},
			took: time.Second / 2,
		},
		"a complete block before a cut call is partial, and the call is not told": {
			answers: []list{
				{event.TextDelta{Text: "go"}, event.Text{Text: "go"}, broken},
				{event.TextDelta{Text: "go"}, event.Text{Text: "go"}, callOf("1"), event.TextDelta{Text: "and"}, event.Text{Text: "and", Partial: true}, broken},
				{event.ThoughtDelta{Text: "hm"}, event.Thought{Text: "hm", Signature: "s"}, callOf("2"), broken},
				{event.TextDelta{Text: "go"}, event.Text{Text: "go"}, callOf("3"), end},
			},
			want: list{
				event.TextDelta{Text: "go"}, event.Text{Text: "go", Partial: true}, retry(1, time.Second/2, broken),
				event.TextDelta{Text: "go"}, event.Text{Text: "go", Partial: true}, retry(2, time.Second, broken),
				event.ThoughtDelta{Text: "hm"}, event.Thought{Text: "hm", Signature: "s", Partial: true}, retry(3, 3*time.Second/2, broken),
				event.TextDelta{Text: "go"}, event.Text{Text: "go"}, callOf("3"), end,
			},
			took: 3 * time.Second,
		},
		"a block follows its deltas before the next begins": {
			answers: []list{
				{event.ThoughtDelta{Text: "hm"}, event.Thought{Text: "hm"}, event.TextDelta{Text: "a"}, event.Text{Text: "a", Partial: true}, broken},
				{end},
			},
			want: list{
				event.ThoughtDelta{Text: "hm"}, event.Thought{Text: "hm"}, event.TextDelta{Text: "a"}, event.Text{Text: "a", Partial: true},
				retry(1, time.Second/2, broken), end,
			},
			took: time.Second / 2,
		},
		"what is said after a call waits with it": {
			answers: []list{{callOf("1"), event.TextDelta{Text: "a"}, event.Text{Text: "a"}, callOf("2"), end}},
			want:    list{callOf("1"), event.TextDelta{Text: "a"}, event.Text{Text: "a"}, callOf("2"), end},
		},
		"an answer without an end is cut": {
			answers: []list{{callOf("1")}, {end}},
			want:    list{retry(1, time.Second/2, &Error{Class: Cut, Message: "the answer has no end"}), end},
			took:    time.Second / 2,
		},
		"it gives up after so many": {
			answers: []list{{overloaded}},
			want: list{
				retry(1, time.Second/2, overloaded), retry(2, time.Second, overloaded), retry(3, 3*time.Second/2, overloaded),
				"overloaded; gave up after 3 retries (529)",
			},
			took: 3 * time.Second,
		},
		"none": {
			answers: []list{{overloaded}},
			policy:  Policy{Retries: -1},
			want:    list{"overloaded (529)"},
		},
		"not for what will not be better": {
			answers: []list{{&Error{Class: Auth, Status: 401, Message: "no"}}},
			want:    list{"no (401)"},
		},
		"not for what is no provider's error": {
			answers: []list{{errors.New("bug")}},
			want:    list{"bug"},
		},
		"the server's wait": {
			answers: []list{{&Error{Class: RateLimit, Status: 429, After: 7 * time.Second}}, {end}},
			want:    list{retry(1, 7*time.Second, &Error{Class: RateLimit, Status: 429, Message: "rate_limit"}), end},
			took:    7 * time.Second,
		},
		"a shorter one than ours": {
			answers: []list{{&Error{Class: RateLimit, Message: "slow", After: time.Millisecond}}, {end}},
			want:    list{retry(1, time.Second/2, &Error{Class: RateLimit, Message: "slow"}), end},
			took:    time.Second / 2,
		},
		"one that is too long": {
			answers: []list{{&Error{Class: RateLimit, Status: 429, Message: "slow", After: time.Hour}}},
			want:    list{"slow; gave up: the server asks to wait 1h0m0s, and retries end after 1m0s (429)"},
		},
		"the bound is of all retries together, and begins at the first failure": {
			answers: []list{{time.Hour, broken}, {2 * time.Second, broken}},
			policy:  Policy{Retries: 3, Base: 4 * time.Second, For: 5 * time.Second, Rand: func() float64 { return 0 }},
			want:    list{retry(1, 2*time.Second, broken), "cut; gave up: retries end after 5s"},
			took:    time.Hour + 4*time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.policy.Retries == 0 {
					tt.policy = steady
				}
				began := time.Now()
				got := told(t.Context(), Retrying(&tries{lists: tt.answers}, tt.policy))
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

func TestRetryingByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := &tries{lists: [][]any{{overloaded}}}
		got := told(t.Context(), Retrying(m, Policy{}))
		last, _ := got[len(got)-1].(string)
		if len(got) != 9 || m.asked != 9 || !strings.Contains(last, "after 8 retries") {
			t.Errorf("asked %d times, told %v", m.asked, got)
		}
		if took := time.Since(began); took < 45*time.Second || took > 95*time.Second {
			t.Errorf("it took %v", took)
		}
		for i, x := range got[:8] {
			most := min(500*time.Millisecond<<i, 30*time.Second).Milliseconds()
			if r := x.(event.Retry); r.Wait < most/2 || r.Wait > most {
				t.Errorf("wait %d is %d ms of %d", i, r.Wait, most)
			}
		}
	})
}

func TestRetryingEndsWithItsContext(t *testing.T) {
	for name, answer := range map[string][]any{
		"in the wait":    {&Error{Class: RateLimit, After: 30 * time.Second}},
		"in the attempt": {event.TextDelta{Text: "a"}, event.Text{Text: "a"}, callOf("1"), time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				began := time.Now()
				got := told(ctx, Retrying(&tries{lists: [][]any{answer}}, steady))
				if last := got[len(got)-1]; last != context.DeadlineExceeded.Error() || time.Since(began) != 3*time.Second {
					t.Errorf("told %v after %v", got, time.Since(began))
				}
				if b, ok := got[1].(event.Text); name == "in the attempt" && (!ok || !b.Partial || len(got) != 3) {
					t.Errorf("told %v", got)
				}
			})
		})
	}
}

func TestRetryingStopsWithItsReader(t *testing.T) {
	m := &tries{lists: [][]any{{event.TextDelta{Text: "a"}, event.Text{Text: "a", Partial: true}, broken}}}
	for stop := 1; stop <= 3; stop++ {
		synctest.Test(t, func(t *testing.T) {
			m.asked = 0
			n := 0
			for range Retrying(m, steady).Answer(t.Context(), Request{}) {
				if n++; n == stop {
					break
				}
			}
			if n != stop || m.asked != 1 {
				t.Errorf("asked %d times, heard %d", m.asked, n)
			}
		})
	}
}
