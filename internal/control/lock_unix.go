//go:build unix

package control

import (
	"errors"
	"os"
	"syscall"
)

// lock keeps others from making the same socket, as long as this process lives.
func lock(path string) (unlock func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			f.Close()
			return nil, errServed
		case errors.Is(err, syscall.EINTR):
			f.Close()
			continue
		case err != nil:
			f.Close()
			return nil, err
		}
		ours, err := f.Stat()
		if there, serr := os.Lstat(path); err == nil && serr == nil && os.SameFile(ours, there) {
			return func() {
				os.Remove(path) // before it is free: whoever waits for it sees that it is gone
				syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
				f.Close()
			}, nil
		}
		f.Close() // its owner took it away as we came
	}
}
