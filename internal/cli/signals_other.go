//go:build !unix

package cli

import "os"

func ignoreSignals() {}

func stopSignals() []os.Signal { return []os.Signal{os.Interrupt} }

func signalCode(os.Signal) (code int, name string) { return 130, "an interrupt" }
