//go:build !amd64

package wire

func unescape(dst, src []byte) (read, wrote int, high, slash bool) { return unescapeBytes(dst, src) }

func escape(dst []byte, src string) (read, wrote int) { return escapeBytes(dst, src) }

func stretch(src []byte) (n int, high bool) { return stretchBytes(src) }

func ascii(src []byte) bool { return asciiBytes(src) }

func within(src []byte) int { return withinBytes(src) }
