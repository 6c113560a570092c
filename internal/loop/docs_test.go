package loop

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/fold"
)

// Every example of the document is what it says it is.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile("../../docs/loops.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, m := range regexp.MustCompile("(?ms)^```([a-z ]+)\n(.*?)^```$").FindAllStringSubmatch(string(data), -1) {
		kind, text := m[1], m[2]
		seen[kind]++
		dir := t.TempDir()
		write := func(name string) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			return path
		}
		switch kind {
		case "yaml", "json", "toml":
			_, err = Load(write("loop." + kind))
		case "markdown":
			_, err = LoadWorkflow(write("ship.md"))
		case "text markers", "text none":
			for line := range strings.Lines(text) {
				if is := fold.Directive(line).Word != ""; is != (kind == "text markers") {
					t.Errorf("%q: %s", line, kind)
				}
			}
		default:
			t.Errorf("nobody tests %s", kind)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	if len(seen) != 6 {
		t.Error(seen)
	}
	for _, reason := range []string{EndTurn, Exit, Abort, MaxIterations, PhaseFailure, Timeout, Cancelled} {
		if !strings.Contains(string(data), "| `"+reason+"` |") {
			t.Errorf("nothing is said of %s", reason)
		}
	}
	for name := range fieldsOf(Data{}) {
		if !strings.Contains(string(data), "`."+name+"`") {
			t.Errorf("nothing is said of .%s", name)
		}
	}
}
