package wire

import (
	"encoding/binary"
	"reflect"
	"unsafe"
)

// A structDecoder finds fields by name, unless they come as they came before.
type structDecoder struct {
	typ    reflect.Type
	fields []fieldDecoder
	byName map[string]int // for structs with more fields than are quickly looked through
	guess  [64]uint8      // one more than the index of a field whose name has this slot
}

// slot is where a name is looked for first.
func slot(name []byte) uint8 {
	return (uint8(len(name))*7 ^ name[0] ^ name[len(name)-1]*5) & 63
}

type fieldDecoder struct {
	name   string
	label  label
	offset uintptr
	decode decodeFunc
	word   bool // it is a string, and decode stringDecoder's
}

func newStructDecoder(t reflect.Type, fields []field) *structDecoder {
	const few = 8
	s := structDecoder{typ: t}
	for _, f := range fields {
		label := newLabel(string(AppendString(nil, f.name)) + ":")
		s.fields = append(s.fields, fieldDecoder{f.name, label, f.offset(t), decoderOf(f.typ), isText(f.typ)})
	}
	if len(fields) > few {
		s.byName = make(map[string]int)
		for i, f := range fields {
			s.byName[f.name] = i
			if name := []byte(f.name); len(name) > 0 && i < 255 && s.guess[slot(name)] == 0 {
				s.guess[slot(name)] = uint8(i + 1)
			}
		}
	}
	return &s
}

// find returns the index of the field of that name, or -1.
func (s *structDecoder) find(name []byte) int {
	if s.byName != nil {
		if len(name) > 0 {
			if i := int(s.guess[slot(name)]) - 1; i >= 0 && s.fields[i].name == string(name) {
				return i
			} else if i < 0 {
				return -1
			}
		}
		if i, ok := s.byName[string(name)]; ok {
			return i
		}
		return -1
	}
	for i := range s.fields {
		if s.fields[i].name == string(name) {
			return i
		}
	}
	return -1
}

// A habit is how the objects for a struct come: a stream says much the same in the same order in every line of a type. What is
// as it was the last time need not be looked up, nor read.
type habit struct {
	of      *structDecoder
	opening step    // the brace
	unusual step    // any member that is no habit
	steps   []*step // all others
}

// A step is a member of such objects.
type step struct {
	fieldDecoder        // its field; none if there is no decode
	last         string // what it was, if that was a string which stands there as it is, and not a long one
	next, late   *step  // the one that came after it the last time, and another that once did
	inner        *habit // of the objects in it
}

// A longer habit, or one with longer keys, is nobody's; and a longer text does not come again.
const longestHabit, longestLabel, longestLast = 128, 64, 256

// habit returns how objects for s came in the place where one is to be read.
func (d *decoder) habit(s *structDecoder) *habit {
	if *d.here == nil || (*d.here).of != s {
		*d.here = &habit{of: s}
	}
	return *d.here
}

func (s *structDecoder) decode(d *decoder, i int, p unsafe.Pointer) int {
	data := d.data
	if data[i] != '{' {
		return d.mismatch(i, s.typ)
	}
	h := d.habit(s)
	i, done := d.enter(i, '}')
	tells := d.lines != nil && d.depth == 1 // the type of the line
	for st := &h.opening; !done; {
		before, value := st, i
		if st = before.next; st != nil {
			value = st.label.after(data, i)
		}
		if value == i {
			if st, value = s.look(d, h, before, i); value < 0 {
				return value
			}
		}
		switch {
		case st.decode == nil:
			d.others++
			i = d.skip(value)
		case st.word && data[value] == '"':
			i = d.again(st, value, (*string)(unsafe.Add(p, st.offset)))
		default:
			d.here = &st.inner
			i = st.decode(d, value, unsafe.Add(p, st.offset))
		}
		if i < 0 {
			return i
		}
		if tells {
			tells = false
			if data[value] == '"' {
				d.here = &d.lines[hash(data[value:i])>>26]
				h = d.habit(s)
				st = &h.opening
			}
		}
		if i+1 < len(data) && data[i] == ',' && data[i+1] > ' ' {
			i++
			continue
		}
		i, done = d.next(i, '}')
	}
	return i
}

// look reads the key at i, which did not come after that step the last time, and returns its step and where its value begins.
func (s *structDecoder) look(d *decoder, h *habit, before *step, i int) (st *step, value int) {
	if st = before.late; st != nil {
		if value = st.label.after(d.data, i); value > i {
			before.next, before.late = st, before.next
			return st, value
		}
	}
	end, value, flags := d.key(i)
	if value < 0 {
		return nil, value
	}
	usual := flags == 0 && value == end+1 && value-i <= longestLabel
	name := d.data[i+1 : end-1]
	if flags != 0 {
		unquoted, _ := d.text(i)
		name = []byte(unquoted)
	}
	var field fieldDecoder
	if at := s.find(name); at >= 0 {
		field = s.fields[at]
	} else {
		field.name = string(name)
	}
	if usual {
		for _, st := range h.steps {
			if st.name == field.name {
				before.next, before.late = st, before.next
				return st, value
			}
		}
	}
	if !usual || len(h.steps) == longestHabit {
		h.unusual.fieldDecoder = field
		h.unusual.label = label{}
		return &h.unusual, value
	}
	if field.decode == nil {
		field.label = newLabel(string(d.data[i:value]))
	}
	st = &step{fieldDecoder: field}
	h.steps = append(h.steps, st)
	before.next, before.late = st, before.next
	return st, value
}

// again reads the string at i.
func (d *decoder) again(st *step, i int, to *string) int {
	if end := i + 1 + len(st.last); end < len(d.data) && d.data[end] == '"' && string(d.data[i+1:end]) == st.last {
		*to = st.last
		return end + 1
	}
	s, end, plain := d.short(i)
	if end >= 0 {
		*to = s
		if st.last = ""; plain || len(s) <= longestLast && string(d.data[i+1:end-1]) == s {
			st.last = s
		}
	}
	return end
}

// A label is a key as it stands before its value, with quotes and colon, and made to be compared with.
type label struct {
	text       string
	head, mask uint64 // its first bytes, and which those are
	tail       uint64 // its last eight
}

func newLabel(text string) label {
	var b [8]byte
	n := copy(b[:], text)
	l := label{text: text, head: binary.LittleEndian.Uint64(b[:]), mask: ^uint64(0) >> (64 - 8*n)}
	if n == 8 {
		l.tail = binary.LittleEndian.Uint64([]byte(text[len(text)-8:]))
	}
	return l
}

// after returns where the value of the member at i begins, if this is its key; and else i. It need not see that it is.
func (l *label) after(data []byte, i int) int {
	end := i + len(l.text)
	if i+8 > len(data) || end >= len(data) || binary.LittleEndian.Uint64(data[i:])&l.mask != l.head {
		return i
	}
	if n := len(l.text); n > 8 {
		if binary.LittleEndian.Uint64(data[end-8:]) != l.tail || n > 16 && string(data[i+8:end-8]) != l.text[8:n-8] {
			return i
		}
	}
	if data[end] <= ' ' {
		return i
	}
	return end
}
