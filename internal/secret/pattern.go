package secret

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/internal/wire"
)

// A pattern is one of the forms in which a secret is written.
type pattern struct {
	text string
	mark string
	skip string // what may stand between its characters: line breaks in base64
	fold bool   // letters of either case; text has small ones
}

// A finder finds any of many patterns in one pass. Most bytes of a text cannot begin a pattern, and of those that can most
// are followed by one that cannot go on: two tables say so, and only what passes both is compared.
type finder struct {
	patterns []*pattern
	known    map[string]bool // texts of the patterns, while they are added
	first    [256][]*pattern // by their first byte
	begins   [256]bool       // bytes that a pattern, or an escape, begins with
	pairs    [1 << 16 / 64]uint64
}

// add adds the forms of a secret.
func (f *finder) add(v Value) {
	m := mark(v.Name)
	for _, run := range strings.FieldsFunc(v.Text, func(r rune) bool { return r == utf8.RuneError }) {
		if len(run) >= shortest { // what is not UTF-8 never stands in a line
			f.put(pattern{text: run, mark: m})
		}
	}
	const betweenDigits, betweenLetters = " \t\r\n:-", " \t\r\n"
	f.put(pattern{text: hex.EncodeToString([]byte(v.Text)), mark: m, skip: betweenDigits, fold: true})
	quoted := string(wire.AppendString(nil, v.Text))
	for _, text := range []string{v.Text, quoted[1 : len(quoted)-1]} { // a JSON document may be in base64
		for _, form := range inBase64(text) {
			f.put(pattern{text: form, mark: m, skip: betweenLetters})
		}
	}
}

func (f *finder) put(p pattern) {
	if f.known == nil {
		f.known = map[string]bool{}
	}
	if !f.known[p.text] { // the first name counts
		f.known[p.text] = true
		f.patterns = append(f.patterns, &p)
	}
}

// inBase64 returns the parts of base64 that a text determines alone, for each of the three places at which it can begin in a
// group of three bytes, in both alphabets.
func inBase64(text string) (forms []string) {
	for before := range 3 {
		padded := append(make([]byte, before), text...)
		from, to := (8*before+5)/6, 8*len(padded)/6 // characters without a bit of somebody else's
		forms = append(forms,
			base64.RawStdEncoding.EncodeToString(padded)[from:to],
			base64.RawURLEncoding.EncodeToString(padded)[from:to])
	}
	return forms
}

// seal makes the tables.
func (f *finder) seal() {
	f.known = nil
	f.row('\\', every)
	f.row('%', "0123456789abcdefABCDEF")
	for _, p := range f.patterns {
		for _, c := range []byte(cases(p.text[0], p.fold)) {
			f.first[c] = append(f.first[c], p)
			f.row(c, cases(p.text[1], p.fold)+p.skip+`\%+`)
		}
	}
	for _, p := range f.patterns {
		if f.has(p.mark) { // a name that has a secret in it
			p.mark = bareMark
		}
	}
}

// row says which bytes may follow the first one.
func (f *finder) row(first byte, then string) {
	f.begins[first] = true
	for i := range len(then) {
		pair := int(first)<<8 | int(then[i])
		f.pairs[pair/64] |= 1 << (pair % 64)
	}
}

// every is every byte.
var every = func() string {
	var b [256]byte
	for i := range b {
		b[i] = byte(i)
	}
	return string(b[:])
}()

// cases returns a byte, and its capital if either case counts.
func cases(c byte, fold bool) string {
	if fold && c >= 'a' && c <= 'f' {
		return string([]byte{c, c - 'a' + 'A'})
	}
	return string([]byte{c})
}

// likely says whether a pattern may begin at i.
func (f *finder) likely(s string, i int) bool {
	if !f.begins[s[i]] {
		return false
	}
	if i+1 == len(s) {
		return true
	}
	pair := int(s[i])<<8 | int(s[i+1])
	return f.pairs[pair/64]&(1<<(pair%64)) != 0
}
