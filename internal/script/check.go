package script

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// A problem is what is wrong at one place of a script. The place is written as a path: steps[2].fault.cut.
type problem struct {
	at   string
	line int // 0: not known
	why  string
}

func (p problem) Error() string {
	switch {
	case p.line > 0 && p.at != "":
		return fmt.Sprintf("line %d: %s: %s", p.line, p.at, p.why)
	case p.line > 0:
		return fmt.Sprintf("line %d: %s", p.line, p.why)
	case p.at != "":
		return p.at + ": " + p.why
	}
	return p.why
}

var (
	finishes = []string{"stop", "tool_calls", "length", "refusal", "stop_sequence"}
	places   = []string{PlaceStart, PlaceText, PlaceThinking, PlaceCall, PlaceEnd}
)

// Where an answer breaks off.
const (
	PlaceStart    = "start"    // before anything of it is sent
	PlaceText     = "text"     // in the middle of the first text
	PlaceThinking = "thinking" // … of the first thought
	PlaceCall     = "call"     // … of the first call's arguments
	PlaceEnd      = "end"      // before the last event
)

// most is the most steps that a repeat may stand for.
const most = 1_000_000_000

// Check says what is wrong with a script. What [Parse] returns has been checked.
func (s *Script) Check() error {
	var c checker
	c.number("chunk", int64(s.Chunk))
	c.number("delay", int64(s.Delay))
	c.usage("usage", &s.Usage)
	if s.Advance != "" && s.Advance != "history" && s.Advance != "request" {
		c.report("advance", "is %q: write history or request", s.Advance)
	}
	if len(s.Steps) == 0 && len(s.Conversations) == 0 {
		c.report("", "there are no steps: write at least `steps: [{text: Hello.}]`")
	}
	c.steps("steps", s.Steps)
	for i, v := range s.Conversations {
		at := fmt.Sprintf("conversations[%d]", i)
		if v.When == (When{}) {
			c.report(at, "says not which requests it takes: give it a `when`")
		}
		c.expression(at+".when.system", v.When.System)
		c.expression(at+".when.prompt", v.When.Prompt)
		c.expression(at+".when.last", v.When.Last)
		c.expression(at+".when.model", v.When.Model)
		if len(v.Steps) == 0 {
			c.report(at, "has no steps")
		}
		c.steps(at+".steps", v.Steps)
	}
	if c.first == nil {
		return nil
	}
	return *c.first
}

// A checker keeps the first problem that it finds.
type checker struct{ first *problem }

func (c *checker) report(at, format string, args ...any) {
	if c.first == nil {
		c.first = &problem{at: at, why: fmt.Sprintf(format, args...)}
	}
}

func (c *checker) number(at string, n int64) {
	if n < 0 {
		c.report(at, "is negative")
	}
}

func (c *checker) usage(at string, u *Usage) {
	if u == nil {
		return
	}
	c.number(at+".input", u.Input)
	c.number(at+".output", u.Output)
	c.number(at+".reasoning", u.Reasoning)
	c.number(at+".cache_read", u.CacheRead)
	c.number(at+".cache_write", u.CacheWrite)
}

func (c *checker) expression(at, expr string) {
	if _, err := regexp.Compile(expr); err != nil {
		why := err.Error()
		if syntax, ok := strings.CutPrefix(why, "error parsing regexp: "); ok {
			why = syntax
		}
		c.report(at, "is not a regular expression: %s", why)
	}
}

func (c *checker) steps(at string, steps []Step) {
	for i, s := range steps {
		c.step(fmt.Sprintf("%s[%d]", at, i), s)
	}
}

func (c *checker) step(at string, s Step) {
	if len(s.Content) > 0 && (s.Thinking != "" || s.Text != "" || s.Call != nil || len(s.Calls) > 0) {
		c.report(at+".content", "says all that the step says: put thinking, text and calls into it")
	}
	if s.Call != nil && len(s.Calls) > 0 {
		c.report(at+".call", "is short for a list of one: put it into calls")
	}
	if s.Finish != "" && !slices.Contains(finishes, s.Finish) {
		c.report(at+".finish", "is %q: write one of %s", s.Finish, strings.Join(finishes, ", "))
	}
	if s.NoUsage && s.Usage != nil {
		c.report(at+".no_usage", "and usage contradict each other: leave one out")
	}
	c.usage(at+".usage", s.Usage)
	c.number(at+".chunk", int64(s.Chunk))
	c.number(at+".delay", int64(s.Delay))
	c.number(at+".repeat", int64(s.Repeat))
	if s.Repeat > most {
		c.report(at+".repeat", "is more than %d: set loop", most)
	}
	for i, b := range s.Content {
		c.block(fmt.Sprintf("%s.content[%d]", at, i), b)
	}
	if s.Call != nil {
		c.call(at+".call", *s.Call)
	}
	for i, call := range s.Calls {
		c.call(fmt.Sprintf("%s.calls[%d]", at, i), call)
	}
	c.ids(at, s)
	if s.Fault != nil {
		c.fault(at+".fault", s, *s.Fault)
	}
}

func (c *checker) block(at string, b Block) {
	n := 0
	for _, set := range []bool{b.Thinking != "", b.Text != "", b.Call != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		c.report(at, "is one of thinking, text and call")
	}
	if b.Call != nil {
		c.call(at+".call", *b.Call)
	}
}

func (c *checker) call(at string, call Call) {
	if call.Tool == "" {
		c.report(at, "names no tool")
	}
	if call.Raw != "" && call.Input != nil {
		c.report(at+".raw", "stands instead of input: leave one out")
	}
	if _, err := call.arguments(); err != nil {
		c.report(at+".input", "cannot be said in JSON: %v", err)
	}
}

// ids sees to it that no two calls of a step, or of its repetitions, go by one name.
func (c *checker) ids(at string, s Step) {
	seen := map[string]bool{}
	for b := range s.blocks() {
		if b.Call == nil || b.Call.ID == "" {
			continue
		}
		if seen[b.Call.ID] {
			c.report(at, "has two calls with the id %q", b.Call.ID)
		}
		if s.Repeat > 1 {
			c.report(at+".repeat", "repeats the id %q of a call: leave the id out", b.Call.ID)
		}
		seen[b.Call.ID] = true
	}
}

func (c *checker) fault(at string, s Step, f Fault) {
	kinds := 0
	for _, set := range []bool{f.Status != 0, f.Cut != "", f.Hang != "", f.Malformed, f.WrongJSON, f.InStream != "", f.Trickle != 0} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		c.report(at, "is one of status, cut, hang, malformed, wrong_json, in_stream and trickle")
	}
	if f.Status != 0 && (f.Status < 400 || f.Status > 599) {
		c.report(at+".status", "is %d: an error's is from 400 to 599", f.Status)
	}
	if f.Status == 0 && (f.Type != "" || len(f.Headers) > 0) {
		c.report(at, "has type or headers, which are for a status")
	}
	if f.Status == 0 && f.InStream == "" && f.Message != "" {
		c.report(at+".message", "is for a status or for in_stream")
	}
	for name, value := range f.Headers {
		if name == "" || strings.ContainsAny(name, " \t\r\n:") || strings.ContainsAny(value, "\r\n") {
			c.report(at+".headers", "%q is no header", name)
		}
		if http.CanonicalHeaderKey(name) == "Content-Length" {
			c.report(at+".headers", "the length is the server's to say")
		}
	}
	c.place(at+".cut", s, f.Cut)
	c.place(at+".hang", s, f.Hang)
	c.number(at+".trickle", int64(f.Trickle))
	c.number(at+".times", int64(f.Times))
}

// place sees to it that the step has what it is to break off in.
func (c *checker) place(at string, s Step, place string) {
	if place == "" {
		return
	}
	if !slices.Contains(places, place) {
		c.report(at, "is %q: write one of %s", place, strings.Join(places, ", "))
		return
	}
	if place == PlaceStart || place == PlaceEnd {
		return
	}
	for b := range s.blocks() {
		if place == PlaceText && b.Text != "" || place == PlaceThinking && b.Thinking != "" || place == PlaceCall && b.Call != nil {
			return
		}
	}
	c.report(at, "is %s, and the step has none", place)
}

// arguments returns a call's arguments as they go over the wire.
func (c *Call) arguments() (string, error) {
	if c.Raw != "" {
		return c.Raw, nil
	}
	if c.Input == nil {
		return "{}", nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c.Input); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
