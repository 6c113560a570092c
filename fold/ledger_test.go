package fold

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-dev/sluice/event"
)

func use(in, out int64) event.Usage { return event.Usage{Input: new(in), Output: new(out)} }

func pay(total float64) event.Cost { return event.Cost{Total: new(total)} }

func TestLedger(t *testing.T) {
	for name, tt := range map[string]struct {
		events []event.Event
		want   Accounts
	}{
		"nothing": {say(event.Prompt{}), Accounts{}},
		"turns, by model and agent": {
			[]event.Event{
				in("s", event.RunStarted{Provider: "p", Model: "m"}),
				in("s", event.TurnEnded{Usage: use(1, 2), Cost: pay(0.5)}),
				in("s", event.TurnEnded{Model: "m", Usage: use(10, 20), Cost: pay(0.25)}),
				ofAgent("a", "", event.TurnEnded{Model: "small", Usage: use(100, 200)}),
				in("s", event.ReplyDone{Usage: use(111, 222), Cost: pay(0.75)}),
				in("s", event.RunDone{Usage: use(111, 222), Cost: pay(0.75)}),
			},
			Accounts{
				Total: Account{Turns: 3, Unpriced: 1, Usage: use(111, 222), Cost: pay(0.75)},
				Models: []ModelAccount{
					{"p", "m", Account{Turns: 2, Usage: use(11, 22), Cost: pay(0.75)}},
					{"", "small", Account{Turns: 1, Unpriced: 1, Usage: use(100, 200)}},
				},
				Agents: []AgentAccount{
					{"", Account{Turns: 2, Usage: use(11, 22), Cost: pay(0.75)}},
					{"a", Account{Turns: 1, Unpriced: 1, Usage: use(100, 200)}},
				},
			},
		},
		"a dialect that counts replies": {
			[]event.Event{
				in("s", event.TurnEnded{Model: "m"}), in("s", event.ReplyDone{Usage: use(1, 2)}),
				in("s", event.TurnEnded{Model: "m", Usage: use(3, 4)}), in("s", event.ReplyDone{Usage: use(3, 4), Cost: pay(0.5)}),
			},
			Accounts{
				Total:  Account{Turns: 2, Unmetered: 1, Unpriced: 2, Usage: use(4, 6), Cost: pay(0.5)},
				Models: []ModelAccount{{"", "m", Account{Turns: 2, Unmetered: 1, Unpriced: 2, Usage: use(4, 6), Cost: pay(0.5)}}},
				Agents: []AgentAccount{{"", Account{Turns: 2, Unmetered: 1, Unpriced: 2, Usage: use(4, 6), Cost: pay(0.5)}}},
			},
		},
		"only the run knows": {
			[]event.Event{in("s", event.RunStarted{}), in("s", event.ReplyDone{}), in("s", event.RunDone{Usage: use(1, 2)})},
			Accounts{Total: Account{Usage: use(1, 2)}},
		},
		"the run does not add up": {
			[]event.Event{in("s", event.TurnEnded{Usage: use(1, 2)}), in("s", event.RunDone{Usage: use(1, 5)})},
			Accounts{
				Total:  Account{Turns: 1, Unpriced: 1, Usage: use(1, 2)},
				Models: []ModelAccount{{"", "", Account{Turns: 1, Unpriced: 1, Usage: use(1, 2)}}},
				Agents: []AgentAccount{{"", Account{Turns: 1, Unpriced: 1, Usage: use(1, 2)}}},
				Gap:    &Gap{Runs: 1, Said: Account{Usage: use(1, 5)}, Counted: Account{Usage: use(1, 2)}},
			},
		},
		"a resumed run counts its own": {
			[]event.Event{
				in("s", event.RunStarted{Model: "m"}), in("s", event.TurnEnded{Usage: use(1, 1)}), // killed
				in("s", event.RunStarted{Model: "m"}), in("s", event.TurnEnded{Usage: use(2, 2)}), in("s", event.RunDone{Usage: use(2, 2)}),
			},
			Accounts{
				Total:  Account{Turns: 2, Unpriced: 2, Usage: use(3, 3)},
				Models: []ModelAccount{{"", "m", Account{Turns: 2, Unpriced: 2, Usage: use(3, 3)}}},
				Agents: []AgentAccount{{"", Account{Turns: 2, Unpriced: 2, Usage: use(3, 3)}}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l Ledger
			events := number(tt.events...)
			for range 2 { // what is seen again is not counted again
				for _, e := range events {
					Apply(e, &l)
				}
			}
			if diff := cmp.Diff(tt.want, l.Accounts(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLedgerMerge(t *testing.T) {
	part := func(model string, n int64) *Ledger {
		var l Ledger
		for _, e := range number(in("s", event.TurnEnded{Model: model, Usage: use(n, n), Cost: pay(float64(n) / 4)}), in("s", event.RunDone{Usage: use(n, 0)})) {
			l.Apply(e)
		}
		return &l
	}
	a, b, c := part("x", 1), part("y", 2), part("x", 4)
	left, right := new(Ledger), part("y", 2)
	left.Merge(a)
	left.Merge(b)
	left.Merge(c)
	right.Merge(c)
	a.Merge(right)
	if diff := cmp.Diff(left.Accounts(), a.Accounts()); diff != "" {
		t.Error(diff)
	}
	want := Account{Turns: 3, Usage: use(7, 7), Cost: pay(1.75)}
	if diff := cmp.Diff(want, left.Accounts().Total); diff != "" {
		t.Error(diff)
	}
	if g := left.Accounts().Gap; g == nil || g.Runs != 3 {
		t.Errorf("gap %+v", g)
	}
}
