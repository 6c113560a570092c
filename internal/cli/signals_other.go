//go:build !unix

package cli

import "os"

func ignoreSignals() {}

var stopSignals = []os.Signal{os.Interrupt}

func signalCode(os.Signal) (code int, name string) { return 130, "an interrupt" }
