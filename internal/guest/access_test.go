package guest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/tool"
)

func TestAccesses(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := &Session{space: tool.OpenWorkspace(dir)}
	for _, c := range []struct {
		tool, kind, input string
		more              []string
		want              string
	}{
		{"Bash", "", `{"command":"go test ./... && rm x"}`, nil, "bash go test ./...; bash rm x; edit x"},
		{"run_shell_command", "", `{"command":"ls","directory":"/etc"}`, nil, "bash ls; outside /etc"},
		{"", "execute", `{"command":["sh","-c","rm -rf x"]}`, nil, "bash sh -c 'rm -rf x'; bash rm -rf x; edit x"},
		{"", "execute", `{}`, nil, "bash ?"},
		{"", "execute", `{"command":7}`, nil, "bash ?"},
		{"Read", "", `{"file_path":"` + dir + `/a.txt"}`, nil, "read a.txt"},
		{"Write", "", `{"file_path":"link/passwd","content":"x"}`, nil, "edit /etc/passwd; outside /etc/passwd"},
		{"", "edit", `{"filepath":"a","diff":"…"}`, []string{"b", "a"}, "edit a; edit b"},
		{"", "edit", `{}`, nil, "edit ?"},
		{"", "delete", `{"path":"../up"}`, nil, "edit " + filepath.Join(filepath.Dir(real(t, dir)), "up") + "; outside " + filepath.Join(filepath.Dir(real(t, dir)), "up")},
		{"Grep", "", `{"pattern":"x"}`, nil, "grep ."},
		{"mcp__github__list", "", `{"a":1}`, nil, `github_list {"a":1}`},
		{"WebFetch", "", `{"url":"https://x.test/"}`, nil, "WebFetch https://x.test/"},
		{"Agent", "", `{"description":"look"}`, nil, "task look"},
		{"FromTomorrow", "other", `{"x":1}`, nil, `FromTomorrow {"x":1}`},
		{"", "", ``, nil, "unknown *"},
		{"Bash", "", `not JSON`, nil, "bash ?"},
	} {
		var got []string
		for _, a := range s.accesses(c.tool, c.kind, event.Raw(c.input), c.more...) {
			target := a.Target
			if a.Opaque {
				target = "?"
			}
			got = append(got, a.Permission+" "+target)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s %s %s:\n got %s\nwant %s", c.tool, c.kind, c.input, text, c.want)
		}
	}
}

func real(t *testing.T, dir string) string {
	p, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What a program writes is taken, whether or not anybody has time to look at it; noise only up to a bound; and a line that is
// too long loses its end, not the lines behind it.
func TestSpoolTakesWhatComes(t *testing.T) {
	var s spool
	s.more = sync.NewCond(&s.mu)
	out, noise := &splitter{to: &s}, &splitter{to: &s, noise: true}
	line := bytes.Repeat([]byte("x"), 1<<20)
	for range 32 { // nobody takes any of it
		out.Write(line)
		out.Write([]byte("\n"))
	}
	for i := range 1000 {
		fmt.Fprintf(noise, "%d %s\n", i, line[:4000])
	}
	out.Write([]byte("last"))
	out.flush()
	s.put(word{})
	lines, heard := 0, 0
	for {
		w, _ := s.take()
		if w.line == nil {
			break
		}
		switch {
		case w.noise:
			heard += len(w.line)
			if len(w.line) > noiseLine || len(w.line) == noiseLine && !w.torn {
				t.Fatalf("a line of noise has %d bytes", len(w.line))
			}
		case w.torn:
			if string(w.line) != "last" {
				t.Errorf("%q is torn", w.line[:10])
			}
		default:
			lines++
		}
	}
	if lines != 32 || heard > noiseSize+noiseLine {
		t.Errorf("%d lines, %d bytes of noise", lines, heard)
	}
}
