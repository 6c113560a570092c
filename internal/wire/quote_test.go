package wire

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// What stands in literals, plain and escaped, as we write it and as others do; and what should not.
var (
	right = []string{
		"a", "some words ", strings.Repeat("long ", 30), "\x7f", "ä", "€", "😀", "\u2028", "\u2029", "\ufffd", "\xff", "\xe2\x80",
		`\n`, `\t`, `\"`, `\\`, `\/`, `\b`, `\f`, `\r`, `\u0041`, `\u2028`, `\ud83d\ude00`, `\ud83d`, `\udc00`,
	}
	wrong  = []string{"\t", "\n", "\x00", "\x1f", `"`, `\`, `\u12`, `\x`}
	pieces = slices.Concat(right, wrong)
)

func FuzzQuote(f *testing.F) {
	for _, p := range pieces {
		f.Add(p, uint8(3), uint8(70))
		f.Add(p, uint8(62), uint8(0))
	}
	f.Fuzz(func(t *testing.T, s string, before, times uint8) {
		checkQuote(t, strings.Repeat(".", int(before))+strings.Repeat(s, int(times)+1))
	})
}

func TestQuote(t *testing.T) {
	for _, p := range pieces { // at the end of a long one, and in its middle
		checkQuote(t, strings.Repeat(`word\n`, 80)+p)
		checkQuote(t, strings.Repeat(`word\n`, 80)+p+strings.Repeat(`word\n`, 80))
		for n := range 3 * 64 { // in every place of what is looked at together
			checkQuote(t, strings.Repeat("a", n)+p)
			checkQuote(t, strings.Repeat("a", n)+p+strings.Repeat("b", 100))
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 6000 {
		of := pieces
		if i%2 == 0 { // of a few sorts
			of = []string{`\n`, right[rnd.IntN(len(right))], right[rnd.IntN(len(right))]}
		}
		var s strings.Builder
		for n := rnd.IntN(200); n >= 0; n-- {
			s.WriteString(of[rnd.IntN(len(of))])
		}
		checkQuote(t, s.String())
	}
}

// checkQuote writes s, and reads it as the inside of a literal; both must be what encoding/json does.
func checkQuote(t *testing.T, s string) {
	t.Helper()
	if got, want := string(AppendString([]byte("x"), s)), "x"+std(s); got != want {
		t.Fatalf("AppendString(%q) = %s, want %s", s, got, want)
	}
	lit := []byte(`"` + s + `"`)
	var want string
	err := json.Unmarshal(lit, &want)
	got, ok := Unquote(lit)
	if ok != (err == nil) || ok && got != want {
		t.Fatalf("Unquote(%q) = %q, %v, want %q, %v", lit, got, ok, want, err)
	}
	checkEscape(t, s, ok)
	if ok { // now it is perhaps remembered how it was written
		if again := string(AppendString([]byte("x"), got)); again != "x"+std(want) {
			t.Fatalf("AppendString(Unquote(%q)) = %s", lit, again)
		}
	}
}

// checkEscape compares what is fast with what is simple: both stop at the same place, unless that is close to the end, and have copied
// the same until there. Neither writes beyond where it may.
func checkEscape(t *testing.T, s string, ok bool) {
	t.Helper()
	room := func(n int) []byte { return append(bytes.Repeat([]byte{'.'}, n), "behind"...) }
	src := append([]byte(s), `\nbehind`...)[:len(s)]
	fast, slow := room(len(s)), room(len(s))
	read, wrote, high, slash := unescape(fast[:len(s)], src)
	read2, wrote2, high2, slash2 := unescapeBytes(slow[:len(s)], src)
	early := min(read, read2)+2*escapeEnd > len(s)
	if !early && (read != read2 || wrote != wrote2 || slash != slash2) || high2 && !high && !early ||
		!bytes.Equal(fast[:min(wrote, wrote2)], slow[:min(wrote, wrote2)]) || string(fast[len(s):]) != "behind" || abs(read-read2) > escapeEnd || read > len(s) {
		t.Fatalf("unescape(%q): %d %d %v %v %q, slowly %d %d %v %v %q", s, read, wrote, high, slash, fast[:wrote], read2, wrote2, high2, slash2, slow[:wrote2])
	}
	fast, slow = room(2*len(s)), room(2*len(s))
	read, wrote = escape(fast[:2*len(s)], s)
	read2, wrote2 = escapeBytes(slow[:2*len(s)], s)
	early = min(read, read2)+2*escapeEnd > len(s)
	if !early && (read != read2 || wrote != wrote2) ||
		!bytes.Equal(fast[:min(wrote, wrote2)], slow[:min(wrote, wrote2)]) || string(fast[2*len(s):]) != "behind" || abs(read-read2) > escapeEnd {
		t.Fatalf("escape(%q): %d %d %q, slowly %d %d %q", s, read, wrote, fast[:wrote], read2, wrote2, slow[:wrote2])
	}
	if ascii(src) != asciiBytes(src) {
		t.Fatalf("ascii(%q) is %v", src, ascii(src))
	}
	if a, b := within(src), withinBytes(src); a != b && (min(a, b)+2*64 <= len(s) || abs(a-b) > 64) {
		t.Fatalf("within(%q) is %d, slowly %d", src, a, b)
	}
	if end := skipString([]byte(`"`+s+`"`), 0); ok && end != len(s)+2 {
		t.Fatalf("%q ends after %d", s, end)
	}
	if end := skipString([]byte(`"`+s), 0); end > len(s)+1 {
		t.Fatalf("%q ends after %d", s, end)
	}
	n, high := stretch(src)
	n2, high2 := stretchBytes(src)
	if abs(n-n2) >= 16 || min(n, n2)+16 <= len(s) && (n != n2 || high2 && !high) {
		t.Fatalf("stretch(%q): %d %v, slowly %d %v", s, n, high, n2, high2)
	}
}

func abs(n int) int { return max(n, -n) }

// Many may read and write at once, and none gets what another has read.
func TestLatest(t *testing.T) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			lit := AppendString(nil, strings.Repeat(string(rune('a'+i))+"\n", 300))
			for range 2000 {
				text, ok := Unquote(lit)
				if again := AppendString(nil, text); !ok || string(again) != string(lit) {
					t.Errorf("%s came back as %s", lit, again)
					return
				}
			}
		})
	}
	all.Wait()
}

// The part of a string that was read is another string.
func TestLatestPart(t *testing.T) {
	lit := AppendString(nil, strings.Repeat("line\n", 200))
	text, _ := Unquote(lit)
	for _, part := range []string{text[:len(text)-5], text[5:], text} {
		if got := string(AppendString(nil, part)); got != std(part) {
			t.Errorf("%q came out as %s", part, got)
		}
	}
}
