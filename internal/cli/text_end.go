package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
)

// This file tells how a run ended, and writes numbers for people.

// A textSum is what a run's end does not say itself.
type textSum struct {
	first, last                           time.Time
	turns, calls, failed, denied, stopped int
	usage                                 event.Usage
	cost                                  event.Cost
}

func (t *textSum) see(e event.Event) {
	if !e.At.IsZero() {
		if t.first.IsZero() {
			t.first = e.At
		}
		t.last = e.At
	}
	switch b := e.Body.(type) {
	case event.TurnEnded:
		t.turns++
		t.usage, t.cost = t.usage.Add(b.Usage), t.cost.Add(b.Cost)
	case event.ToolFailed:
		t.failed++
	case event.ToolDenied:
		t.denied++
	case event.ToolCancelled:
		t.stopped++
	}
}

// outcomes are the outcomes in words.
var outcomes = map[event.Outcome]string{
	event.Done:        "done",
	event.Misuse:      "could not start",
	event.Unavailable: "failed: the provider is not available",
	event.Failed:      "failed",
	event.Internal:    "failed: a fault in sluice",
	event.Denied:      "finished, but calls were denied",
	event.Budget:      "stopped: the budget is spent",
	event.Unverified:  "finished, but not verified",
	event.Timeout:     "stopped: out of time",
	event.Stalled:     "stopped: nothing moved any more",
	event.Cancelled:   "cancelled",
}

func (s *textSink) summary(e event.Event) {
	end, _ := event.AsRunEnd(e.Body)
	sum := s.sum
	took := sum.last.Sub(sum.first)
	if end.Duration != nil {
		took = time.Duration(*end.Duration) * time.Millisecond
	}
	if end.Usage == (event.Usage{}) {
		end.Usage = sum.usage
	}
	if end.Cost == (event.Cost{}) {
		end.Cost = sum.cost
	}

	s.endLine()
	s.part(partEnd)
	mark, colour := "✗", red
	switch end.Outcome {
	case event.Done:
		mark, colour = "✓", green
	case event.Cancelled:
		mark, colour = "■", yellow
	case event.Denied:
		mark, colour = "⊘", yellow
	}
	words := one(outcomes[end.Outcome], tameLine(string(end.Outcome)), strings.TrimPrefix(string(e.Body.Kind()), "run."))
	s.out = append(s.out, s.paint(colour, mark)+" "+s.paint(bold, words)...)
	s.out = append(s.out, s.paint(dim, s.figures(took))...)
	s.out = append(s.out, '\n')

	reason := end.Reason + bracket(strings.TrimSpace(end.Class+" "+end.Code))
	s.row("reason", pair(reason, "; ", end.Detail))
	if end.Inferred {
		s.row("", "nobody said so: this end was inferred")
	}
	s.row("tokens", tokensText(end.Usage))
	s.row("cost", costText(end))
	s.row("changed", changedText(end.Changes))
	for _, k := range end.Killed {
		s.row("killed", k)
	}
}

// row writes a word and what it says, if it says anything.
func (s *textSink) row(word, text string) {
	if text = tameLine(text); text != "" {
		s.out = append(s.out, indent(0)+s.paint(dim, fmt.Sprintf("%-8s", word))+text+"\n"...)
	}
}

// figures are how long it took, turns and calls.
func (s *textSink) figures(took time.Duration) string {
	text := ""
	if took > 0 {
		text += " · " + humanSpan(took)
	}
	if s.sum.turns > 0 {
		text += " · " + plural(s.sum.turns, "turn")
	}
	if s.sum.calls > 0 {
		var but []string
		for _, n := range []struct {
			count int
			word  string
		}{{s.sum.failed, "failed"}, {s.sum.denied, "denied"}, {s.sum.stopped, "cancelled"}} {
			if n.count > 0 {
				but = append(but, strconv.Itoa(n.count)+" "+n.word)
			}
		}
		text += " · " + plural(s.sum.calls, "call") + bracket(strings.Join(but, ", "))
	}
	return text
}

func tokensText(u event.Usage) string {
	var parts []string
	if n, known := u.InputAll(); known {
		in := humanCount(n) + " in"
		if u.CacheRead != nil && *u.CacheRead > 0 {
			in += bracket(humanCount(*u.CacheRead) + " cached")
		}
		parts = append(parts, in)
	}
	if n, known := u.OutputAll(); known {
		parts = append(parts, humanCount(n)+" out")
	}
	return strings.Join(parts, ", ")
}

func costText(end event.RunEnd) string {
	if sum, known := end.Cost.Sum(); known {
		return humanCost(sum)
	}
	in, _ := end.Usage.InputAll()
	out, _ := end.Usage.OutputAll()
	if in+out > 0 {
		return "unknown"
	}
	return ""
}

// maxNamed is how many changed files are named.
const maxNamed = 8

func changedText(c *event.Changes) string {
	if c == nil || len(c.Files)+len(c.Untracked) == 0 {
		return ""
	}
	var names []string
	for _, f := range c.Files {
		names = append(names, tameLine(f))
	}
	for _, f := range c.Untracked {
		names = append(names, tameLine(f)+" (new)")
	}
	more := ""
	if n := len(names); n > maxNamed {
		names, more = names[:maxNamed], fmt.Sprintf(" and %d more", n-maxNamed)
	}
	lines := ""
	if c.Added+c.Removed > 0 {
		lines = fmt.Sprintf(" · +%d −%d", c.Added, c.Removed)
	}
	return strings.Join(names, ", ") + more + lines
}

// nth says which of a few tries it is.
func nth(n, of int) string {
	if of > 0 {
		return fmt.Sprintf("%d of %d", n, of)
	}
	return "attempt " + strconv.Itoa(n)
}

// humanSpan writes a time as people say it: 20ms, 3.4s, 2m03s, 1h02m.
func humanSpan(d time.Duration) string {
	switch {
	case d < time.Second-500*time.Microsecond:
		return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) + "ms"
	case d < 59950*time.Millisecond:
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + "s"
	case d < time.Hour-500*time.Millisecond:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
}

// humanCount writes a number with three figures at most: 940, 1.2k, 18k, 180k, 2.5M.
func humanCount(n int64) string {
	for _, unit := range []struct {
		size int64
		word string
	}{{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}} {
		v := float64(n) / float64(unit.size)
		if v >= 999.5 && unit.word != "G" {
			continue
		}
		figures := 0
		if v < 99.95 && unit.size > 1 {
			figures = 1
		}
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', figures, 64), ".0") + unit.word
	}
	return ""
}

// humanCost writes dollars, as a digest does.
func humanCost(v float64) string {
	switch {
	case v == 0:
		return "$0"
	case v < 0.0001:
		return "< $0.0001"
	}
	return "$" + strconv.FormatFloat(v, 'f', 4, 64)
}
