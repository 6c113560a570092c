package fold

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/event"
)

// journal is a run of many turns: text, a call, its result of 2 to 9 KB, the turn's end; with deltas, forty of them too.
func journal(turns, deltas int) []byte {
	const words = "The parser keeps what it has read and the caller decides what to do with it. "
	text := strings.Repeat(words, 8)
	result := strings.Repeat("func (p *Parser) next() (token, error) {\n\treturn p.read(\"x\")\n}\n", 150)
	var events []event.Event
	add := func(e event.Event) { e.Session = "ses_7f3a91"; events = append(events, e) }
	add(event.Event{Body: event.RunStarted{Format: 1, Program: "sluice", Model: "m"}})
	for i := range turns {
		call := event.Header{Call: fmt.Sprintf("call_%d", i)}
		add(event.Event{Body: event.TurnStarted{Number: i + 1}})
		for range deltas {
			add(event.Event{Body: event.TextDelta{ID: "b1", Text: words[:15]}})
		}
		add(event.Event{Body: event.Text{ID: "b1", Text: text}})
		add(event.Event{Header: call, Body: event.ToolCalled{Name: "read", Class: event.ClassInfo, Input: event.Raw(`{"path":"internal/wire/scan.go"}`)}})
		add(event.Event{Body: event.TurnEnded{Number: i + 1, Provider: "p", Model: "m", Finish: event.FinishToolCalls, Usage: use(1000, 100), Cost: pay(0.01)}})
		add(event.Event{Header: call, Body: event.ToolStarted{Name: "read"}})
		add(event.Event{Header: call, Body: event.ToolDone{Name: "read", Output: result[:2000+i*977%7000]}})
	}
	add(event.Event{Body: event.RunDone{Outcome: event.Done}})
	var buf []byte
	for _, e := range number(events...) {
		buf = append(event.Append(buf, e), '\n')
	}
	return buf
}

// split reads a journal that is in memory.
func split(data []byte) iter.Seq2[event.Line, error] {
	return func(yield func(event.Line, error) bool) {
		var p event.Parser
		for rest := data; len(rest) > 0; {
			n := bytes.IndexByte(rest, '\n')
			l, err := p.Parse(rest[:n])
			if rest = rest[n+1:]; !yield(l, err) {
				return
			}
		}
	}
}

func BenchmarkRun(b *testing.B) {
	for _, j := range []struct {
		name string
		data []byte
	}{{"blocks", journal(2000, 0)}, {"deltas", journal(2000, 40)}} {
		for _, f := range []struct {
			name  string
			fresh func() []Fold
		}{
			{"headers", func() []Fold { return nil }},
			{"Tracker", func() []Fold { return []Fold{new(Tracker)} }},
			{"Ledger", func() []Fold { return []Fold{new(Ledger)} }},
			{"Digest", func() []Fold { return []Fold{new(Digest)} }},
			{"Transcript", func() []Fold { return []Fold{new(Transcript)} }},
		} {
			b.Run(j.name+"/"+f.name, func(b *testing.B) {
				b.SetBytes(int64(len(j.data)))
				b.ReportAllocs()
				for b.Loop() {
					if err := Run(split(j.data), f.fresh()...); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkCountFindings(b *testing.B) {
	text := strings.Repeat("The parser keeps what it has read, and the caller of it decides what is to be done with the rest. ", 100)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		CountFindings(text)
	}
}
