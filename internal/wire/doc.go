package wire

import (
	"math"
	"unicode/utf8"
)

// A Doc is a JSON text taken apart in one pass, without building values: a flat list of nodes that point into the text.
// The zero Doc is ready; Parse reuses its memory. A Doc and its Nodes are good until the next Parse.
type Doc struct {
	s     scanner
	nodes []node // each value before what is in it, each key before its value
}

// A node is where a value or a key lies. Thirty-two bits each keep it small, which is most of what Parse costs.
type node struct {
	start, end uint32
	next       uint32 // the index after this node and all that is in it
	size       uint32 // members or elements
	kind       Kind
	flags      flags
}

// Parse takes data apart, and keeps a reference to it until the next Parse. The error is a [*SyntaxError]; after it the
// Doc is empty. Text of 4 GiB and more is refused.
func (d *Doc) Parse(data []byte) error {
	d.s = scanner{data: data}
	d.nodes = d.nodes[:0]
	i := -1
	if uint64(len(data)) > math.MaxUint32 {
		d.s.fail(0, "too long")
	} else if i = d.s.begin(); i >= 0 {
		i = d.s.end(d.value(i))
	}
	if i < 0 {
		d.nodes = d.nodes[:0]
		fault := d.s.fault
		return &fault
	}
	return nil
}

// Root returns the value of the whole text, or an absent Node when there is none.
func (d *Doc) Root() Node {
	if len(d.nodes) == 0 {
		return Node{}
	}
	return Node{d, 0}
}

func (d *Doc) value(i int) int {
	switch c := d.s.data[i]; c {
	case '"':
		end, f := d.s.str(i)
		d.add(i, end, String, f)
		return end
	case '{', '[':
		return d.within(i, c)
	default:
		end := d.s.atom(i)
		d.add(i, end, kindOf(c), 0)
		return end
	}
}

func (d *Doc) within(i int, opening byte) int {
	at, size, kind := len(d.nodes), uint32(0), kindOf(opening)
	d.add(i, i, kind, 0)
	i, done := d.s.enter(i, opening+2) // in ASCII the closing bracket is two after the opening one
	for !done {
		if kind == Object {
			end, value, f := d.s.key(i)
			if value < 0 {
				return value
			}
			d.add(i, end, String, f)
			i = value
		}
		if i = d.value(i); i < 0 {
			return i
		}
		size++
		i, done = d.s.next(i, opening+2)
	}
	n := &d.nodes[at]
	n.end, n.next, n.size = uint32(i), uint32(len(d.nodes)), size
	return i
}

func (d *Doc) add(start, end int, k Kind, f flags) {
	d.nodes = append(d.nodes, node{uint32(start), uint32(end), uint32(len(d.nodes) + 1), 0, k, f})
}

// InvalidUTF8 returns the offset of the first byte of the text that is not UTF-8, if there is one.
func (d *Doc) InvalidUTF8() (offset int, ok bool) {
	// Outside strings JSON is ASCII, and so is the quote around one: what is wrong in the text is wrong in a string.
	data := d.s.data
	if len(d.nodes) == 0 || ValidUTF8(data) {
		return 0, false
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i, true
		}
		i += n
	}
	return 0, false
}

// Doubled returns the first object key that occurs a second time in one object, and the offset of that second time.
func (d *Doc) Doubled() (key string, offset int, ok bool) {
	var first node
	for i, n := range d.nodes {
		if n.kind != Object {
			continue
		}
		if k, found := d.doubledIn(uint32(i)); found && (!ok || k.start < first.start) {
			first, ok = k, true
		}
	}
	if !ok {
		return "", 0, false
	}
	return d.text(first), int(first.start), true
}

// doubledIn returns the first key of the object at i that was there before. Few objects have more than a handful of keys;
// only for those that do a map is worth its making.
func (d *Doc) doubledIn(i uint32) (node, bool) {
	const few = 32
	object := d.nodes[i]
	if object.size > few {
		seen := make(map[string]bool, object.size)
		for k := i + 1; k < object.next; k = d.nodes[k+1].next {
			s := d.text(d.nodes[k])
			if seen[s] {
				return d.nodes[k], true
			}
			seen[s] = true
		}
		return node{}, false
	}
	for k := i + 1; k < object.next; k = d.nodes[k+1].next {
		for before := i + 1; before < k; before = d.nodes[before+1].next {
			if d.same(d.nodes[before], d.nodes[k]) {
				return d.nodes[k], true
			}
		}
	}
	return node{}, false
}

// same says whether two strings read the same.
func (d *Doc) same(a, b node) bool {
	if a.flags|b.flags == 0 {
		return a.end-a.start == b.end-b.start && string(d.inside(a)) == string(d.inside(b))
	}
	return d.text(a) == d.text(b)
}

// inside returns the bytes between a string's quotes.
func (d *Doc) inside(n node) []byte { return d.s.data[n.start+1 : n.end-1] }

func (d *Doc) text(n node) string {
	if n.flags == 0 {
		return string(d.inside(n))
	}
	s := scanner{data: d.s.data[:n.end]}
	t, _ := s.text(int(n.start))
	return t
}
