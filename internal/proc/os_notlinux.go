//go:build unix && !linux

package proc

import (
	"os/exec"
	"syscall"
)

func setAttributes(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

const adopts = false

func adoptOrphans() {}

func markOf(int) string { return "" }

func send(e entry, kill bool) { sendGroup(e, kill) }

// Nobody's orphans come to us.

func reap(int) {}

func orphans() ([]entry, bool) { return nil, false }
