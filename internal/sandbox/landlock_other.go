//go:build !linux

package sandbox

func landlockVersion() int { return 0 }

// Enter is the first thing that the program does, where it may be called to become a command in a sandbox.
func Enter() {}
