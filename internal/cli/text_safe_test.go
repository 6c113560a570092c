package cli

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/event"
)

// hostile is a text that would drive a terminal, turn its writing around, forge a line, or take its title.
const hostile = "a\x1b]0;owned\x07b\x1b[2J\u009b31m\rc\u202ed\u2066\u2028e\x00\x7f\xff\b'\nf\tg ■■■"

// Whatever an agent writes, wherever it writes it, no terminal obeys.
func TestTextHostile(t *testing.T) {
	var events []event.Event
	for _, e := range event.Samples() {
		poisoned := reflect.New(reflect.TypeOf(e.Body))
		poisoned.Elem().Set(reflect.ValueOf(e.Body))
		poison(poisoned.Elem())
		for _, body := range []event.Body{poisoned.Elem().Interface().(event.Body), e.Body} {
			e.Body = body
			events = append(events, e)
			e.Session, e.Agent, e.Call = hostile, "task-1/"+hostile, hostile
			events = append(events, e)
		}
	}
	rule := &event.Rule{Permission: hostile, Pattern: hostile}
	events = append(events,
		event.Event{Body: event.GateDenied{Tool: hostile, By: event.ByRule, Rule: rule}},
		event.Event{Body: event.GateAllowed{Request: "q", Tool: hostile, By: event.ByRule, Rule: rule}},
		event.Event{Body: event.GateDenied{Permission: hostile, Patterns: []string{hostile}, By: event.ByNobody}})
	ours := regexp.MustCompile(`\x1b\[[0-9]+m|\r\x1b\[K`)
	for _, o := range []textOptions{{}, {Colour: true, Live: true}, {Colour: true, Live: true, ASCII: true, Width: 20}} {
		got := told(t, o, events...)
		if !strings.Contains(got, "owned") {
			t.Error("nothing hostile was told")
		}
		if !utf8.ValidString(got) {
			t.Error("not UTF-8")
		}
		for _, r := range ours.ReplaceAllString(got, "") {
			switch {
			case r == '\n', r == '\t':
			case r < ' ', r >= 0x7f && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x2028:
				t.Fatalf("%+v: %U reaches the terminal", o, r)
			case o.ASCII && r >= utf8.RuneSelf:
				t.Fatalf("%+v: %U is not ASCII", o, r)
			}
		}
	}
}

// An escape sequence is no better when it comes in pieces.
func TestTextHostilePieces(t *testing.T) {
	var events []event.Event
	for _, piece := range []string{"\x1b", "[", "2", "J", "\r", "x"} {
		events = append(events, event.Event{Body: event.TextDelta{ID: "b", Text: piece}})
	}
	if got, want := told(t, textOptions{Live: true}, events...), "\ufffd[2Jx"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// poison puts the hostile text into every string of a body, and into all the JSON that it carries.
func poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			poison(v.Elem())
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[event.Raw]() {
			raw, _ := json.Marshal(hostile)
			v.SetBytes(raw)
			return
		}
		for i := range v.Len() {
			poison(v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			poison(v.Field(i))
		}
	}
}

// No line of a call or of the status is wider than the terminal.
func TestTextWidth(t *testing.T) {
	call := event.Header{Seq: 1, Call: "c", At: time.Unix(0, 0)}
	late := call
	late.At = late.At.Add(time.Hour)
	for _, title := range []string{strings.Repeat("x", 500), strings.Repeat("漢", 500), strings.Repeat("é", 500)} {
		for _, o := range []textOptions{{Live: true, Width: 60}, {Live: true, Width: 60, ASCII: true}, {Live: true, Width: 200}} {
			got := told(t, o,
				event.Event{Header: call, Body: event.ToolCalled{Name: "bash", Title: title}},
				event.Event{Header: call, Body: event.ToolStarted{Name: "bash"}},
				event.Event{Header: late, Body: event.ToolOutput{Text: "x"}},
				event.Event{Header: late, Body: event.ToolDone{Name: "bash", Title: title, Output: "a\nb\n"}})
			for _, line := range strings.FieldsFunc(strings.ReplaceAll(got, eraseLine, "\n"), func(r rune) bool { return r == '\n' }) {
				if width(line) > o.Width {
					t.Errorf("%d columns of %d: %q", width(line), o.Width, line)
				}
			}
			if !strings.Contains(got, "1h00m") || !strings.Contains(got, "2 lines") {
				t.Errorf("what matters was cut: %q", got)
			}
		}
	}
}

func TestTextASCII(t *testing.T) {
	got := told(t, textOptions{ASCII: true},
		event.Event{Body: event.ToolDone{Name: "read", Title: "größe.go", Output: "x"}},
		event.Event{Body: event.Text{Text: "It’s fine…"}})
	if want := "  ok read gr??e.go - 1 line\n\nIt's fine...\n"; got != want {
		t.Errorf("%q", got)
	}
	for locale, want := range map[string]bool{"": false, "C": true, "POSIX": true, "de_DE.UTF-8": false, "C.utf8": false, "de_DE.ISO-8859-1": true} {
		if got := asciiLocale(func(name string) string {
			if name == "LANG" {
				return locale
			}
			return ""
		}); got != want {
			t.Errorf("%q: %v", locale, got)
		}
	}
}
