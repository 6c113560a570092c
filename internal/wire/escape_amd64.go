package wire

// What these do is said, and done slowly, in escape.go.

//go:noescape
func unescape(dst, src []byte) (read, wrote int, high, slash bool)

//go:noescape
func escape(dst []byte, src string) (read, wrote int)

//go:noescape
func ascii(src []byte) bool

//go:noescape
func within(src []byte) int

//go:noescape
func stretch(src []byte) (n int, high bool)
