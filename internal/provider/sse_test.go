package provider

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestSSE(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	for name, tt := range map[string]struct {
		in   string
		want []string // name|data
		err  error
	}{
		"one":                      {in: "event: a\ndata: 1\n\n", want: []string{"a|1"}},
		"no name":                  {in: "data: 1\n\ndata: 2\n\n", want: []string{"|1", "|2"}},
		"the name is not kept":     {in: "event: a\ndata: 1\n\ndata: 2\n\n", want: []string{"a|1", "|2"}},
		"no space":                 {in: "event:a\ndata:1\n\n", want: []string{"a|1"}},
		"one space is not data":    {in: "data:  1\n\n", want: []string{"| 1"}},
		"CRLF":                     {in: "event: a\r\ndata: 1\r\n\r\n", want: []string{"a|1"}},
		"comments":                 {in: ": hello\n\n:\ndata: 1\n: more\n\n", want: []string{"|1"}},
		"more lines":               {in: "data: 1\ndata\ndata: 2\n\n", want: []string{"|1\n\n2"}},
		"empty data":               {in: "data\n\n", want: []string{"|"}},
		"a name without data":      {in: "event: ping\n\ndata: 1\n\n", want: []string{"|1"}},
		"id and retry":             {in: "id: 1\nretry: 100\ndata: 1\n\n", want: []string{"|1"}},
		"a field of tomorrow":      {in: "colour: red\ndata: 1\n\n", want: []string{"|1"}},
		"byte order mark":          {in: "\ufeffdata: 1\n\n", want: []string{"|1"}},
		"colons":                   {in: "data: a: b:c\n\n", want: []string{"|a: b:c"}},
		"long":                     {in: "event: l\ndata: " + long + "\n\ndata: 2\n\n", want: []string{"l|" + long, "|2"}},
		"no empty line at the end": {in: "data: 1\n\ndata: 2\n", want: []string{"|1", "|2"}},
		"cut in a line":            {in: "data: 1\n\ndata: 2", want: []string{"|1"}},
		"nothing":                  {in: ""},
		"a page":                   {in: "<html>\n<body>oops: no</body>\n", err: errNotSSE},
		"JSON":                     {in: "{\"error\":{\"message\":\"no\"}}\n", err: errNotSSE},
		"a word":                   {in: "data: 1\n\noops\n\n", want: []string{"|1"}, err: errNotSSE},
	} {
		t.Run(name, func(t *testing.T) {
			for chunking, r := range map[string]io.Reader{"whole": strings.NewReader(tt.in), "by byte": iotest.OneByteReader(strings.NewReader(tt.in))} {
				if chunking == "by byte" && len(tt.in) > 1000 {
					continue
				}
				s := newSSE(r)
				var got []string
				var err error
				for {
					var n, d []byte
					if n, d, err = s.next(); err != nil {
						break
					}
					got = append(got, string(n)+"|"+string(d))
				}
				want := tt.err
				if want == nil {
					want = io.EOF
				}
				if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, want) {
					t.Errorf("%s: error %v, want %v; %s", chunking, err, want, diff)
				}
			}
		})
	}
}

// A read error comes after the events that were whole before it.
func TestSSEBroken(t *testing.T) {
	broken := errors.New("broken")
	s := newSSE(io.MultiReader(strings.NewReader("data: 1\n\ndata: 2\n"), iotest.ErrReader(broken)))
	if _, d, err := s.next(); string(d) != "1" || err != nil {
		t.Fatalf("%s, %v", d, err)
	}
	if _, d, err := s.next(); !errors.Is(err, broken) {
		t.Errorf("%s, %v", d, err)
	}
}

// A server that never ends a line, or an event, does not fill the memory.
func TestSSEEndless(t *testing.T) {
	for name, r := range map[string]io.Reader{
		"a line":  io.MultiReader(strings.NewReader("data: "), endless("x")),
		"a block": endless("data: " + strings.Repeat("x", 1<<20) + "\n"),
	} {
		if _, d, err := newSSE(r).next(); !errors.Is(err, errLong) {
			t.Errorf("%s: %d bytes, %v", name, len(d), err)
		}
	}
}

func endless(s string) io.Reader {
	chunk := bytes.Repeat([]byte(s), max(1, (64<<10)/len(s)))
	rest := chunk
	return readerFunc(func(p []byte) (int, error) {
		if len(rest) == 0 {
			rest = chunk
		}
		n := copy(p, rest)
		rest = rest[n:]
		return n, nil
	})
}

// Events cost no memory of their own.
func TestSSEAllocates(t *testing.T) {
	s := newSSE(endless("event: content_block_delta\ndata: {\"type\":\"content_block_delta\"}\n\n"))
	if _, _, err := s.next(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if _, _, err := s.next(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}
