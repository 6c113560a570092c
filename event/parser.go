package event

import (
	"time"

	"github.com/sluice-dev/sluice/internal/wire"
)

// A Parser reads headers. It remembers the line before, which is much like the next: so the session's name is not copied a
// million times, and a date is worked out once a minute. The zero Parser is ready.
type Parser struct {
	session, agent, call string // as they stood there: "session":"ses_7f3",
	kind                 Kind
	number               uint8      // of the kind, as in [Line]
	minute               string     // as it is written: 2026-08-22T10:11:
	from                 int64      // when it began, in seconds
	then                 [256]uint8 // for each kind, by its number, the one that came after it the last time

	rest []byte // of the header of the line before, from its time to its body, if that was like the one before it
	same Header // what it says
}

// Parse reads the header of a line of JSON. The line keeps raw; it is good as long as raw is.
func (p *Parser) Parse(raw []byte) (l Line, err error) {
	err = p.ParseTo(&l, raw)
	return l, err
}

// ParseTo is [Parser.Parse] into a Line that is used again and again.
func (p *Parser) ParseTo(l *Line, raw []byte) (err error) {
	*l = Line{}
	if !p.fast(l, raw) {
		*l, err = parseSlow(raw)
	}
	return err
}

// Parse reads the header of one line. For many lines use a [Parser].
func Parse(raw []byte) (Line, error) {
	var p Parser
	return p.Parse(raw)
}

// Head reads the header from the beginning of a line that goes on beyond raw. It works for lines as [Append] writes them, if
// the header fits; ok is false for any other.
func (p *Parser) Head(raw []byte) (Line, bool) {
	var l Line
	if at := p.header(&l, raw); at == 0 || at >= len(raw) {
		return Line{}, false
	}
	l.raw = raw
	return l.Elide(), true
}

// fast reads lines as [Append] writes them.
func (p *Parser) fast(l *Line, raw []byte) bool {
	at, end := p.header(l, raw), len(raw)
	if at == 0 || end-at < 3 || raw[at] != '{' || raw[end-1] != '}' || raw[end-2] != '}' {
		return false
	}
	l.raw, l.body = raw, raw[at:end-1]
	return true
}

// header reads the keys in their order, and returns where the body begins: 0 if they are not as they should be.
func (p *Parser) header(l *Line, raw []byte) int {
	c := cursor{raw: raw}
	if !c.skip(`{`) {
		return 0
	}
	timed := false
	if c.skip(`"seq":`) {
		if l.Seq = c.number(); l.Seq == 0 {
			return 0
		}
		if timed = c.skip(`,"at":"`); !timed && !c.skip(`,`) {
			return 0
		}
	}
	if timed || c.skip(`"at":"`) {
		if !p.time(&c, &l.At) || !c.skip(`",`) {
			return 0
		}
	}
	// Pieces of a text come in long rows, and differ in number and time only.
	from := c.at
	if end := from + len(p.rest); end > from && end <= len(raw) && string(raw[from:end]) == string(p.rest) {
		l.Session, l.Agent, l.Call, l.Of, l.Kind, l.number = p.same.Session, p.same.Agent, p.same.Call, p.same.Of, p.kind, p.number
		return end
	}
	p.rest = p.rest[:0]
	if !c.key(`"session":"`, &l.Session, &p.session) || !c.key(`"agent":"`, &l.Agent, &p.agent) || !c.key(`"call":"`, &l.Call, &p.call) {
		return 0
	}
	if c.skip(`"of":`) {
		if l.Of = c.number(); l.Of == 0 || !c.skip(`,`) {
			return 0
		}
	}
	last := p.number
	if n := p.then[last]; n != 0 && c.skip(kinds.list[n-1].label) {
		p.kind, p.number = kinds.list[n-1].kind, n
	} else {
		if !c.skip(`"kind":"`) {
			return 0
		}
		k, ok := c.plain()
		if !ok || len(k) == 0 || !c.skip(`,"body":`) {
			return 0
		}
		p.kind, p.number = name(k)
		p.then[last] = p.number
	}
	l.Kind, l.number = p.kind, p.number
	if last == p.number && last != 0 {
		p.rest = append(p.rest, raw[from:c.at]...)
		p.same.Session, p.same.Agent, p.same.Call, p.same.Of = l.Session, l.Agent, l.Call, l.Of
	}
	return c.at
}

// A cursor walks over the bytes of a header.
type cursor struct {
	raw []byte
	at  int
}

func (c *cursor) skip(s string) bool {
	if len(c.raw)-c.at >= len(s) && string(c.raw[c.at:c.at+len(s)]) == s {
		c.at += len(s)
		return true
	}
	return false
}

// number reads digits; 0 is not a number here, nor is one that begins with 0 or is too long.
func (c *cursor) number() (n uint64) {
	start := c.at
	n, c.at = wire.Digits(c.raw, c.at)
	if c.at == start || c.at-start > wire.MaxDigits || c.raw[start] == '0' {
		return 0
	}
	return n
}

// plain reads a string up to its closing quote, if it has no escapes and is ASCII.
func (c *cursor) plain() ([]byte, bool) {
	for i := c.at; i < len(c.raw); i++ {
		switch b := c.raw[i]; {
		case b == '"':
			s := c.raw[c.at:i]
			c.at = i + 1
			return s, true
		case b == '\\' || b < ' ' || b >= 0x80:
			return nil, false
		}
	}
	return nil, false
}

// key reads an optional string and its comma. The member of the line before, as it stood there, is used again if it is the same.
func (c *cursor) key(key string, to, last *string) bool {
	if *last != "" && c.skip(*last) {
		*to = (*last)[len(key) : len(*last)-len(`",`)]
		return true
	}
	if !c.skip(key) {
		return true
	}
	s, ok := c.plain()
	if !ok || len(s) == 0 || !c.skip(`,`) {
		return false
	}
	*last = key + string(s) + `",`
	*to = (*last)[len(key) : len(key)+len(s)]
	return true
}

// time reads the fixed form 2026-08-22T10:11:12.345Z.
func (p *Parser) time(c *cursor, to *time.Time) bool {
	if len(c.raw)-c.at < len(timeLayout) {
		return false
	}
	b := c.raw[c.at : c.at+len(timeLayout)]
	const minute = len("2006-01-02T15:04:")
	if b[19] != '.' || b[23] != 'Z' || string(b[:minute]) != p.minute && !p.date(b[:minute]) {
		return false
	}
	tens, ones := b[17]-'0', b[18]-'0'
	tenths, hundredths, ms := b[20]-'0', b[21]-'0', b[22]-'0'
	if tens > 5 || ones > 9 || tenths > 9 || hundredths > 9 || ms > 9 {
		return false
	}
	c.at += len(timeLayout)
	sec, fraction := int64(tens)*10+int64(ones), int64(tenths)*100+int64(hundredths)*10+int64(ms)
	*to = time.Unix(p.from+sec, fraction*int64(time.Millisecond)).UTC()
	return true
}

// date reads a time down to its minute, 2026-08-22T10:11: and remembers it.
func (p *Parser) date(b []byte) bool {
	if b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' {
		return false
	}
	var f [5]int
	for i, at := range [5][2]int{{0, 4}, {5, 7}, {8, 10}, {11, 13}, {14, 16}} {
		n, ok := digits(b[at[0]:at[1]])
		if !ok {
			return false
		}
		f[i] = n
	}
	if f[1] < 1 || f[1] > 12 || f[2] < 1 || f[2] > 28 && f[2] > daysIn(f[0], f[1]) || f[3] > 23 || f[4] > 59 {
		return false
	}
	p.minute = string(b)
	p.from = time.Date(f[0], time.Month(f[1]), f[2], f[3], f[4], 0, 0, time.UTC).Unix()
	return true
}

// digits returns the number that b spells, if b is nothing but digits.
func digits(b []byte) (n int, ok bool) {
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int(d-'0')
	}
	return n, true
}

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
