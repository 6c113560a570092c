//go:build unix

package plain

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Nobody writes to the pipe: reading it would wait for ever.
func TestPipe(t *testing.T) {
	root, dir := tree(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(root, "pipe", 8); err == nil || !strings.Contains(err.Error(), "not a plain file") {
		t.Errorf("%q %v", data, err)
	}
}
