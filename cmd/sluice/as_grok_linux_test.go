package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// A long answer in little pieces: memory is that of the text, not of its square. We look when the first part of the line has
// come: the rest does not fit into the pipe, so the program is there. (What it is said to have used when it is over begins with
// what we use, who started it.)
func TestGrokMemoryDoesNotGrowWithTheSquare(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `{chunk: 4, steps: [{text: "`+strings.Repeat("All work and no play. ", 9_000)+`"}]}`)
	most := 0 // kB
	g.start(func(r *run, in *os.File) []byte {
		begin := make([]byte, 32<<10)
		n, _ := io.ReadFull(in, begin)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
		_, line, _ := bytes.Cut(status, []byte("VmHWM:"))
		if _, bad := fmt.Sscan(string(line), &most); bad != nil {
			r.Error(err, bad)
		}
		return append(begin[:n], readAll(r, in)...)
	})
	g.wait()
	g.ended(0)
	if most > 256<<10 { // with the race detector in it; the square of it would be gigabytes
		t.Errorf("it used %d kB of memory", most)
	}
	if n := len(g.one("text")["text"].(string)); n != 9_000*22 {
		t.Errorf("%d bytes of text", n)
	}
}
