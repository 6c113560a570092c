package wire

import (
	"reflect"
	"strings"
	"time"
	"unicode"
	"unsafe"
)

// A field is a struct field as JSON sees it.
type field struct {
	name      string
	index     []int // the way to it through embedded structs
	typ       reflect.Type
	omitEmpty bool
	omitZero  bool
}

// offset is where the field lies in the struct type t.
func (f *field) offset(t reflect.Type) (offset uintptr) {
	for _, i := range f.index {
		sf := t.Field(i)
		offset += sf.Offset
		t = sf.Type
	}
	return offset
}

// fieldsOf returns the fields of struct type t in the order they are written, those of embedded structs in the place of
// the struct; a name nearer the top hides the same one further down. It is not ok if t uses what this package leaves to
// encoding/json: embedded pointers, unexported embedded structs with a name, and the option string.
func fieldsOf(t reflect.Type) (fields []field, ok bool) {
	if !collect(t, nil, &fields) {
		return nil, false
	}
	nearest := make(map[string]int)
	for i, f := range fields {
		if j, seen := nearest[f.name]; !seen || len(f.index) < len(fields[j].index) {
			nearest[f.name] = i
		}
	}
	var kept []field
	for i, f := range fields {
		if nearest[f.name] == i {
			kept = append(kept, f)
		}
	}
	return kept, true
}

func collect(t reflect.Type, path []int, fields *[]field) bool {
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag.Get("json")
		embedded := sf.Anonymous && sf.Type.Kind() == reflect.Struct
		if tag == "-" || !sf.IsExported() && !embedded && !(sf.Anonymous && sf.Type.Kind() == reflect.Pointer) {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !validName(name) {
			name = ""
		}
		index := append(path[:len(path):len(path)], i)
		switch {
		case name == "" && embedded:
			if !collect(sf.Type, index, fields) {
				return false
			}
			continue
		case name == "" && sf.Anonymous && sf.Type.Kind() == reflect.Pointer:
			return false
		case !sf.IsExported():
			return false
		case name == "":
			name = sf.Name
		}
		f := field{name: name, index: index, typ: sf.Type}
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "omitempty":
				f.omitEmpty = true
			case "omitzero":
				f.omitZero = true
			case "string":
				return false
			}
		}
		*fields = append(*fields, f)
	}
	return true
}

// validName says whether encoding/json takes s from a tag for a name.
func validName(s string) bool {
	for _, c := range s {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return s != ""
}

// omitter returns what tells whether a value of the field is left out; nil if none is.
func (f *field) omitter() func(unsafe.Pointer) bool {
	empty, zero := never, never
	if f.omitEmpty {
		empty = emptyTest(f.typ)
	}
	if f.omitZero {
		zero = zeroTest(f.typ)
	}
	switch {
	case !f.omitEmpty && !f.omitZero:
		return nil
	case !f.omitZero:
		return empty
	case !f.omitEmpty:
		return zero
	}
	return func(p unsafe.Pointer) bool { return empty(p) || zero(p) }
}

func never(unsafe.Pointer) bool { return false }

// emptyTest returns what tells whether omitempty omits a value of type t.
func emptyTest(t reflect.Type) func(unsafe.Pointer) bool {
	switch t.Kind() {
	case reflect.String:
		return func(p unsafe.Pointer) bool { return *(*string)(p) == "" }
	case reflect.Bool:
		return func(p unsafe.Pointer) bool { return !*(*bool)(p) }
	case reflect.Pointer:
		return func(p unsafe.Pointer) bool { return *(*unsafe.Pointer)(p) == nil }
	case reflect.Slice: // whatever of
		return func(p unsafe.Pointer) bool { return len(*(*[]struct{})(p)) == 0 }
	case reflect.Array, reflect.Map:
		return func(p unsafe.Pointer) bool { return valueAt(t, p).Len() == 0 }
	case reflect.Struct:
		return never
	}
	return func(p unsafe.Pointer) bool { return valueAt(t, p).IsZero() }
}

type zeroer interface{ IsZero() bool }

// zeroTest returns what tells whether omitzero omits a value of type t.
func zeroTest(t reflect.Type) func(unsafe.Pointer) bool {
	is := reflect.TypeFor[zeroer]()
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[time.Time]():
		return func(p unsafe.Pointer) bool { return (*time.Time)(p).IsZero() }
	case t.Implements(is) && (kind == reflect.Interface || kind == reflect.Pointer):
		return func(p unsafe.Pointer) bool {
			v := valueAt(t, p)
			return v.IsNil() || v.Elem().Kind() == reflect.Pointer && v.Elem().IsNil() || v.Interface().(zeroer).IsZero()
		}
	case reflect.PointerTo(t).Implements(is):
		return func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Interface().(zeroer).IsZero() }
	}
	return func(p unsafe.Pointer) bool { return valueAt(t, p).IsZero() }
}
