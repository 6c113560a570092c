package secret

import (
	"encoding/base64"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// body returns a body without the secrets in it. One that has none is returned as it is.
func (f *finder) body(b event.Body) event.Body {
	switch b := b.(type) {
	case nil:
		return nil
	case event.Unknown:
		return event.Unknown{Name: event.Kind(f.whole(string(b.Name))), Raw: f.raw(b.Raw)}
	case event.Foreign:
		b.Dialect, b.Line, b.Base64 = f.whole(b.Dialect), f.line(b.Line), f.base64(b.Base64)
		return b
	case event.Thought:
		if text := f.whole(b.Text); text != b.Text {
			b.Text, b.Signature = text, "" // a seal on other words is none, and no provider takes it
			return f.fields(b)
		}
	case event.ToolDone:
		return f.fields(event.ToolDone(f.image(event.ToolEnd(b))))
	case event.ToolFailed:
		return f.fields(event.ToolFailed(f.image(event.ToolEnd(b))))
	}
	return f.fields(b)
}

// line redacts a line of another program, which stays JSON if it is.
func (f *finder) line(s string) string {
	if t := strings.TrimLeft(s, " \t"); t != "" && (t[0] == '{' || t[0] == '[') && wire.Valid([]byte(s)) {
		return string(f.raw(event.Raw(s)))
	}
	return f.whole(s)
}

// image redacts an output that is base64, which stays base64.
func (f *finder) image(e event.ToolEnd) event.ToolEnd {
	if e.Type == "image" {
		e.Output = f.base64(e.Output)
	}
	return e
}

// base64 redacts what a text holds in base64. What is none is text.
func (f *finder) base64(s string) string {
	if !f.has(s) {
		return s
	}
	if data, err := base64.StdEncoding.DecodeString(s); err == nil {
		s = base64.StdEncoding.EncodeToString([]byte(f.whole(string(data))))
	}
	return f.whole(s)
}

// fields redacts the strings of a body. How to walk over a type is found out once.
func (f *finder) fields(b event.Body) event.Body {
	v := reflect.ValueOf(b)
	walk := walkOf(v.Type())
	if walk == nil || !walk.has(f, v) {
		return b
	}
	own := reflect.New(v.Type()).Elem()
	own.Set(v)
	walk.redact(f, own)
	return own.Interface().(event.Body)
}

// A walk goes over the strings of a type. A type without any has none.
type walk struct {
	has    func(f *finder, v reflect.Value) bool
	redact func(f *finder, v reflect.Value) // in its place; what v points to is copied first, since it is somebody else's too
}

var walks sync.Map // reflect.Type to *walk

func walkOf(t reflect.Type) *walk {
	if w, ok := walks.Load(t); ok {
		return w.(*walk)
	}
	w, _ := walks.LoadOrStore(t, newWalk(t))
	return w.(*walk)
}

func newWalk(t reflect.Type) *walk {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return nil
	case t == reflect.TypeFor[event.Raw]():
		return &walk{
			func(f *finder, v reflect.Value) bool { return f.rawHas(v.Bytes()) },
			func(f *finder, v reflect.Value) { v.SetBytes(f.raw(v.Bytes())) },
		}
	case t == reflect.TypeFor[event.Attachment]():
		return attachments
	}
	switch t.Kind() {
	case reflect.String:
		return &walk{
			func(f *finder, v reflect.Value) bool { return f.has(v.String()) },
			func(f *finder, v reflect.Value) { v.SetString(f.whole(v.String())) },
		}
	case reflect.Struct:
		return structWalk(t)
	case reflect.Slice:
		return sliceWalk(t)
	case reflect.Pointer:
		return pointerWalk(t)
	}
	return nil
}

// attachments are walked over by hand: their data is base64, and should stay so.
var attachments = &walk{
	func(f *finder, v reflect.Value) bool {
		a := v.Interface().(event.Attachment)
		return f.has(a.Path) || f.has(a.Type) || f.has(a.Text) || f.has(a.Data)
	},
	func(f *finder, v reflect.Value) {
		a := v.Addr().Interface().(*event.Attachment)
		a.Path, a.Type, a.Text, a.Data = f.whole(a.Path), f.whole(a.Type), f.whole(a.Text), f.base64(a.Data)
	},
}

func structWalk(t reflect.Type) *walk {
	type part struct {
		index int
		*walk
	}
	var parts []part
	for i := range t.NumField() {
		if w := walkOf(t.Field(i).Type); w != nil {
			parts = append(parts, part{i, w})
		}
	}
	if parts == nil {
		return nil
	}
	return &walk{
		func(f *finder, v reflect.Value) bool {
			for _, p := range parts {
				if p.has(f, v.Field(p.index)) {
					return true
				}
			}
			return false
		},
		func(f *finder, v reflect.Value) {
			for _, p := range parts {
				p.redact(f, v.Field(p.index))
			}
		},
	}
}

func sliceWalk(t reflect.Type) *walk {
	each := walkOf(t.Elem())
	if each == nil {
		return nil
	}
	return &walk{
		func(f *finder, v reflect.Value) bool {
			for i := range v.Len() {
				if each.has(f, v.Index(i)) {
					return true
				}
			}
			return false
		},
		func(f *finder, v reflect.Value) {
			if v.IsNil() {
				return
			}
			own := reflect.MakeSlice(t, v.Len(), v.Len())
			reflect.Copy(own, v)
			for i := range own.Len() {
				each.redact(f, own.Index(i))
			}
			v.Set(own)
		},
	}
}

func pointerWalk(t reflect.Type) *walk {
	to := walkOf(t.Elem())
	if to == nil {
		return nil
	}
	return &walk{
		func(f *finder, v reflect.Value) bool { return !v.IsNil() && to.has(f, v.Elem()) },
		func(f *finder, v reflect.Value) {
			if v.IsNil() {
				return
			}
			own := reflect.New(t.Elem())
			own.Elem().Set(v.Elem())
			to.redact(f, own.Elem())
			v.Set(own)
		},
	}
}
