package wire

import (
	"sync"
	"unsafe"
)

// Most of what is converted are long strings that are read in one place and written in another, just as they were. To quote them
// is much of the work, and was done before: the literal is still known, if it was the last one.

// A literal is a string that was read, and how it stood there.
type literal struct {
	mu   sync.Mutex
	text string
	lit  []byte // without quotes; as AppendString would write it
}

var latest literal

// Shorter strings are quoted as fast as they would be found; longer ones would be in memory for nothing.
const enough, tooLong = 256, 1 << 20

// keep keeps a text of at least enough bytes.
func (l *literal) keep(text string, lit []byte) {
	if len(lit) > tooLong || !l.mu.TryLock() {
		return
	}
	l.text, l.lit = text, append(l.lit[:0], lit...)
	l.mu.Unlock()
}

// append appends s as a JSON string, if it is the one that was kept: not an equal one, which would have to be looked at, but
// the same in memory.
func (l *literal) append(dst []byte, s string) ([]byte, bool) {
	if !l.mu.TryLock() { // somebody else reads and writes; then it is probably not ours
		return dst, false
	}
	defer l.mu.Unlock()
	if len(s) != len(l.text) || unsafe.StringData(s) != unsafe.StringData(l.text) {
		return dst, false
	}
	dst = append(dst, '"')
	dst = append(dst, l.lit...)
	return append(dst, '"'), true
}
