//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// ignoreSignals leaves it to the write to say that the reader has gone, or that the file may not grow. The signals are caught
// and thrown away: a signal that is ignored would be ignored by every command that the agent runs as well.
func ignoreSignals() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGXFSZ) }

// stopSignals end a run, but for those that whoever started us, nohup for one, has told us not to hear.
func stopSignals() []os.Signal {
	list := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			list = append(list, s)
		}
	}
	return list
}

// signalCode is the exit code of a process that a signal ended, and the signal's name.
func signalCode(s os.Signal) (code int, name string) {
	switch s {
	case syscall.SIGTERM:
		return 143, "SIGTERM"
	case syscall.SIGHUP:
		return 129, "SIGHUP"
	}
	return 130, "SIGINT"
}
