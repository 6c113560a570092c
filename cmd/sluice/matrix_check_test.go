//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/journal"
)

// checkStderr: one line for each thing, and nothing of our insides. A run that is done says nothing; any other says why.
func (r *run) checkStderr(f fault) {
	said := r.errs.String()
	if r.mask != nil && r.mask.aside && !f.unkept {
		for _, notice := range r.notices() {
			said = strings.Replace(said, "sluice: "+notice+"\n", "", 1)
		}
	}
	if strings.Contains(said, key) || bytes.Contains(r.out, []byte(key)) {
		r.Error("the key is shown")
	}
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "sluice: ") || !strings.HasSuffix(line, "\n") || strings.Contains(line, "goroutine ") {
			r.Errorf("stderr: %q", line)
		}
	}
	if f.outcome == event.Done || f.reply {
		if said != "" {
			r.Errorf("it is done, and complains: %s", said)
		}
		return
	}
	if want := "sluice: " + string(f.outcome) + ": "; !strings.Contains(said, want) || !strings.Contains(said, f.reason) {
		r.Errorf("stderr does not say %q and %q", want, f.reason)
	}
	if n := strings.Count(said, "\n"); n != 1 {
		r.Errorf("stderr has %d lines", n)
	}
}

// notices are what the journal tells a person besides, which a dialect may have no word for.
func (r *run) notices() (list []string) {
	data, _ := os.ReadFile(r.journal()) // without a journal there are none
	for _, e := range r.parse(data) {
		body, _ := e["body"].(map[string]any)
		if text, ok := body["text"].(string); ok && e["kind"] == "notice" {
			list = append(list, text)
		}
		if text, ok := body["message"].(string); ok && e["kind"] == "error" && body["class"] == "mcp" {
			list = append(list, text)
		}
	}
	return list
}

// checkStream: what stdout says is what its dialect allows, and it says how the run ended, once, last.
func (r *run) checkStream(f fault) {
	r.lint(r.dialect, r.out)
	lines := r.parse(r.out)
	if len(lines) == 0 {
		r.Fatal("the stream is empty")
	}
	last, failed := lines[len(lines)-1], f.outcome != event.Done
	is := func(field string, want any) {
		r.Helper()
		if got := last[field]; fmt.Sprint(got) != fmt.Sprint(want) {
			r.Errorf("the last line has %s %q, want %q: %v", field, got, want, last)
		}
	}
	says := func(text any) {
		r.Helper()
		if s, ok := text.(string); !ok || !strings.Contains(s, f.reason) || s == "" {
			r.Errorf("the end says %q, want something with %q", text, f.reason)
		}
	}
	switch r.dialect.Name {
	case "native":
		r.once(lines, "kind", "run.done", "run.failed", "run.cancelled")
		is("kind", kindOf(f.outcome))
	case "aictrl":
		r.once(lines, "type", "session_complete")
		is("type", "session_complete")
		if failed {
			says(last["error"])
		} else {
			is("error", nil)
		}
		r.field(lines, "type", "session_error", "reason", f.ends.aictrl)
	case "grok":
		if failed {
			r.once(lines, "type", "error")
			is("type", "error")
			says(last["message"])
		} else {
			is("type", "step_finish")
		}
	case "avenor":
		r.once(lines, "event", "session.end")
		is("event", "session.end")
		stop := f.ends.avenor
		if stop == "" {
			stop = "end_turn"
		}
		is("stop_reason", stop)
		if stop == "error" {
			says(lastOf(lines, "event", "avenor.error")["message"])
		}
	case "enso":
		r.once(lines, "type", "session_end")
		is("type", "session_end")
		if failed {
			says(last["error"])
		} else {
			is("error", nil)
		}
	case "aionrs":
		if t := last["type"]; t != "stream_end" && t != "error" && len(lines) > 1 { // of a run that had no message there is only ready
			r.Errorf("the last line is %v", last)
		}
		code := ""
		if e, ok := lastOf(lines, "type", "error")["error"].(map[string]any); ok {
			code, _ = e["code"].(string)
			says(e["message"])
		}
		if code != f.ends.aionrs {
			r.Errorf("the error has code %q, want %q", code, f.ends.aionrs)
		}
	default:
		r.Fatalf("nobody knows how %s ends", r.dialect.Name)
	}
}

// kindOf is the kind of the end that has an outcome.
func kindOf(o event.Outcome) event.Kind {
	switch o {
	case event.Done:
		return "run.done"
	case event.Cancelled:
		return "run.cancelled"
	}
	return "run.failed"
}

// checkJournal: the journal is whole, tells the outcome, and holds what was shown. It returns its events.
func (r *run) checkJournal(f fault) []map[string]any {
	data, err := os.ReadFile(r.journal())
	if err != nil {
		r.Fatal(err)
	}
	native, err := dialect.Lookup("native")
	if err != nil {
		r.Fatal(err)
	}
	if bytes.Contains(data, []byte(key)) {
		r.Error("the key is in the journal")
	}
	r.lint(native, data)
	if r.dialect == native && !bytes.HasPrefix(data, r.out) || r.dialect == native && !f.unread && len(data) != len(r.out) {
		r.Errorf("the journal is not what was shown:\n%s", clipped(data))
	}
	events := r.parse(data)
	if f.reply {
		r.checkReply(f, events)
		f.outcome, f.reason = event.Done, ""
	}
	var sum fold.Digest
	if err := fold.Run(journal.Scan(bytes.NewReader(data), fold.Wanted(&sum)), &sum); err != nil {
		r.Error(err)
	}
	s := sum.Summary()
	if s.Outcome != f.outcome || s.Runs != 1 || s.Unended != 0 {
		r.Errorf("the digest says %q of %d runs, want %q", s.Outcome, s.Runs, f.outcome)
	}
	if !strings.Contains(s.End.Reason, f.reason) || (f.outcome == event.Done) != (s.End.Reason == "") {
		r.Errorf("the reason is %q, want something with %q", s.End.Reason, f.reason)
	}
	if r.once(events, "kind", "run.done", "run.failed", "run.cancelled"); events[len(events)-1]["kind"] != string(kindOf(f.outcome)) {
		r.Errorf("the journal ends with %v", events[len(events)-1])
	}
	return events
}

// checkReply: the journal tells how the one reply of a conversation ended.
func (r *run) checkReply(f fault, events []map[string]any) {
	r.once(events, "kind", "reply.done", "reply.failed", "reply.cancelled")
	why, _ := lastOf(events, "kind", "error")["body"].(map[string]any)
	if text, _ := why["message"].(string); count(events, "reply.failed") != 1 || !strings.Contains(text, f.reason) {
		r.Errorf("the reply did not fail with %q: %v", f.reason, why)
	}
}

func (r *run) lint(d *dialect.Dialect, stream []byte) {
	l := dialect.NewLinter(d, func(g dialect.Diagnostic) {
		r.Errorf("%s line %d: %s: %s", d.Name, g.Line, g.Rule, g.Message)
	})
	l.NoNotes = true
	for line := range bytes.Lines(stream) {
		whole, ok := bytes.CutSuffix(line, []byte("\n"))
		l.Line(whole, !ok)
	}
	l.Close()
}

func (r *run) parse(stream []byte) (lines []map[string]any) {
	for line := range bytes.Lines(stream) {
		var l map[string]any
		if err := json.Unmarshal(line, &l); err != nil {
			r.Errorf("%v: %s", err, line)
			continue
		}
		lines = append(lines, l)
	}
	return lines
}

// once sees to it that one line has one of these types.
func (r *run) once(lines []map[string]any, field string, types ...string) {
	r.Helper()
	n := 0
	for _, l := range lines {
		if s, _ := l[field].(string); slices.Contains(types, s) {
			n++
		}
	}
	if n != 1 {
		r.Errorf("%d lines are %s, want one", n, strings.Join(types, " or "))
	}
}

// field returns the one line of a type, which must have a value in a field: any if it is a star. If it is empty, there is no
// such line.
func (r *run) field(lines []map[string]any, key, typ, field, want string) map[string]any {
	r.Helper()
	var found []map[string]any
	for _, l := range lines {
		if l[key] == typ {
			found = append(found, l)
		}
	}
	switch {
	case want == "" && len(found) > 0:
		r.Errorf("there is a %s: %v", typ, found[0])
	case want == "":
	case len(found) != 1:
		r.Errorf("%d lines are %s, want one: %v", len(found), typ, found)
	case want != "*" && found[0][field] != want:
		r.Errorf("%s has %s %q, want %q", typ, field, found[0][field], want)
	}
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// lastOf returns the last line of a type: errors that end nothing may come before the one that does.
func lastOf(lines []map[string]any, field, typ string) (last map[string]any) {
	for _, l := range lines {
		if l[field] == typ {
			last = l
		}
	}
	return last
}

// count counts events of a kind.
func count(events []map[string]any, kind string) (n int) {
	for _, e := range events {
		if e["kind"] == kind {
			n++
		}
	}
	return n
}
