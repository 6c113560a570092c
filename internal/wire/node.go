package wire

import (
	"bytes"
	"iter"
	"strconv"
)

// A Kind is what a JSON value is.
type Kind uint8

// Absent is the kind of the zero [Node]: what is asked for and not there.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// String names the kind as JSON does, in small letters.
func (k Kind) String() string {
	return [...]string{"absent", "null", "bool", "number", "string", "array", "object"}[min(k, Object)]
}

// kindOf returns the kind of the value that begins with c.
func kindOf(c byte) Kind {
	switch c {
	case '"':
		return String
	case '{':
		return Object
	case '[':
		return Array
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	}
	return Number
}

// A Node is a value of a [Doc], and good as long as the Doc. Asking a Node for what it is not gives the zero answer, so
// that n.Get("a").Get("b").Text() needs no test in between.
type Node struct {
	d *Doc
	i uint32
}

func (n Node) node() node {
	if n.d == nil || int(n.i) >= len(n.d.nodes) {
		return node{}
	}
	return n.d.nodes[n.i]
}

// Kind returns what the value is.
func (n Node) Kind() Kind { return n.node().kind }

// Raw returns the bytes of the value, which are those of the text.
func (n Node) Raw() []byte {
	v := n.node()
	if v.kind == Absent {
		return nil
	}
	return n.d.s.data[v.start:v.end:v.end]
}

// Offset returns where the value begins in the text.
func (n Node) Offset() int { return int(n.node().start) }

// Len returns how many members or elements the value has.
func (n Node) Len() int { return int(n.node().size) }

// Get returns the member of that name of an object; the last one, if there are more.
func (n Node) Get(key string) Node {
	v := n.node()
	if v.kind != Object {
		return Node{}
	}
	var found Node
	nodes := n.d.nodes
	for k := n.i + 1; k < v.next; k = nodes[k+1].next {
		if name := nodes[k]; reads(n.d.inside(name), name.flags, key) {
			found = Node{n.d, k + 1}
		}
	}
	return found
}

// All returns the members of an object, or the elements of an array with empty keys, in order.
func (n Node) All() iter.Seq2[string, Node] {
	return func(yield func(string, Node) bool) {
		for key, v := range n.Members() {
			if !yield(key.Text(), v) {
				return
			}
		}
	}
}

// Members is All without the cost of making strings: a key is a Node too, a string, and absent in an array.
func (n Node) Members() iter.Seq2[Node, Node] {
	return func(yield func(Node, Node) bool) {
		v := n.node()
		for i := n.i + 1; i < v.next; i = n.d.nodes[i].next {
			var key Node
			if v.kind == Object {
				key = Node{n.d, i}
				i++
			}
			if !yield(key, Node{n.d, i}) {
				return
			}
		}
	}
}

// Text returns the text of a string.
func (n Node) Text() string {
	v := n.node()
	if v.kind != String {
		return ""
	}
	return n.d.text(v)
}

// Is says whether the value is the string s. It does not allocate.
func (n Node) Is(s string) bool {
	v := n.node()
	return v.kind == String && reads(n.d.inside(v), v.flags, s)
}

// Bool returns the value of true or false.
func (n Node) Bool() (value, ok bool) {
	v := n.node()
	return v.kind == Bool && n.d.s.data[v.start] == 't', v.kind == Bool
}

// Float returns the value of a number, if it is within range.
func (n Node) Float() (float64, bool) {
	if n.Kind() != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(n.Raw()), 64)
	if err != nil {
		return 0, false
	}
	return f, true
}

// Int returns the value of a number that is whole and fits, however it is written: 1e3 and 5.0 are.
func (n Node) Int() (int64, bool) {
	if n.Kind() != Number {
		return 0, false
	}
	raw := n.Raw()
	if !bytes.ContainsAny(raw, ".eE") {
		i, err := strconv.ParseInt(string(raw), 10, 64)
		return i, err == nil
	}
	return whole(raw)
}

// whole returns the value of a number with a fraction or an exponent, if it has none in truth.
func whole(raw []byte) (int64, bool) {
	raw, negative := bytes.CutPrefix(raw, []byte("-"))
	exp, err := 0, error(nil)
	if e := bytes.IndexAny(raw, "eE"); e >= 0 {
		exp, err = strconv.Atoi(string(raw[e+1:]))
		raw = raw[:e]
	}
	integer, fraction, _ := bytes.Cut(raw, []byte("."))
	all := append(bytes.Clone(integer), fraction...)
	significant := bytes.TrimRight(all, "0")
	zeros := len(all) - len(significant) - len(fraction)
	significant = bytes.TrimLeft(significant, "0")
	const most = 19 // digits in an int64
	switch {
	case len(significant) == 0:
		return 0, true
	case err != nil || exp < -zeros || exp > most-zeros || len(significant)+zeros+exp > most:
		return 0, false
	}
	significant = append(significant, bytes.Repeat([]byte("0"), zeros+exp)...)
	if negative {
		significant = append([]byte("-"), significant...)
	}
	i, err := strconv.ParseInt(string(significant), 10, 64)
	if err != nil {
		return 0, false
	}
	return i, true
}
