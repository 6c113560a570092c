package event

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-dev/sluice/internal/wire"
)

// A Line is one line of a journal: its header, read, and its body, not yet.
type Line struct {
	Header
	raw    []byte
	body   []byte // nil when it must be looked for
	cut    bool   // raw is only the beginning
	number uint8  // one more than the kind's place in the table; 0: not looked for, or unknown
}

// ErrElided is returned by [Line.Body] when the reader left the body behind, because nobody wanted it.
var ErrElided = errors.New("event: the body was not kept")

// Raw returns the line as it was written, without its newline: what a relay passes on, so that nothing is lost that this
// version does not know. It is the beginning only if the line is [Line.Elided].
func (l Line) Raw() []byte { return l.raw }

// Elided says whether the line was too long to keep and its body not wanted.
func (l Line) Elided() bool { return l.cut }

// Elide returns the line without its body.
func (l Line) Elide() Line {
	l.cut, l.body = true, nil
	return l
}

// Body decodes the body. A kind that is not known gives an [Unknown]. A field of another type than this version expects is
// left empty and is the error; the rest of the body is there.
func (l Line) Body() (Body, error) { return l.read(readerOf(l.Kind)) }

// Parts read bodies, or some of their fields: for who looks at the name of a call, and not at what was written with it. They are for
// one goroutine.
type Parts struct{ read [256]readFunc } // by the kind's number

// NewParts reads bodies of the kinds in want: of each the fields that it names, as they are called in JSON; if it names none, all.
func NewParts(want map[Kind][]string) *Parts {
	p := new(Parts)
	for k, fields := range want {
		if i := find(&kinds, k); i >= 0 && len(fields) > 0 {
			p.read[i+1] = kinds.list[i].part(fields)
		} else if i >= 0 {
			p.read[i+1] = kinds.list[i].read
		}
	}
	return p
}

// Part decodes the body as [Line.Body] does, but only what p reads; what stands in other fields is not checked. The body is nil if
// p does not read its kind. One that is read in part is good until the next of its kind.
func (l *Line) Part(p *Parts) (Body, error) {
	if l.number == 0 {
		l.number = uint8(find(&kinds, l.Kind) + 1)
	}
	if read := p.read[l.number]; read != nil {
		return l.read(read)
	}
	return nil, nil
}

func (l *Line) read(read readFunc) (Body, error) {
	if l.cut {
		return nil, ErrElided
	}
	if l.body != nil {
		b, err := read(l.body)
		if !isSyntax(err) {
			return b, err
		}
	}
	// Something stands after the body, or the line is broken.
	slow, err := parseSlow(l.raw)
	if err != nil {
		return nil, err
	}
	if slow.Kind != l.Kind {
		read = readerOf(slow.Kind)
	}
	return read(slow.body)
}

// Event decodes the body and returns the whole.
func (l Line) Event() (Event, error) {
	b, err := l.Body()
	return Event{l.Header, b}, err
}

// Unread returns the event with its body as it stands, an [Unknown] whatever its kind: for a body that [Line.Body] reads only
// in part.
func (l Line) Unread() (Event, error) {
	if l.cut {
		return Event{Header: l.Header}, ErrElided
	}
	slow, err := parseSlow(l.raw)
	if err != nil {
		return Event{Header: l.Header}, err
	}
	return Event{l.Header, Unknown{Name: l.Kind, Raw: bytes.Clone(slow.body)}}, nil
}

func isSyntax(err error) bool {
	_, ok := err.(*wire.SyntaxError)
	return ok
}

// Append appends the event as one line, without a newline.
func Append(dst []byte, e Event) []byte {
	dst = append(dst, '{')
	if e.Seq != 0 {
		dst = append(dst, `"seq":`...)
		dst = strconv.AppendUint(dst, e.Seq, 10)
		dst = append(dst, ',')
	}
	if sec := e.At.Unix(); firstSecond <= sec && sec <= lastSecond && !e.At.IsZero() {
		dst = append(dst, `"at":"`...)
		dst = appendTime(dst, sec, e.At.Nanosecond()/int(time.Millisecond))
		dst = append(dst, `",`...)
	}
	dst = appendKey(dst, `"session":`, e.Session)
	dst = appendKey(dst, `"agent":`, e.Agent)
	dst = appendKey(dst, `"call":`, e.Call)
	if e.Of != 0 {
		dst = append(dst, `"of":`...)
		dst = strconv.AppendUint(dst, e.Of, 10)
		dst = append(dst, ',')
	}
	dst = append(dst, `"kind":`...)
	dst = wire.AppendString(dst, string(e.Stamp().Kind))
	dst = append(dst, `,"body":`...)
	switch b := e.Body.(type) {
	case nil:
		dst = append(dst, '{', '}')
	case Unknown:
		dst = appendObject(dst, b.Raw)
	default:
		dst = wire.Append(dst, b)
	}
	return append(dst, '}')
}

const timeLayout = "2006-01-02T15:04:05.000Z"

// The years that timeLayout can write are 0 to 9999.
const firstSecond, lastSecond = -62167219200, 253402300799

// appendTime appends a time in timeLayout, given in seconds since 1970 and milliseconds. AppendFormat would look at the layout anew
// each time, and at the calendar thrice.
func appendTime(dst []byte, sec int64, ms int) []byte {
	const day, from = 24 * 60 * 60, 719468 // days from the first of March of the year 0 to 1970
	since := sec/day + from
	rest := int(sec % day)
	if rest < 0 {
		since, rest = since-1, rest+day
	}
	era, dayOfEra := int(since/146097), int(since%146097) // eras of 400 years, which begin in March
	if dayOfEra < 0 {
		era, dayOfEra = era-1, dayOfEra+146097
	}
	year := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*year + year/4 - year/100)
	month := (5*dayOfYear + 2) / 153 // from March on
	dayOfMonth := dayOfYear - (153*month+2)/5 + 1
	year += 400 * era
	if month += 3; month > 12 {
		month, year = month-12, year+1
	}
	dst = append(dst, timeLayout...)
	b := dst[len(dst)-len(timeLayout):]
	put(b[0:], year/100)
	put(b[2:], year%100)
	put(b[5:], month)
	put(b[8:], dayOfMonth)
	put(b[11:], rest/3600)
	put(b[14:], rest/60%60)
	put(b[17:], rest%60)
	put(b[20:], ms/10)
	b[22] = byte('0' + ms%10)
	return dst
}

// put writes a number of two digits.
func put(b []byte, n int) { b[0], b[1] = byte('0'+n/10), byte('0'+n%10) }

func appendKey(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, key...)
	dst = wire.AppendString(dst, value)
	return append(dst, ',')
}

// appendObject keeps the promise that a body is an object, whatever raw is.
func appendObject(dst []byte, raw Raw) []byte {
	if t := bytes.TrimLeft(raw, " \t\r\n"); len(t) > 0 && t[0] == '{' && wire.Valid(raw) {
		return wire.AppendRaw(dst, raw)
	}
	return append(dst, '{', '}')
}

// parseSlow reads a line with its keys in any order and form. If kind stands before body, the header ends at the body: the
// fast path cannot see what follows it, and both must say the same.
func parseSlow(raw []byte) (Line, error) {
	var d wire.Doc
	if err := d.Parse(raw); err != nil {
		return Line{}, fmt.Errorf("event: %w", err)
	}
	if d.Root().Kind() != wire.Object {
		return Line{}, errors.New("event: not a JSON object")
	}
	l := Line{raw: raw}
	for key, n := range d.Root().All() {
		if err := l.set(key, n); err != nil {
			return Line{}, err
		}
		if key == "body" && l.Kind != "" {
			break
		}
	}
	switch {
	case l.Kind == "":
		return Line{}, errors.New("event: no kind")
	case l.body == nil:
		return Line{}, errors.New("event: no body")
	}
	return l, nil
}

// set takes one key of a line.
func (l *Line) set(key string, n wire.Node) error {
	switch key {
	case "seq":
		return number(key, n, &l.Seq)
	case "of":
		return number(key, n, &l.Of)
	case "session":
		return text(key, n, &l.Session)
	case "agent":
		return text(key, n, &l.Agent)
	case "call":
		return text(key, n, &l.Call)
	case "kind":
		return text(key, n, (*string)(&l.Kind))
	case "at":
		t, err := time.Parse(time.RFC3339, n.Text())
		if err != nil {
			return errors.New("event: at is not an RFC 3339 time")
		}
		l.At = t.UTC()
	case "body":
		if n.Kind() != wire.Object {
			return errors.New("event: body is not an object")
		}
		l.body = n.Raw()
	}
	return nil
}

func number(key string, n wire.Node, to *uint64) error {
	v, ok := n.Int()
	if !ok || v < 0 {
		return fmt.Errorf("event: %s is not a whole number", key)
	}
	*to = uint64(v)
	return nil
}

func text(key string, n wire.Node, to *string) error {
	if n.Kind() != wire.String {
		return fmt.Errorf("event: %s is not a string", key)
	}
	*to = n.Text()
	return nil
}

// Millis returns the time of a Unix time in milliseconds, or the zero time if a calendar has no such year.
func Millis(ms int64) time.Time {
	const last = 253402300799999 // the end of the year 9999
	if ms < -62135596800000 || ms > last {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
