//go:build !unix

package cli

func ignoreSignals() {}
