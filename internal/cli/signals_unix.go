//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// ignoreSignals leaves it to the write to say that the reader has gone, or that the file may not grow.
func ignoreSignals() { signal.Ignore(syscall.SIGPIPE, syscall.SIGXFSZ) }

// stopSignals end a run.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

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
