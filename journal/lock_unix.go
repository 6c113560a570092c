//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package journal

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock takes the journal for this open file. The system gives it back when the process dies. Closing the file would not be
// enough: a child process that is just being started has it open too, until it becomes another program. Whoever only wants to
// know whether it is taken ([Hold]) has it for a moment: that is waited for.
func lock(f *os.File) (release func(), err error) {
	for tries := 0; ; tries++ {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }, nil
		case errors.Is(err, syscall.EWOULDBLOCK) && tries < 20:
			time.Sleep(5 * time.Millisecond)
		case errors.Is(err, syscall.EWOULDBLOCK):
			return nil, locked(f.Name())
		case err != syscall.EINTR:
			return nil, fmt.Errorf("journal: cannot lock %s: %w", f.Name(), err)
		}
	}
}
