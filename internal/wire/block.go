package wire

import (
	"encoding/binary"
	"unsafe"
)

// Strings with many escapes are looked at in blocks: where the next escape is does not depend on where the one before ended.
const block = 64

// marked says which bytes of a block are quotes, backslashes or control characters, one bit each, and returns all of its bytes
// for their high bits.
func marked(b *[block]byte) (marks, seen uint64) {
	x0, x1, x2, x3 := word(b[0:]), word(b[8:]), word(b[16:]), word(b[24:])
	x4, x5, x6, x7 := word(b[32:]), word(b[40:]), word(b[48:]), word(b[56:])
	marks = mark(x0) | mark(x1)<<8 | mark(x2)<<16 | mark(x3)<<24 | mark(x4)<<32 | mark(x5)<<40 | mark(x6)<<48 | mark(x7)<<56
	return marks, x0 | x1 | x2 | x3 | x4 | x5 | x6 | x7
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// mark is marked for eight bytes.
func mark(x uint64) uint64 {
	const lows = ^uint64(highs)
	// Addition sets the high bit of each byte that is not zero, and carries nothing into the next.
	low := x & lows
	plain := ((low ^ '"'*ones) + lows) & ((low ^ '\\'*ones) + lows) & (low&(0x60*ones) + lows)
	// Multiplication gathers the high bits in the highest byte.
	return (^plain &^ x & highs) >> 7 * 0x0102040810204080 >> 56
}

// move copies size bytes from data[i:] to text[n:], in words: up to seven more are read and written.
func move(text []byte, n int, data []byte, i, size int) {
	to, from := unsafe.Pointer(&text[n]), unsafe.Pointer(&data[i])
	for k := 0; k < size; k += 8 {
		*(*[8]byte)(unsafe.Add(to, k)) = *(*[8]byte)(unsafe.Add(from, k))
	}
}
