package wire

import (
	"bytes"
	"io"
)

// Lines reads a stream by line. A line may be of any length; memory grows with the longest line that is kept, and is given
// back after it.
type Lines struct {
	// Keep is asked about a line that outgrows the buffer, with its beginning. If it says no, the rest of the line is
	// skipped and only the beginning is returned. A nil Keep keeps every line.
	Keep func(head []byte) bool

	r      io.Reader
	buf    []byte
	at, to int   // what is read and not yet returned
	ahead  int   // where the next newline was seen, one more than its index; 0: not looked for
	err    error // of the reader; met again when the buffer is empty
	torn   bool
	cut    bool
	offset int64 // of the next line in the stream
}

const (
	lineBuffer = 256 << 10
	lineKeep   = 4 << 20 // a larger buffer is given back
)

// NewLines reads lines from r.
func NewLines(r io.Reader) *Lines { return &Lines{r: r} }

// Next returns the next line without its newline. It is good until the next call. At the end the error is io.EOF; a read
// error comes after the lines that were whole before it.
func (l *Lines) Next() ([]byte, error) {
	l.cut = false
	if len(l.buf) > lineKeep && l.to-l.at < lineBuffer && l.ahead == 0 {
		l.buf, l.to, l.at = append(make([]byte, 0, lineBuffer), l.buf[l.at:l.to]...), l.to-l.at, 0
		l.buf = l.buf[:cap(l.buf)]
	}
	scanned := l.at
	if l.ahead > 0 {
		return l.take(l.ahead-1, 1), nil
	}
	for {
		if i := bytes.IndexByte(l.buf[scanned:l.to], '\n'); i >= 0 {
			return l.take(scanned+i, 1), nil
		}
		scanned = l.to
		if l.err != nil {
			if l.at == l.to {
				return nil, l.err
			}
			l.torn = l.err == io.EOF
			if !l.torn {
				l.at = l.to
				return nil, l.err
			}
			return l.take(l.to, 0), nil
		}
		if l.at > 0 && l.to == len(l.buf) {
			scanned -= l.at
			l.to = copy(l.buf, l.buf[l.at:l.to])
			l.at = 0
		}
		if l.to == len(l.buf) {
			if l.to > 0 && l.Keep != nil && !l.Keep(l.buf[:l.to]) {
				return l.skip()
			}
			l.grow()
		}
		l.fill()
	}
}

// Torn says whether the last line returned had no newline: the stream ended in it.
func (l *Lines) Torn() bool { return l.torn }

// Cut says whether the last line returned is only its beginning, because Keep did not want the rest.
func (l *Lines) Cut() bool { return l.cut }

// Offset is where the next line begins in the stream.
func (l *Lines) Offset() int64 { return l.offset }

// Buffered says whether a whole line is there without reading on: who is asked to show each line at once shows it then.
func (l *Lines) Buffered() bool {
	if l.ahead == 0 {
		if i := bytes.IndexByte(l.buf[l.at:l.to], '\n'); i >= 0 {
			l.ahead = l.at + i + 1
		}
	}
	return l.ahead > 0
}

func (l *Lines) take(end, newline int) []byte {
	l.ahead = 0
	line := l.buf[l.at:end:end]
	l.offset += int64(end + newline - l.at)
	l.at = end + newline
	return line
}

func (l *Lines) fill() {
	for empty := 0; ; empty++ {
		n, err := l.r.Read(l.buf[l.to:])
		l.to += n
		if l.err = err; n > 0 || err != nil {
			return
		}
		if empty == 100 {
			l.err = io.ErrNoProgress
			return
		}
	}
}

func (l *Lines) grow() {
	size := max(lineBuffer, 2*len(l.buf))
	buf := make([]byte, size)
	l.to = copy(buf, l.buf[l.at:l.to])
	l.at, l.buf = 0, buf
}

// skip reads over the rest of the line and returns its beginning.
func (l *Lines) skip() ([]byte, error) {
	head := bytes.Clone(l.buf[:l.to])
	l.offset += int64(l.to)
	l.cut = true
	for {
		l.at, l.to = 0, 0
		if l.err == nil {
			l.fill()
		}
		if i := bytes.IndexByte(l.buf[:l.to], '\n'); i >= 0 {
			l.take(i, 1)
			return head, nil
		}
		l.offset += int64(l.to)
		if l.err != nil {
			l.at, l.to = 0, 0
			l.torn = l.err == io.EOF
			if !l.torn {
				return nil, l.err
			}
			return head, nil
		}
	}
}
