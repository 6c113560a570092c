package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// longLine is a line of about 1.4 KB, most of it one string; shortLine one of about 120 bytes.
type longLine struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Time    time.Time       `json:"time"`
	Text    string          `json:"text"`
	Model   string          `json:"model,omitempty"`
	Usage   usage           `json:"usage"`
	Input   json.RawMessage `json:"input,omitempty"`
	Done    bool            `json:"done"`
	Session string          `json:"session"`
}

type usage struct {
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
}

type shortLine struct {
	Type  string  `json:"type"`
	ID    string  `json:"id"`
	Index int     `json:"index"`
	Delta string  `json:"delta"`
	Score float64 `json:"score"`
}

func long(i int) longLine {
	var text strings.Builder
	for n := 0; text.Len() < 1024; n++ {
		fmt.Fprintf(&text, "line %d of a file, as the model read it and wrote it back\n", n*i)
		if n%3 == 0 {
			text.WriteString("\tfmt.Println(\"hello\")\n")
		}
	}
	return longLine{
		Type: "assistant", ID: fmt.Sprintf("msg_%024d", i), Text: text.String(), Model: "some-model-2026",
		Time:    time.Date(2026, 8, 22, 10, 11, 12, i%1000*1e6, time.UTC),
		Usage:   usage{1200 + i, 30},
		Input:   json.RawMessage(fmt.Sprintf(`{"command":"go test ./...","timeout":%d,"env":["A=1","B=2"]}`, i)),
		Session: "8b1f5a1e-6a3e-4d0c-9a44-5a1f0c6d7e21",
	}
}

func short(i int) shortLine {
	return shortLine{"content_delta", fmt.Sprintf("msg_%024d", i), i, "some few words of text", 0.25}
}

var bench = []struct {
	name  string
	lines [][]byte
	size  int
	fresh func() any
	value any
}{
	bench1("long", long), bench1("short", short),
}

func bench1[T any](name string, make func(int) T) (c struct {
	name  string
	lines [][]byte
	size  int
	fresh func() any
	value any
}) {
	c.name, c.fresh, c.value = name, func() any { return new(T) }, make(7)
	for i := range 256 {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(make(i)); err != nil {
			panic(err)
		}
		line := bytes.TrimSpace(b.Bytes())
		c.lines = append(c.lines, line)
		c.size += len(line)
	}
	return c
}

// each runs f once per line; a loop of the benchmark is one line of mean length.
func each(b *testing.B, f func(b *testing.B, line []byte, fresh func() any)) {
	for _, c := range bench {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(c.size / len(c.lines)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				f(b, c.lines[i%len(c.lines)], c.fresh)
			}
		})
	}
}

func BenchmarkValid(b *testing.B) {
	each(b, func(b *testing.B, line []byte, _ func() any) {
		if !Valid(line) {
			b.Fatal("not valid")
		}
	})
}

func BenchmarkValidStd(b *testing.B) {
	each(b, func(b *testing.B, line []byte, _ func() any) {
		if !json.Valid(line) {
			b.Fatal("not valid")
		}
	})
}

func BenchmarkParse(b *testing.B) {
	var d Doc
	each(b, func(b *testing.B, line []byte, _ func() any) {
		if err := d.Parse(line); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkUnmarshal(b *testing.B) {
	each(b, func(b *testing.B, line []byte, fresh func() any) {
		if err := Unmarshal(line, fresh()); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkUnmarshalStd(b *testing.B) {
	each(b, func(b *testing.B, line []byte, fresh func() any) {
		if err := json.Unmarshal(line, fresh()); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range bench {
		b.Run(c.name, func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst = Append(dst[:0], c.value)
			}
			b.SetBytes(int64(len(dst)))
		})
	}
}

func BenchmarkAppendStd(b *testing.B) {
	for _, c := range bench {
		b.Run(c.name, func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = json.Marshal(c.value)
			}
			b.SetBytes(int64(len(dst)))
		})
	}
}

// What agents read and print most: source code, and the output of tests.
func quotable(b *testing.B) map[string]string {
	code, err := os.ReadFile("quote.go")
	if err != nil {
		b.Fatal(err)
	}
	return map[string]string{
		"code":   string(code),
		"output": strings.Repeat("ok  \tgithub.com/example/pkg/sub\t0.012s\n--- PASS: TestSomething (0.00s)\n\t\"quoted\" output\n", 50),
		"prose":  strings.Repeat("The quick brown fox jumps over the lazy dog – and then it sleeps. ", 50),
	}
}

func BenchmarkUnquote(b *testing.B) {
	for name, text := range quotable(b) {
		lit := AppendString(nil, text)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(lit)))
			for b.Loop() {
				Unquote(lit)
			}
		})
	}
}

func BenchmarkQuote(b *testing.B) {
	for name, text := range quotable(b) {
		dst := AppendString(nil, text)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				dst = AppendString(dst[:0], text)
			}
		})
	}
}
