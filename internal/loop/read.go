package loop

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/internal/plain"
	"github.com/sluice-dev/sluice/internal/spell"
)

// A Problem is something wrong with a file, for whoever wrote it.
type Problem struct {
	File string
	Line int // 0: of no line in particular
	Text string
}

func (p Problem) Error() string {
	file := plain.Name(p.File)
	if p.Line > 0 {
		file = fmt.Sprintf("%s:%d", file, p.Line)
	}
	if file == "" {
		return p.Text
	}
	return file + ": " + p.Text
}

// Problems are all that is wrong with a file.
type Problems []Problem

// Error is the first of them, and how many there are.
func (p Problems) Error() string {
	switch len(p) {
	case 0:
		return "nothing is wrong"
	case 1:
		return p[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", p[0].Error(), len(p)-1)
}

// A reader makes a struct of a document. The struct's fields say their keys; all others are problems.
type reader struct {
	file     string
	doc      document
	problems Problems
}

func (r *reader) problem(place, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, r.doc.line(place), fmt.Sprintf(format, args...)})
}

// failed takes an error of the document itself.
func (r *reader) failed(err error) {
	if at, ok := errors.AsType[lineError](err); ok {
		r.problems = append(r.problems, Problem{r.file, at.line, at.why})
		return
	}
	r.problems = append(r.problems, Problem{File: r.file, Text: err.Error()})
}

// read puts a value into what there is for it.
func (r *reader) read(place string, v any, to reflect.Value) {
	if v == nil {
		return // nothing was said
	}
	ok := true
	switch t := to.Addr().Interface().(type) {
	case *string:
		*t, ok = v.(string)
	case *bool:
		*t, ok = v.(bool)
	case **bool:
		var b bool
		b, ok = v.(bool)
		*t = &b
	case *int:
		*t, ok = whole(v)
	case **int:
		var n int
		n, ok = whole(v)
		*t = &n
	case *time.Duration:
		*t, ok = duration(v)
	case *[]string:
		*t, ok = texts(v)
	default:
		switch to.Kind() {
		case reflect.Struct:
			var table map[string]any
			if table, ok = v.(map[string]any); ok {
				r.table(place, table, to)
			}
		case reflect.Slice:
			var list []any
			if list, ok = v.([]any); ok {
				to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
				for i, item := range list {
					r.read(fmt.Sprintf("%s[%d]", place, i), item, to.Index(i))
				}
			}
		case reflect.Map:
			var table map[string]any
			if table, ok = v.(map[string]any); ok {
				to.Set(reflect.MakeMap(to.Type()))
				for name, item := range table {
					at := reflect.New(to.Type().Elem()).Elem()
					r.read(join(place, name), item, at)
					to.SetMapIndex(reflect.ValueOf(name), at)
				}
			}
		}
	}
	if !ok {
		to.SetZero()
		r.problem(place, "%s is %s", cmp.Or(place, "the file"), wanted(to.Type()))
	}
}

// table reads a table, key by key.
func (r *reader) table(place string, table map[string]any, to reflect.Value) {
	fields, known := map[string]int{}, []string{}
	for i := range to.NumField() {
		for _, key := range strings.Split(to.Type().Field(i).Tag.Get("key"), ",") {
			if key != "" {
				fields[key] = i
				known = append(known, key)
			}
		}
	}
	said := map[int]string{}
	for _, key := range r.doc.sortedKeys(place, table) {
		at, ok := fields[key]
		if !ok {
			r.unknown(place, key, known)
			continue
		}
		if before := said[at]; before != "" {
			r.problem(join(place, key), "%s and %s are the same: say one of them", before, key)
		}
		said[at] = key
		r.read(join(place, key), table[key], to.Field(at))
	}
}

// unknown says what could have been meant by a key.
func (r *reader) unknown(place, key string, known []string) {
	name := key
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "…"
	}
	where := "here"
	if place != "" {
		where = "in " + place
	}
	if near := spell.Nearest(key, known); near != "" {
		r.problem(join(place, key), "there is no key %q %s: is %s meant?", name, where, near)
		return
	}
	r.problem(join(place, key), "there is no key %q %s: the keys are %s", name, where, strings.Join(known, ", "))
}

func whole(v any) (int, bool) {
	switch n := v.(type) {
	case int64:
		if n >= math.MinInt32 && n <= math.MaxInt32 {
			return int(n), true
		}
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < 1<<31 {
			return int(n), true
		}
	}
	return 0, false
}

func duration(v any) (time.Duration, bool) {
	s, ok := v.(string)
	d, err := time.ParseDuration(s)
	return d, ok && err == nil && d >= 0
}

func texts(v any) (list []string, ok bool) {
	items, ok := v.([]any)
	for _, item := range items {
		s, isText := item.(string)
		ok = ok && isText
		list = append(list, s)
	}
	return list, ok
}

// wanted says what a value should have been.
func wanted(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return `a duration, as in "10m" or "90s"`
	case t == reflect.TypeFor[[]string]():
		return "a list of texts"
	case t.Kind() == reflect.String:
		return "a text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "a whole number"
	case t.Kind() == reflect.Slice:
		return "a list of tables"
	}
	return "a table of keys and values"
}

func sortBy[T any, K cmp.Ordered](list []T, key func(T) K) {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}
