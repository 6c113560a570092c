//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// lock takes the journal by a file beside it. A writer that was killed leaves that file behind; its content says whose it is.
func lock(f *os.File) (release func(), err error) {
	path := f.Name() + ".lock"
	l, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	for tries := 0; errors.Is(err, fs.ErrExist) && tries < 20; tries++ { // it may be held for a moment only
		time.Sleep(5 * time.Millisecond)
		l, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("journal: %s: %w (%s has its process id; remove that file if the process is gone)", f.Name(), ErrLocked, path)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: cannot lock %s: %w", f.Name(), err)
	}
	fmt.Fprintln(l, os.Getpid())
	l.Close()
	return func() { os.Remove(path) }, nil
}
