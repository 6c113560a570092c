package wire

import (
	"reflect"
	"strings"
	"unicode"
)

// A field is a struct field as JSON sees it.
type field struct {
	name      string
	index     []int // the way to it through embedded structs
	typ       reflect.Type
	omitEmpty bool
	omitZero  bool
}

// at returns the field of the struct v.
func (f *field) at(v reflect.Value) reflect.Value {
	for _, i := range f.index {
		v = v.Field(i)
	}
	return v
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

// empty says whether omitempty omits v.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

type zeroer interface{ IsZero() bool }

// zeroTest returns what tells whether omitzero omits a value of type t.
func zeroTest(t reflect.Type) func(reflect.Value) bool {
	is := reflect.TypeFor[zeroer]()
	switch kind := t.Kind(); {
	case t.Implements(is) && (kind == reflect.Interface || kind == reflect.Pointer):
		return func(v reflect.Value) bool {
			return v.IsNil() || v.Elem().Kind() == reflect.Pointer && v.Elem().IsNil() || v.Interface().(zeroer).IsZero()
		}
	case t.Implements(is):
		return func(v reflect.Value) bool { return v.Interface().(zeroer).IsZero() }
	case reflect.PointerTo(t).Implements(is):
		return func(v reflect.Value) bool {
			if !v.CanAddr() {
				box := reflect.New(t)
				box.Elem().Set(v)
				v = box.Elem()
			}
			return v.Addr().Interface().(zeroer).IsZero()
		}
	}
	return reflect.Value.IsZero
}
