package journal

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestFollowPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f := follow(t, path, FollowOptions{})
	w, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
	f.must(err)
	w.WriteString("a\nb")
	f.want("a")
	w.WriteString("c\nd")
	f.want("bc")
	f.must(w.Close())
	f.want("d")
	if h, open := <-f.lines; open {
		t.Error("after the end:", h)
	}

	// Nobody writes, and somebody who says nothing.
	for _, flag := range []int{0, os.O_RDWR} {
		if flag != 0 {
			w, err := os.OpenFile(path, flag, 0)
			f.must(err)
			defer w.Close()
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Millisecond, cancel)
		for line, err := range Follow(ctx, path, FollowOptions{}) {
			t.Errorf("%q, %v", line, err)
		}
	}
	for line, err := range Follow(t.Context(), "/dev/null", FollowOptions{}) {
		t.Errorf("%q, %v", line, err)
	}
}
