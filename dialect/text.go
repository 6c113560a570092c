package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file has what decoders and encoders of different dialects have in common about texts and arguments.

// unread says that nothing could be read from a line.
func unread(emit func(event.Event), dialect, format string, args ...any) {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	emit(event.Event{Body: event.Diag{Text: format, Source: dialect}})
}

// text returns a JSON string's text, and any other value as it stands; nothing for null.
func text(raw event.Raw) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if s, ok := wire.Unquote(raw); ok {
		return s
	}
	return string(raw)
}

// rawKey is where arguments go that are not JSON, in dialects that demand an object.
const rawKey = "_raw"

// arguments makes an object of a call's input: {} for none, {"_raw": text} for what is not an object.
func arguments(input event.Raw) event.Raw {
	if len(input) == 0 {
		return event.Raw("{}")
	}
	if input[0] == '{' {
		return input
	}
	dst := append([]byte(`{"`), rawKey...)
	dst = append(dst, `":`...)
	if s, ok := wire.Unquote(input); ok {
		dst = wire.AppendString(dst, s)
	} else {
		dst = wire.AppendString(dst, string(input))
	}
	return append(dst, '}')
}

// input is the way back from arguments: a copy of what a line gives.
func input(args wire.Span) event.Raw {
	raw := tidy(args)
	if !bytes.Contains(raw, []byte(rawKey)) {
		return raw
	}
	var d wire.Doc
	if d.Parse(raw) != nil {
		return raw
	}
	if n := d.Root(); n.Len() == 1 && n.Get(rawKey).Kind() == wire.String {
		return event.Raw(n.Get(rawKey).Raw())
	}
	return raw
}

// docs are for values that are looked at and left.
var docs = sync.Pool{New: func() any { return new(wire.Doc) }}

// tidy copies a value of a line. What may be carried on is valid UTF-8 and has no key twice; null is nothing.
func tidy(span wire.Span) event.Raw {
	if len(span) == 0 {
		return nil
	}
	d := docs.Get().(*wire.Doc)
	defer docs.Put(d)
	if d.Parse(span) != nil || d.Root().Kind() == wire.Null {
		return nil
	}
	_, bad := d.InvalidUTF8()
	if _, _, twice := d.Doubled(); !bad && !twice {
		return span.Raw()
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(span))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil
	}
	return wire.Append(nil, v)
}

// members returns an object of those members of another that keep wants, as they stand.
func members(object wire.Span, keep func(key string, value wire.Span) bool) event.Raw {
	dst := []byte{'{'}
	for key, value := range object.Members() {
		if !keep(key.Text(), value) {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, key...), ':')
		dst = append(dst, value...)
	}
	return append(dst, '}')
}

// parsed makes JSON of arguments that a program sent as a string; a string that is not JSON stays one.
func parsed(args string) event.Raw {
	if wire.Valid([]byte(args)) {
		return event.Raw(args)
	}
	return event.Raw(wire.AppendString(nil, args))
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// finish reads a provider's or a program's word for why the model stopped; said is the word, where ours does not say it all.
func finish(word string) (f event.Finish, said string) {
	switch word {
	case "":
		return "", ""
	case "stop", "end_turn":
		return event.FinishStop, ""
	case "tool_calls", "tool-calls", "tool_use":
		return event.FinishToolCalls, ""
	case "length", "max_tokens":
		return event.FinishLength, ""
	case "content_filter", "content-filter", "refusal":
		return event.FinishRefusal, ""
	case "stop_sequence":
		return event.FinishSequence, ""
	case "error":
		return event.FinishError, ""
	}
	return event.FinishOther, word
}

// stopOf is the stop reason of a reply whose last turn finished so.
func stopOf(f event.Finish) string {
	switch f {
	case event.FinishLength:
		return "max_tokens"
	case event.FinishToolCalls:
		return "tool_use"
	case event.FinishRefusal, event.FinishSequence, event.FinishError:
		return string(f)
	}
	return "end_turn"
}

// moment returns the time of a number of milliseconds, or none; 0 is written where none is known.
func moment(ms wire.Num) time.Time {
	if !ms.OK || ms.Value == 0 || math.Abs(ms.Value) > 1e15 {
		return time.Time{}
	}
	return event.Millis(int64(ms.Value))
}

// tokens reads a number of things, if it can be one.
func tokens(n wire.Num) *int64 {
	if !n.OK {
		return nil
	}
	return number(n, new(int64))
}

// number is tokens into a place that is there.
func number(n wire.Num, to *int64) *int64 {
	if !n.OK || n.Value < 0 || n.Value > 1e15 {
		return nil
	}
	*to = int64(n.Value)
	return to
}

// whole reads a number of things; 0 if it cannot be one.
func whole(n wire.Num) int {
	var t int64
	number(n, &t)
	return int(t)
}

// money reads an amount into its place, if it can be one.
func money(n wire.Num, to *float64) *float64 {
	if !n.OK || n.Value < 0 {
		return nil
	}
	*to = n.Value
	return to
}

// numbered makes an id where a stream has none.
func numbered(what string, n int) string { return what + "-" + strconv.Itoa(n) }

// A place is where bodies of one kind are made. In a stream of which nothing is kept, all are made in the same.
type place[T event.Body] struct{ cell *wire.Cell[event.Body, T] }

func (p *place[T]) put(body T, b bulk) event.Body {
	if b != noBulk {
		return body
	}
	if p.cell == nil {
		p.cell = wire.NewCell[event.Body, T]()
	}
	p.cell.Value = body
	return p.cell.As()
}
