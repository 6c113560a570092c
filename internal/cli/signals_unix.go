//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// ignoreSignals leaves it to the write to say that the reader has gone, or that the file may not grow. The signals are caught
// and thrown away: a signal that is ignored would be ignored by every command that the agent runs as well.
//
// QUIT, which a key sends, ends whoever does not listen to it, as it does elsewhere. Left to Go it would print every stack, and exit
// as if a server were busy.
func ignoreSignals() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGXFSZ)
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	go func() {
		code, _ := signalCode(<-quit)
		os.Exit(code)
	}()
}

// stopSignals end a run; HUP does not, if nohup told us not to hear it. INT always does: a shell has its background jobs not
// hear it, and whoever sends it to one of them means it. QUIT is taken over from [ignoreSignals].
func stopSignals() []os.Signal {
	signal.Reset(syscall.SIGQUIT)
	list := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
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
	case syscall.SIGQUIT:
		return 131, "SIGQUIT"
	}
	return 130, "SIGINT"
}
