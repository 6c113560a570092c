package wire

import "unsafe"

// A Cell is a place for values of type T, and an I at the same time: what would else be copied to the heap for each value that is
// handed on as one. Who gets the I sees the next value in it as soon as there is one.
type Cell[I, T any] struct {
	Value T
	as    I
}

// NewCell makes a cell. T must implement I.
func NewCell[I, T any]() *Cell[I, T] {
	c := new(Cell[I, T])
	c.as = any(c.Value).(I)
	if direct(c.Value) {
		return c
	}
	// An interface is a pointer to its type's methods and one to its value.
	(*[2]unsafe.Pointer)(unsafe.Pointer(&c.as))[1] = unsafe.Pointer(&c.Value)
	return c
}

// As returns the cell as an I.
func (c *Cell[I, T]) As() I {
	if direct(c.Value) {
		return any(c.Value).(I)
	}
	return c.as
}

// View returns b as a string that is not a copy: it changes when b does.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// direct says whether a value may stand in an interface itself, instead of a pointer to it.
func direct[T any](v T) bool { return unsafe.Sizeof(v) <= unsafe.Sizeof(uintptr(0)) }
