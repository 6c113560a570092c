package secret

import (
	"bytes"
	"slices"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// raw redacts JSON that is carried as it stands. It stays JSON, of the same shape; what has no secret in it stays as it is, to
// the byte.
func (f *finder) raw(data event.Raw) event.Raw {
	if !f.suspect(data) {
		return data
	}
	var d wire.Doc
	if d.Parse(data) != nil { // it will be written as a string
		return event.Raw(f.whole(string(data)))
	}
	var list edits
	f.texts(d.Root(), &list)
	if out := list.apply(data); !f.has(string(out)) {
		return out
	}
	// A secret that is JSON itself stands there as such: every text that it covers goes.
	list = nil
	f.covered(d.Root(), f.spans(string(data)), &list)
	if out := list.apply(data); !f.has(string(out)) {
		return out
	}
	if d.Root().Kind() == wire.Object {
		return event.Raw(`{}`)
	}
	return event.Raw(`"` + bareMark + `"`)
}

// rawHas says whether raw would change something.
func (f *finder) rawHas(data event.Raw) bool {
	return f.suspect(data) && !bytes.Equal(f.raw(data), data)
}

// suspect says whether JSON must be looked at more closely: there is a secret in its text, or there may be one below escapes.
func (f *finder) suspect(data event.Raw) bool {
	return len(data) > 0 && (bytes.IndexByte(data, '\\') >= 0 || f.has(string(data)))
}

// An edit puts something in the place of a part of a text.
type edit struct {
	from, to int
	with     []byte
}

type edits []edit

func (l *edits) put(n wire.Node, with string) {
	*l = append(*l, edit{n.Offset(), n.Offset() + len(n.Raw()), wire.AppendString(nil, with)})
}

// apply makes the edits, which are in order.
func (l edits) apply(data []byte) []byte {
	if len(l) == 0 {
		return data
	}
	var out []byte
	from := 0
	for _, e := range l {
		out = append(append(out, data[from:e.from]...), e.with...)
		from = e.to
	}
	return append(out, data[from:]...)
}

// texts redacts the strings of a value, its keys, and numbers.
func (f *finder) texts(n wire.Node, list *edits) {
	leaves(n, func(n wire.Node) {
		text := n.Text()
		if n.Kind() == wire.Number {
			text = string(n.Raw())
		}
		if clean := f.whole(text); clean != text {
			list.put(n, clean)
		}
	})
}

// covered puts a mark in the place of every leaf that a secret reaches into.
func (f *finder) covered(n wire.Node, spans []edit, list *edits) {
	leaves(n, func(n wire.Node) {
		from, to := n.Offset(), n.Offset()+len(n.Raw())
		i := slices.IndexFunc(spans, func(s edit) bool { return s.from < to && from < s.to })
		if i >= 0 {
			list.put(n, string(spans[i].with))
		}
	})
}

// spans are the places of the secrets in a text.
func (f *finder) spans(s string) (list []edit) {
	for i := 0; i < len(s); i++ {
		if !f.likely(s, i) {
			continue
		}
		if end, marks, _ := f.cover(s, i); end > 0 {
			list = append(list, edit{i, end, []byte(marks)})
			i = end - 1
		}
	}
	return list
}

// leaves visits the strings, keys and numbers of a value, in their order.
func leaves(n wire.Node, visit func(wire.Node)) {
	switch n.Kind() {
	case wire.String, wire.Number:
		visit(n)
	case wire.Array, wire.Object:
		for key, v := range n.Members() {
			if key.Kind() == wire.String {
				visit(key)
			}
			leaves(v, visit)
		}
	}
}
