package dialect

import (
	"reflect"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// A Fate is what became of something that a dialect has no word for.
type Fate string

// The fates.
const (
	Dropped      Fate = "dropped"      // it is not told
	Approximated Fate = "approximated" // it is told in other words, or as part of something else
	Synthesised  Fate = "synthesised"  // the dialect demands it, and it was not known
)

// A Loss is something that a dialect could not say, or had to make up.
type Loss struct {
	Line  int        `json:"line,omitempty"` // of the input; the reporter of a conversion fills it in
	Kind  event.Kind `json:"kind"`           // in a dialect's table also "*": every kind
	Field string     `json:"field"`          // of the header or the body ("usage.cache_read"); empty: the whole event
	Fate  Fate       `json:"fate"`
	Why   string     `json:"why"`

	seq uint64 // of the event

	// when limits an entry of a table to some events; nil: to those that have the field.
	when func(event.Event) bool
}

// Losses returns what the dialect has no word for, kind by kind: the table behind the reports.
func (d *Dialect) Losses() []Loss {
	if d.losses == nil {
		return nil
	}
	return d.losses()
}

// losses is a dialect's table, ready to be asked.
type losses struct {
	report func(Loss)
	byKind map[event.Kind][]lossEntry
	any    []lossEntry
	told   map[string]bool // entries for every kind are told once
	seq    uint64          // of the event that is being told
}

type lossEntry struct {
	Loss
	path [][]int // of the field in the body's struct
}

func newLosses(table []Loss, report func(Loss)) *losses {
	l := &losses{report: report, byKind: map[event.Kind][]lossEntry{}, told: map[string]bool{}}
	types := map[event.Kind]reflect.Type{}
	for _, b := range event.Kinds() {
		types[b.Kind()] = reflect.TypeOf(b)
	}
	for _, e := range table {
		entry := lossEntry{Loss: e}
		if e.Kind == "*" {
			l.any = append(l.any, entry)
			continue
		}
		if e.Field != "" && !isHeader(e.Field) {
			entry.path = fieldPath(types[e.Kind], e.Field)
		}
		l.byKind[e.Kind] = append(l.byKind[e.Kind], entry)
	}
	return l
}

// tell reports what the dialect loses of e.
func (l *losses) tell(e event.Event) {
	l.seq = e.Seq
	switch e.Body.(type) {
	case nil:
		return
	case event.Unknown:
		l.report(Loss{Kind: e.Kind, Fate: Dropped, Why: "a kind that nobody knows", seq: e.Seq})
		return
	}
	for _, entry := range l.any {
		if entry.Field == "" && entry.when(e) {
			l.tellWhole(e, entry)
			return
		}
	}
	for _, entry := range l.byKind[e.Kind] {
		if entry.Field == "" && (entry.when == nil || entry.when(e)) {
			l.tellWhole(e, entry)
			return
		}
	}
	for _, entry := range l.byKind[e.Kind] {
		if entry.Field != "" && entry.has(e) {
			l.tellOne(e.Kind, entry)
		}
	}
	for _, entry := range l.any {
		key := entry.Field + string(entry.Fate)
		if entry.Field != "" && !l.told[key] && entry.has(e) {
			l.told[key] = true
			l.tellOne(e.Kind, entry)
		}
	}
}

// tellWhole reports that an event is not told as it is. What nobody told is no loss.
func (l *losses) tellWhole(e event.Event, entry lossEntry) {
	if !event.Inferred(e.Body) {
		l.tellOne(e.Kind, entry)
	}
}

func (l *losses) tellOne(k event.Kind, entry lossEntry) {
	l.report(Loss{Kind: k, Field: entry.Field, Fate: entry.Fate, Why: entry.Why, seq: l.seq})
}

// lose reports a loss that only the encoder sees: what becomes of an event depends on what stands around it.
func (o Options) lose(e event.Event, field string, fate Fate, why string) {
	if o.Loss != nil && e.Body != nil && !o.told(e.Header) {
		o.Loss(Loss{Kind: e.Body.Kind(), Field: field, Fate: fate, Why: why, seq: e.Seq})
	}
}

// has says whether there is something to lose.
func (entry lossEntry) has(e event.Event) bool {
	if entry.when != nil {
		return entry.when(e)
	}
	switch entry.Field {
	case "seq":
		return e.Seq != 0
	case "at":
		return !e.At.IsZero()
	case "session":
		return e.Session != ""
	case "agent":
		return e.Agent != ""
	case "call":
		return e.Call != ""
	case "of":
		return e.Of != 0
	}
	v := reflect.ValueOf(e.Body)
	for _, index := range entry.path {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return false
			}
			v = v.Elem()
		}
		v = v.FieldByIndex(index)
	}
	return len(entry.path) > 0 && !v.IsZero()
}

func isHeader(field string) bool {
	switch field {
	case "seq", "at", "session", "agent", "call", "of":
		return true
	}
	return false
}

// fieldPath finds the struct fields that a dotted JSON name goes through. A name that leads nowhere is a mistake in a table,
// and a test finds it.
func fieldPath(t reflect.Type, dotted string) (path [][]int) {
	for part := range strings.SplitSeq(dotted, ".") {
		if t != nil && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t == nil || t.Kind() != reflect.Struct {
			return nil
		}
		found := false
		for f := range t.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == part {
				path, t, found = append(path, f.Index), f.Type, true
				break
			}
		}
		if !found {
			return nil
		}
	}
	return path
}

// dropped is a table of kinds that a dialect has no word for, with one reason.
func dropped(why string, kinds ...event.Kind) []Loss {
	list := make([]Loss, len(kinds))
	for i, k := range kinds {
		list[i] = Loss{Kind: k, Fate: Dropped, Why: why}
	}
	return list
}

// lost is a table of fields of one kind that have one fate.
func lost(k event.Kind, fate Fate, why string, fields ...string) []Loss {
	list := make([]Loss, len(fields))
	for i, f := range fields {
		list[i] = Loss{Kind: k, Field: f, Fate: fate, Why: why}
	}
	return list
}

// join puts tables together.
func join(tables ...[]Loss) (all []Loss) {
	for _, t := range tables {
		all = append(all, t...)
	}
	return all
}

// numbering is what every dialect but our own loses of every event: which number it had, and which line it was read from.
var numbering = []Loss{
	{Kind: "*", Field: "seq", Fate: Dropped, Why: "lines have no numbers"},
	{Kind: "*", Field: "of", Fate: Dropped, Why: "there are no foreign lines here"},
}

// inferences is what every dialect but our own loses: that something was inferred.
func inferences() []Loss {
	var list []Loss
	for _, b := range event.Kinds() {
		if fieldPath(reflect.TypeOf(b), "inferred") != nil {
			list = append(list, Loss{Kind: b.Kind(), Field: "inferred", Fate: Synthesised, Why: "nobody told it, and there is no word for that"})
		}
	}
	return list
}

// A noTime is the loss of a dialect that demands times, told of events that have none.
func noTime(field string) Loss {
	return Loss{Kind: "*", Field: "at", Fate: Synthesised, Why: field + " is demanded and no time is known: 0 is written",
		when: func(e event.Event) bool { return e.At.IsZero() }}
}

// always is the condition of an entry that is told of every event of its kind.
func always(event.Event) bool { return true }

// never is the condition of an entry that is told of no event: it says what the dialect makes up of its own.
func never(event.Event) bool { return false }
