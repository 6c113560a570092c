package main

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// narrow makes a pipe hold no more than a page.
func narrow(t *testing.T, pipe *os.File) {
	if _, err := unix.FcntlInt(pipe.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
}
