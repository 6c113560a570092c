//go:build unix

package cli

import (
	"os/signal"
	"syscall"
)

// ignoreSignals leaves it to the write to say that the reader has gone, or that the file may not grow.
func ignoreSignals() { signal.Ignore(syscall.SIGPIPE, syscall.SIGXFSZ) }
