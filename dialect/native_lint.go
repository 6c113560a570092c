package dialect

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// nativeShapes are made of the types of package event.
func nativeShapes() *shapes {
	s := &shapes{
		key: "kind",
		base: []field{
			count("seq"), may("at", isString), may("session", isString), may("agent", isString), may("call", isString), count("of").optional(),
		},
	}
	for _, b := range event.Kinds() {
		s.lines = append(s.lines, shape{name: string(b.Kind()), fields: []field{must("body", isMap).of(nativeFields(reflect.TypeOf(b))...)}})
	}
	return s
}

// nativeFields returns the members of an object that a struct is written as.
func nativeFields(t reflect.Type) []field {
	fields := []field{} // not nil: an object of which nothing is known
	for sf := range t.Fields() {
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		f := nativeField(sf.Type)
		f.name, f.need = name, options == ""
		f.signed = f.signed || sf.Name == "Exit" // some systems have negative ones
		if f.need && f.types == isArray {
			f.types |= isNull // one that was never made
		}
		fields = append(fields, f)
	}
	return fields
}

func nativeField(t reflect.Type) field {
	switch t {
	case reflect.TypeFor[time.Time]():
		return field{types: isString}
	case reflect.TypeFor[event.Raw]():
		return field{types: isAny, signed: true}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nativeField(t.Elem())
	case reflect.Struct:
		return field{types: isMap, fields: nativeFields(t)}
	case reflect.Slice:
		return field{types: isArray}.list(nativeField(t.Elem()))
	case reflect.String:
		return field{types: isString}
	case reflect.Bool:
		return field{types: isBool}
	case reflect.Float64:
		return field{types: isNumber}
	}
	return field{types: isNumber, whole: true}
}

var nativeRules = []Rule{
	{"native/run-started", false, "a run begins with one run.started; only foreign lines and diags stand before it"},
	{"native/format", false, "the format is one that this version knows"},
	{"native/run-end", false, "a run has one end, which is its last event; another run may follow"},
	{"native/outcome", false, "the outcome is the one that the kind says"},
	{"native/seq", false, "events are numbered without gaps"},
	{"native/part", true, "a journal is numbered from 1; one that is not is part of one"},
	{"native/of", false, "of is the number of an earlier foreign line"},
	{"native/inferred", false, "what was inferred was read from no line"},
	{"native/header-order", true, "the header's keys stand in their order and the body last, which is quicker to read"},
	{"native/time", false, "at is an RFC 3339 time"},
	{"native/time-order", true, "time does not go backwards; a guest's clock may differ from ours"},
	{"native/block", false, "a block is what its deltas add up to"},
	{"native/block-open", false, "deltas are followed by their block"},
	{"native/turn", false, "turns are inside replies, blocks inside turns, and calls are made in a turn or after it"},
	{"native/turn-end", false, "every turn is ended, before the next one begins"},
	{"native/call", false, "whatever is said about a call comes after tool.called and before its end"},
	{"native/call-end", false, "every call is ended, before its id is used again and before its reply or agent ends"},
	{"native/question", false, "an answer that names a question names one that is open"},
	{"native/answer", false, "every question is answered, before its call, its agent or its reply ends"},
	{"native/reply", false, "a reply goes from a prompt to a reply.*, and the next one begins after it"},
	{"native/reply-end", false, "every reply is ended, before its phase and before the run"},
	{"native/agent", false, "a sub-agent is announced once, in a reply, after its parent and before its events"},
	{"native/agent-end", false, "every sub-agent is ended, before its parent and its reply"},
	{"native/phase", false, "phases follow one another and are started and ended once"},
	{"native/loop", false, "a loop is started and ended once, around its phases"},
}

// nativeChecker reads headers here and keeps the spans in native_spans.go.
type nativeChecker struct {
	nativeSpans
	first, seq int64 // numbers of the first event and of the last
	at         time.Time
	foreign    [256]int64 // numbers of the last foreign lines
	lines      int        // how many there were
}

func (k *nativeChecker) line(c *check, typ string, n wire.Node) {
	k.header(c, typ, n)
	k.next(c, typ, n)
}

func (k *nativeChecker) unknown(c *check, n wire.Node) { k.header(c, "", n) }

func (k *nativeChecker) close(c *check) { k.finish(c) }

// nativeOrder is the order of the keys.
var nativeOrder = []string{"seq", "at", "session", "agent", "call", "of", "kind", "body"}

func (k *nativeChecker) header(c *check, typ string, n wire.Node) {
	var h [8]wire.Node // the header's values, by nativeOrder
	last, told := 0, false
	for key, v := range n.Members() {
		i := nativePlace(key, last)
		if i < 0 {
			i = min(last, 6) // one from tomorrow stands before kind
		} else {
			h[i] = v
		}
		if i < last && !told {
			c.report("native/header-order", v, "%s stands after %s", clip(key.Text()), nativeOrder[last])
			told = true
		}
		last = max(last, i)
	}
	seq, numbered := h[0].Int()
	if numbered {
		switch {
		case k.first == 0 && seq != 1:
			c.report("native/part", h[0], "the first event is number %d", seq)
		case k.first != 0 && seq != k.seq+1:
			c.report("native/seq", h[0], "number %d after number %d", seq, k.seq)
		}
		if k.first == 0 {
			k.first = seq
		}
		k.seq = seq
	}
	if h[5].Kind() != wire.Absent {
		k.origin(c, n, seq)
	}
	if typ == "foreign" && numbered {
		k.foreign[k.lines%len(k.foreign)] = seq
		k.lines++
	}
	k.time(c, h[1], h[5].Kind() != wire.Absent)
}

// nativePlace returns where a header key should stand, looking first at what may follow the one before; -1 if it is none.
func nativePlace(key wire.Node, last int) int {
	for i := range nativeOrder {
		if j := (last + i) % len(nativeOrder); key.Is(nativeOrder[j]) {
			return j
		}
	}
	return -1
}

// origin checks where an event was read from.
func (k *nativeChecker) origin(c *check, n wire.Node, seq int64) {
	of, ok := n.Get("of").Int()
	if !ok {
		return
	}
	if inferred, _ := n.Get("body").Get("inferred").Bool(); inferred {
		c.report("native/inferred", n.Get("of"), "it is inferred, and read from line %d", of)
	}
	known := slices.Contains(k.foreign[:], of)
	oldest := k.first
	if k.lines >= len(k.foreign) {
		oldest = k.foreign[k.lines%len(k.foreign)]
	}
	if !known && (of >= oldest || of >= seq) {
		c.report("native/of", n.Get("of"), "number %d is not a foreign line", of)
	}
}

func (k *nativeChecker) time(c *check, n wire.Node, guests bool) {
	if n.Kind() != wire.String {
		return
	}
	at, err := time.Parse(time.RFC3339, n.Text())
	if err != nil {
		c.report("native/time", n, "at is %q", clip(n.Text()))
		return
	}
	if guests {
		return
	}
	if at.Before(k.at) {
		c.report("native/time-order", n, "%v before an event above", k.at.Sub(at))
	}
	k.at = at
}
