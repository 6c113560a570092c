package cli

import (
	"context"
	"io"
	"strings"
	"testing"
)

// zeros are as many of them as somebody reads.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A line ends with a newline, whatever else is in it; what is too long is known as such, and does not take the next one along.
func TestCommandsAreReadByLine(t *testing.T) {
	in := io.MultiReader(
		strings.NewReader("a\u2028b\r\n\n  \r\n\xff\n"), io.LimitReader(zeros{}, commandLimit+1<<20), strings.NewReader("\nlast"),
	)
	out := make(chan []byte)
	go readCommands(context.Background(), in, out)
	var got []string
	for line := range out {
		if line == nil {
			line = []byte("too long")
		}
		got = append(got, string(line))
	}
	if text := strings.Join(got, "|"); text != "a\u2028b|\xff|too long|last" {
		t.Errorf("%q", text)
	}
}

func TestVersioned(t *testing.T) {
	for address, want := range map[string]string{
		"": "", "http://h": "http://h/v1", "http://h/": "http://h/v1", "http://h/v1": "http://h/v1", "http://h/v1/": "http://h/v1/",
		"http://h/api/v4": "http://h/api/v4", "http://h/openai": "http://h/openai/v1", "http://h/v1beta": "http://h/v1beta", "nonsense": "nonsense",
	} {
		if got := versioned(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}
