package tool

import (
	"encoding/base64"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRead(t *testing.T) {
	long := strings.Repeat("é", 3000)
	b := newBench(t, map[string]string{
		"a.txt": "one\ntwo\nthree", "crlf": "one\r\ntwo\r\n", "empty": "", "bad": "a\xffb\n",
		"long": long + "\nnext\n", "bin": "a\x00b",
	})
	for _, c := range []struct {
		args object
		want string
	}{
		{object{"file_path": "a.txt"}, "     1\tone\n     2\ttwo\n     3\tthree\n"},
		{object{"file_path": "a.txt", "offset": 2, "limit": 1}, "     2\ttwo\n\n(lines 2 to 2 of 3; go on with offset 3)\n"},
		{object{"file_path": "a.txt", "offset": 3}, "     3\tthree\n"},
		{object{"file_path": "crlf"}, "     1\tone\r\n     2\ttwo\r\n"},
		{object{"file_path": "empty"}, "(the file is empty)"},
		{object{"file_path": "bad"}, "     1\ta\uFFFDb\n"},
		{object{"file_path": "long"}, "     1\t" + long[:2000] + ellipsis + "\n     2\tnext\n"},
	} {
		r := b.ok("read", c.args)
		if r.Output != c.want || r.Type != "" {
			t.Errorf("%v: got %q", c.args, r.Output)
		}
	}
	b.fails("read", object{"file_path": "a.txt", "offset": 4}, "only 3 lines", "no line 4")
	b.fails("read", object{"file_path": "none"}, "none: there is no such file", "glob")
	b.fails("read", object{"file_path": "none/none"}, "no such file")
	b.fails("read", object{"file_path": "bin"}, "binary file of 3 bytes")
	b.fails("read", object{"file_path": "."}, "is a folder")
	b.fails("read", object{"file_path": "a.txt/x"}, "not a directory")
}

func TestReadIsBounded(t *testing.T) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "line %d\n", i+1)
	}
	wide := strings.Repeat(strings.Repeat("w", 999)+"\n", 100)
	b := newBench(t, map[string]string{"many": text.String(), "wide": wide})
	out := b.ok("read", object{"file_path": "many"}).Output
	if !strings.HasSuffix(out, "  2000\tline 2000\n\n(lines 1 to 2000 of 10000; go on with offset 2001)\n") {
		t.Errorf("ends with %q", out[len(out)-100:])
	}
	out = b.ok("read", object{"file_path": "wide"}).Output
	if len(out) > readBytes+2000 || !strings.Contains(out, "of 100; go on with offset ") {
		t.Errorf("%d bytes, ends with %q", len(out), out[len(out)-100:])
	}
	if !strings.Contains(out[len(out)-60:], fmt.Sprintf("lines 1 to %d of 100; go on with offset %d)", strings.Count(out, "w\n"), strings.Count(out, "w\n")+1)) {
		t.Errorf("ends with %q", out[len(out)-60:])
	}
}

// A file that is much larger than memory should be is read all the same.
func TestReadHuge(t *testing.T) {
	b := newBench(t, map[string]string{"huge": "first\n"})
	f, err := os.OpenFile(b.path("huge"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	block := []byte(strings.Repeat("x", 1<<20))
	for range 4 { // one line of 4 MB, and more lines than are counted
		f.Write(block)
	}
	f.WriteString("\n")
	lines := []byte(strings.Repeat("0123456789abcde\n", 1<<16))
	for range 70 {
		f.Write(lines)
	}
	f.Close()
	r := b.ok("read", object{"file_path": "huge", "limit": 3})
	if !strings.HasSuffix(r.Output, "     3\t0123456789abcde\n\n(lines 1 to 3; there are more: go on with offset 4)\n") || len(r.Output) > 5000 {
		t.Errorf("%d bytes: ends with %q", len(r.Output), r.Output[max(0, len(r.Output)-100):])
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ok("read", object{"file_path": "huge", "offset": 4_000_000, "limit": 1})
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d bytes of memory to read one line", n)
	}
	p := b.mustPlan("read", object{"file_path": "huge"})
	if r := p.Run(over(t), nil); r.Error == "" {
		t.Error("reads after the end of its context")
	}
}

func TestReadImage(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n\x00\x01\x02"
	b := newBench(t, map[string]string{
		"a.png": png, "b": "\xff\xd8\xff\xe0jpeg", "c": "GIF89a...", "d": "RIFF\x10\x00\x00\x00WEBPVP8 ", "e": "RIFF\x10\x00\x00\x00WAVE",
		"big.png": png + strings.Repeat("x", maxImage),
	})
	for name, mime := range map[string]string{"a.png": "image/png", "b": "image/jpeg", "c": "image/gif", "d": "image/webp"} {
		r := b.ok("read", object{"file_path": name})
		data, err := base64.StdEncoding.DecodeString(r.Output)
		if err != nil || string(data) != b.get(name) || r.Type != "image" {
			t.Errorf("%s: %+v", name, r)
		}
		if want := fmt.Sprintf(`{"file_path":%q,"mime":%q}`, name, mime); string(r.Metadata) != want {
			t.Errorf("%s: %s, want %s", name, r.Metadata, want)
		}
	}
	b.fails("read", object{"file_path": "e"}, "binary")
	b.fails("read", object{"file_path": "big.png"}, "more than the 3750000 that a model can be shown")
}

func TestCut(t *testing.T) {
	lines := strings.Repeat("0123456789\n", 100)
	got := Cut(lines, 110)
	if want := strings.Repeat("0123456789\n", 5) + "\n[… 1001 bytes (91 lines) left out]\n" + strings.Repeat("0123456789\n", 4); got != want {
		t.Errorf("got %q", got)
	}
	for _, s := range []string{lines, strings.Repeat("é", 500), strings.Repeat("日本", 400) + "\n", "\n" + strings.Repeat("x", 1000), strings.Repeat("\n", 1000)} {
		for limit := 1; limit < 200; limit++ {
			got := Cut(s, limit)
			if len(got) > limit+60 || !utf8.ValidString(got) || !strings.Contains(got, "left out]") {
				t.Fatalf("limit %d: %q", limit, got)
			}
		}
		if Cut(s, len(s)) != s || Cut(s, 0) != s {
			t.Error("it cut what need not be cut")
		}
	}
	whole := strings.Repeat("a\n", 30) + note(5000, 10, "/x/output-1.txt") + strings.Repeat("b\n", 30)
	if got := Cut(whole, 40); !strings.Contains(got, "all of it is in /x/output-1.txt]") {
		t.Errorf("the file is gone: %q", got)
	}
}
