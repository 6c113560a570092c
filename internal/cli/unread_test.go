package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/journal"
)

// A reader who never reads cannot hold a run that is over for ever: the journal has its end, and the exit code says which.
func TestUnreadRunEnds(t *testing.T) {
	defer func(was time.Duration) { patience = was }(patience)
	patience = 200 * time.Millisecond
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Chdir(home)
	plot := "steps: [{text: \"" + string(bytes.Repeat([]byte("a line of text "), 20_000)) + "\"}]"
	if err := os.WriteFile("plot.yaml", []byte(plot), 0o600); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() // and nobody ever reads from it
	defer w.Close()
	var errs bytes.Buffer
	code := Run(t.Context(), []string{"run", "--session-id", "s", "--model", "script/plot.yaml", "--timeout", "300ms", "--format", "native", "go"}, IO{In: bytes.NewReader(nil), Out: w, Err: &errs})
	if code != 124 {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	last, err := journal.Last(filepath.Join(home, "sluice", "sessions", "s", "journal.ndjson"))
	if err != nil || last.Kind != "run.failed" {
		t.Errorf("the journal ends in %s: %v", last.Kind, err)
	}
}
