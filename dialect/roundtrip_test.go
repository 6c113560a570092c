package dialect

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-dev/sluice/event"
)

// What a dialect is told and what can be read from it again differ by what the loss report says, and by nothing else. Over
// the clean streams of all dialects this shows all conversions; over our own journals it shows that the tables are complete.
func TestWhatDoesNotComeBackIsInTheLossReport(t *testing.T) {
	for _, from := range sources {
		for _, s := range samples(t, from, "clean") {
			events := decodeAll(t, s.data, from, StreamOptions{NoOrigin: true})
			for _, to := range dialects {
				if to == &native {
					continue // says everything; see the identity
				}
				t.Run(from.Name+"/"+s.name+"/"+to.Name, func(t *testing.T) { wantBackLessLoss(t, events, to) })
			}
		}
	}
}

// A told is an event that is expected to come back, and the fields of it that are not.
type told struct {
	event.Event
	lost []string
}

func wantBackLessLoss(t *testing.T, events []event.Event, d *Dialect) {
	var want []told
	gone := map[event.Kind]bool{} // kinds that the dialect may not have
	agents, calls := true, true   // lines say which agent they are of, and the call's own id
	for _, l := range d.Losses() {
		gone[l.Kind] = gone[l.Kind] || l.Field == ""
		agents = agents && !(l.Kind == "*" && l.Field == "agent")
		calls = calls && !(l.Kind == "*" && l.Field == "call")
	}
	place := func(e event.Event) string {
		if !agents {
			e.Agent = ""
		}
		if !calls {
			e.Call = ""
		}
		return e.Agent + " " + e.Call
	}
	// key says which events are compared with each other, in their order: calls run side by side.
	key := func(e event.Event) string { return string(e.Kind) + " " + place(e) }
	other := map[string]bool{} // what was told as something else
	lost := map[uint64][]Loss{}
	out := encodeAll(events, d, Options{NoOrigin: true, Loss: func(l Loss) { lost[l.seq] = append(lost[l.seq], l) }})
	for _, e := range events {
		x := told{Event: e}
		whole := false
		for _, l := range lost[e.Seq] {
			if l.Field == "" {
				whole = true
				other[place(e)] = other[place(e)] || l.Fate == Approximated
			}
			x.lost = append(x.lost, l.Field)
		}
		for _, l := range d.Losses() { // told once for the whole stream
			if l.Kind == "*" && l.Field != "" {
				x.lost = append(x.lost, l.Field)
			}
			if event.Inferred(e.Body) && l.Field == "" && (l.Kind == e.Kind || l.Kind == "*") && (l.when == nil || l.when(e)) {
				whole = true // and no loss: nobody told it
				other[place(e)] = other[place(e)] || l.Fate == Approximated
			}
		}
		if !whole && e.Kind != "foreign" {
			want = append(want, x)
		}
	}
	got := map[string][]event.Event{}
	for _, e := range decodeAll(t, out, d, StreamOptions{NoOrigin: true}) {
		if !event.Inferred(e.Body) {
			got[key(e)] = append(got[key(e)], e)
		}
	}
	left := map[string]int{} // expected and not inferred
	for _, x := range want {
		if !event.Inferred(x.Body) {
			left[key(x.Event)]++
		}
	}
	for _, x := range want {
		k := key(x.Event)
		if event.Inferred(x.Body) && len(got[k]) <= left[k] {
			continue // nobody told it, and it was not told on
		}
		if !event.Inferred(x.Body) {
			left[k]--
		}
		if len(got[k]) == 0 {
			t.Errorf("%s does not come back and is not in the loss report: %+v", k, x.Body)
			continue
		}
		equal := cmp.Options{cmpopts.EquateApproxTime(0), cmpopts.EquateApprox(0, 1e-9), cmpopts.EquateEmpty()}
		a := without(x.Event, x.lost)
		i := max(0, slices.IndexFunc(got[k], func(e event.Event) bool { return cmp.Equal(a, without(e, x.lost), equal) })) // among what had to be made
		b := without(got[k][i], x.lost)
		got[k] = slices.Delete(got[k], i, i+1)
		if diff := cmp.Diff(a, b, equal); diff != "" {
			t.Errorf("%s comes back changed (-told, +read), lost are %v:\n%s", k, x.lost, diff)
		}
	}
	for k, rest := range got {
		for _, e := range rest {
			if !gone[e.Kind] && !other[place(e)] && e.Kind != "diag" {
				t.Errorf("%s was never told: %+v", k, e.Body)
			}
		}
	}
}

// without returns the event less fields and numbers.
func without(e event.Event, fields []string) event.Event {
	e.Seq, e.Of = 0, 0
	for _, f := range fields {
		switch f {
		case "at":
			e.At = time.Time{}
		case "session":
			e.Session = ""
		case "agent":
			e.Agent = ""
		case "call":
			e.Call = ""
		}
	}
	v := reflect.New(reflect.TypeOf(e.Body)).Elem()
	v.Set(reflect.ValueOf(e.Body))
	for _, f := range slices.Concat(fields, []string{"inferred"}) {
		if f != "" && !isHeader(f) {
			zero(v, fieldPath(v.Type(), f))
		}
	}
	e.Body = v.Interface().(event.Body)
	return e
}

// zero clears a field; a pointer on the way is copied first, the original keeps what it points to.
func zero(v reflect.Value, path [][]int) {
	for i, index := range path {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return
			}
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			v.Set(c)
			v = c.Elem()
		}
		v = v.FieldByIndex(index)
		if i == len(path)-1 {
			v.SetZero()
		}
	}
}
