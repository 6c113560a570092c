package fold

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/sluice-dev/sluice/event"
)

// This file is a summary as a person reads it. The rules: a word, then what it says, aligned; nothing that is empty; what
// an agent wrote is one line without control characters, so that it cannot speak to the terminal.

// WriteText writes the summary as plain text.
func (s Summary) WriteText(w io.Writer) error {
	buf := bufio.NewWriter(w)
	p := printer{tabwriter.NewWriter(buf, 0, 8, 2, ' ', 0)}
	p.outcome(s)
	p.who(s)
	p.work(s)
	p.trouble(s)
	p.stream(s)
	if err := p.w.Flush(); err != nil {
		return err
	}
	return buf.Flush()
}

type printer struct{ w *tabwriter.Writer }

// line writes a word and its parts, those that say something.
func (p printer) line(word string, parts ...string) {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) > 0 {
		fmt.Fprintf(p.w, "%s\t%s\n", word, strings.Join(parts, ", "))
	}
}

func (p printer) outcome(s Summary) {
	end := s.End
	p.line("outcome", cmp.Or(oneLine(string(s.Outcome)), "no end"), oneLine(end.Reason), oneLine(strings.TrimSpace(end.Class+" "+end.Code)), oneLine(end.Detail), when(end.Inferred, "inferred"))
	if s.Runs > 1 || s.Journals > 1 {
		p.line("runs", strconv.Itoa(s.Runs), many(s.Journals, "journal"), some(s.Unended, "without an end"))
	}
	if c := end.Changes; c != nil {
		p.line("changed", many(len(c.Files)+len(c.Untracked), "file"), fmt.Sprintf("+%d −%d", c.Added, c.Removed))
	}
	p.line("killed", oneLines(end.Killed)...)
	if !s.Started.IsZero() {
		p.line("started", s.Started.Format(time.RFC3339), when(s.Duration > 0, "took "+took(s.Duration)))
	} else if s.Duration > 0 {
		p.line("took", took(s.Duration))
	}
}

func (p printer) who(s Summary) {
	p.line("dialect", oneLine(s.Dialect))
	p.line("program", oneLines(s.Programs)...)
	p.line("backend", oneLines(s.Backends)...)
	p.line("model", oneLines(s.Models)...)
	if len(s.Sessions) > 3 {
		p.line("sessions", strconv.Itoa(len(s.Sessions)))
	} else {
		p.line("session", oneLines(s.Sessions)...)
	}
	for _, a := range s.Agents {
		indent := strings.Repeat("  ", min(max(a.Depth-1, 0), 8))
		p.line("agent", indent+oneLine(a.Agent), oneLine(a.Title), oneLine(a.Role), when(a.Open, "never ended"), when(a.Error != "", "error: "+oneLine(a.Error)))
	}
}

func (p printer) work(s Summary) {
	t := s.Spent.Total
	r := s.Replies
	p.line("replies", some(r.Done, "done"), some(r.Failed, "failed"), some(r.Cancelled, "cancelled"))
	p.line("turns", when(t.Turns > 0, strconv.Itoa(t.Turns)))
	p.line("tokens", tokens(t.Usage)...)
	p.line("cost", dollars(t.Cost), when(t.Unpriced > 0 && t.Cost != event.Cost{}, fmt.Sprintf("without %d of %s", t.Unpriced, many(t.Turns, "turn"))))
	if len(s.Spent.Models) > 1 {
		for _, m := range s.Spent.Models {
			p.line("  by model", spent(model(m.Provider, m.Model), m.Account)...)
		}
	}
	if len(s.Spent.Agents) > 1 {
		for _, a := range s.Spent.Agents {
			p.line("  by agent", spent(cmp.Or(a.Agent, "top"), a.Account)...)
		}
	}
	if g := s.Spent.Gap; g != nil {
		p.line("  the run says", append(tokens(g.Said.Usage), dollars(g.Said.Cost))...)
		p.line("  its turns say", append(tokens(g.Counted.Usage), dollars(g.Counted.Cost))...)
	}
	for _, t := range s.Tools {
		p.line("tool", cmp.Or(oneLine(t.Name), "(not named)")+": "+strconv.Itoa(t.Calls), some(t.Failed, "failed"), some(t.Denied, "denied"), some(t.Cancelled, "cancelled"), some(t.Open, "never ended"),
			when(t.Total > 0, took(t.Total)), when(t.Calls > 1 && t.Longest > 0, "longest "+took(t.Longest)))
	}
	for _, l := range s.Loops {
		p.line("loop", many(l.Iterations, "iteration"), when(l.Max > 0, fmt.Sprintf("at most %d", l.Max)), oneLine(l.Reason), oneLine(l.Label), when(l.Open, "never ended"))
	}
	for _, ph := range s.Phases {
		p.line("phase", oneLine(ph.Phase)+": "+strconv.Itoa(ph.Runs), when(ph.Total > 0, took(ph.Total)))
	}
}

func (p printer) trouble(s Summary) {
	p.line("asked", when(s.Gate.Asked > 0, many(s.Gate.Asked, "question")))
	p.line("allowed", tally(s.Gate.Allowed)...)
	p.line("denied", tally(s.Gate.Denied)...)
	p.line("retries", append([]string{some(s.Retries.Count, "")}, counts(s.Retries)...)...)
	p.line("phase retries", some(s.PhaseRetries, ""))
	p.line("compactions", some(s.Compactions, ""))
	p.line("errors", some(s.Errors.Count, ""))
	for _, c := range s.Errors.First {
		p.line("  error", oneLine(c.Text)+when(c.Count > 1, fmt.Sprintf(" (%d times)", c.Count)))
	}
	p.line("findings", some(s.Findings, ""))
	for _, e := range s.Excerpts {
		p.line("  finding", fmt.Sprintf("%d: %s", e.Seq, oneLine(e.Text)))
	}
}

func (p printer) stream(s Summary) {
	p.line("events", strconv.Itoa(s.Events), when(s.Foreign > 0, many(s.Foreign, "foreign line")), some(s.Unread, "could not be read"))
	p.line("unknown", tally(s.Unknown)...)
	p.line("inferred", tally(s.Inferred)...)
	var untold []string
	for _, what := range slices.Sorted(maps.Keys(s.Untold)) {
		untold = append(untold, what+when(s.Journals > 1, fmt.Sprintf(" (in %d)", s.Untold[what])))
	}
	p.line("not told", untold...)
}

func when(cond bool, text string) string {
	if cond {
		return text
	}
	return ""
}

// some is the number and the words, or nothing for none.
func some(n int, words string) string {
	return when(n != 0, strings.TrimSpace(strconv.Itoa(n)+" "+words))
}

func many(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}

func spent(by string, a Account) []string {
	parts := append([]string{cmp.Or(oneLine(by), "not said") + ": " + many(a.Turns, "turn")}, tokens(a.Usage)...)
	return append(parts, dollars(a.Cost))
}

func tokens(u event.Usage) (parts []string) {
	for _, p := range []struct {
		n    *int64
		word string
	}{{u.Input, "in"}, {u.CacheRead, "cache read"}, {u.CacheWrite, "cache written"}, {u.Output, "out"}, {u.Reasoning, "reasoning"}} {
		if p.n != nil {
			parts = append(parts, fmt.Sprintf("%d %s", *p.n, p.word))
		}
	}
	return parts
}

func dollars(c event.Cost) string {
	sum, known := c.Sum()
	return when(known, "$"+strconv.FormatFloat(sum, 'f', 4, 64))
}

func took(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

func tally[K ~string](m map[K]int) (parts []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", cmp.Or(oneLine(string(k)), "not said"), m[k]))
	}
	return parts
}

func counts(c Counted) (parts []string) {
	for _, f := range c.First {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %d", oneLine(f.Text), f.Count)))
	}
	return parts
}

func oneLines(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = oneLine(s)
	}
	return out
}

const maxExcerpt = 160 // runes

// oneLine returns the text as one short line: white space as one space, no control characters.
func oneLine(s string) string {
	var b strings.Builder
	space, n := false, 0
	for _, r := range s {
		if unicode.IsSpace(r) {
			space = b.Len() > 0
			continue
		}
		if !unicode.IsPrint(r) {
			continue
		}
		if n++; n > maxExcerpt {
			b.WriteString("…")
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// lineAt returns the line around an offset, cut to size with the offset in it.
func lineAt(text string, at int) string {
	at = max(0, min(at, len(strings.TrimRightFunc(text, unicode.IsSpace))-1))
	start := strings.LastIndexByte(text[:at], '\n') + 1
	end := len(text)
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		end = at + i
	}
	if at-start > maxExcerpt/2 {
		start = at - maxExcerpt/2
		for start < at && text[start]&0xc0 == 0x80 { // not inside a rune
			start++
		}
	}
	return oneLine(text[start:end])
}
