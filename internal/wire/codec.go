package wire

import (
	"reflect"
	"slices"
	"sync"
	"unsafe"
)

// A Codec reads values of one type, T, and has looked up once how. It may be used by many at once.
type Codec[T any] struct {
	decode decodeFunc
	trust  bool
	pool   sync.Pool // of *reading[T]
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

// NewPart reads only the named fields of T, a struct, and does not check others. A struct that this package leaves to
// encoding/json is read whole.
func NewPart[T any](names []string) *Codec[T] {
	t := reflect.TypeFor[T]()
	fields, ok := fieldsOf(t)
	if !ok {
		return NewCodec[T]()
	}
	part := slices.DeleteFunc(fields, func(f field) bool { return !slices.Contains(names, f.name) })
	return &Codec[T]{decode: newStructDecoder(t, part).decode, trust: true}
}

// Read reads a value. The errors are those of [Unmarshal].
func (c *Codec[T]) Read(data []byte) (T, error) {
	r, ok := c.pool.Get().(*reading[T])
	if !ok {
		r = new(reading[T])
	}
	err := r.decoder.decode(data, c.trust, c.decode, unsafe.Pointer(&r.value))
	v, none := r.value, *new(T)
	r.value = none
	c.pool.Put(r)
	return v, err
}

// A Reader reads line after line into values of one type. It is for one goroutine.
type Reader[T any] struct {
	decoder decoder
	decode  decodeFunc
	trust   bool
}

// NewReader reads as [Unmarshal] does.
func NewReader[T any]() *Reader[T] {
	return &Reader[T]{decode: decoderOf(reflect.TypeFor[T]())}
}

// NewSkimmer is for who wants a few fields of a long text and trusts the rest: what T has no field for, and what goes into a
// [Span], is not checked.
func NewSkimmer[T any]() *Reader[T] {
	r := NewReader[T]()
	r.trust = true
	return r
}

// Read reads a line into v.
func (r *Reader[T]) Read(line []byte, v *T) error {
	return r.decoder.decode(line, r.trust, r.decode, unsafe.Pointer(v))
}
