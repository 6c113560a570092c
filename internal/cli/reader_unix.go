//go:build unix

package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// watchReader calls gone when nobody reads what is written to a pipe or a socket. Without it a run whose model says nothing
// for a while would not know. release ends the watch.
func watchReader(w io.Writer, gone func()) (release func()) {
	f, ok := w.(*os.File)
	if !ok {
		return func() {}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return func() {}
	}
	fd := int32(f.Fd())
	over := make(chan struct{})
	go func() {
		for {
			const beat = 200 // milliseconds until over is looked at
			poll := []unix.PollFd{{Fd: fd}}
			n, err := unix.Poll(poll, beat)
			select {
			case <-over:
				return
			default:
			}
			switch {
			case err != nil && err != unix.EINTR, n > 0 && poll[0].Revents&unix.POLLNVAL != 0:
				return
			case n > 0 && poll[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
				gone()
				return
			}
		}
	}()
	return func() { close(over) }
}
