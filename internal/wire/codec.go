package wire

import (
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Care is how much of a text is looked at.
type Care uint8

// From most to least.
const (
	Everything Care = iota // all is checked
	Check                  // likewise, but a [Prose] is not read before somebody asks
	Skim                   // what has no field, or goes into a [Span] or a [Prose], is trusted
)

// A Codec reads values of one type, T, and has looked up once how. It may be used by many at once.
type Codec[T any] struct {
	decode decodeFunc
	spare  spare[reading[T]]
}

// A reading is a value that is being read, and what reads it; together, because both must outlive the stack.
type reading[T any] struct {
	decoder
	value T
}

// NewCodec reads all fields of T, as [Unmarshal] does.
func NewCodec[T any]() *Codec[T] {
	return &Codec[T]{decode: decoderOf(reflect.TypeFor[T]())}
}

// Read reads a value. The errors are those of [Unmarshal].
func (c *Codec[T]) Read(data []byte) (T, error) {
	r := c.spare.get()
	err := r.decoder.decode(data, Everything, c.decode, unsafe.Pointer(&r.value))
	v, none := r.value, *new(T)
	r.value = none
	c.spare.put(r)
	return v, err
}

// A spare keeps what is used again. One is there for certain, since decoders have learned their habits; the others come and go.
type spare[T any] struct {
	one  atomic.Pointer[T]
	more sync.Pool
}

func (s *spare[T]) get() *T {
	if v := s.one.Swap(nil); v != nil {
		return v
	}
	if v, ok := s.more.Get().(*T); ok {
		return v
	}
	return new(T)
}

func (s *spare[T]) put(v *T) {
	if !s.one.CompareAndSwap(nil, v) {
		s.more.Put(v)
	}
}

// NewPart reads only the named fields of T, a struct, and does not check others. A struct that this package leaves to
// encoding/json is read whole.
func NewPart[T any](names []string) *Reader[T] {
	t := reflect.TypeFor[T]()
	fields, ok := fieldsOf(t)
	if !ok {
		return &Reader[T]{decode: decoderOf(t)}
	}
	part := slices.DeleteFunc(fields, func(f field) bool { return !slices.Contains(names, f.name) })
	return &Reader[T]{decode: newStructDecoder(t, part).decode, care: Skim}
}

// A Reader reads line after line into values of one type. It is for one goroutine.
type Reader[T any] struct {
	decoder decoder
	decode  decodeFunc
	care    Care
}

// NewReader reads as [Unmarshal] does, or with less care. It is fast where the first member of a line tells its type.
func NewReader[T any](c Care) *Reader[T] {
	return &Reader[T]{decoder: decoder{lines: new([64]*habit)}, decode: decoderOf(reflect.TypeFor[T]()), care: c}
}

// Read reads a line into v.
func (r *Reader[T]) Read(line []byte, v *T) error {
	return r.decoder.decode(line, r.care, r.decode, unsafe.Pointer(v))
}
