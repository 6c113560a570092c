//go:build unix

package proc

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// drain reads what is in the pipe now, and says whether it has ended. It reads no more than a pipe can hold, since there may be
// somebody who goes on writing.
func drain(f *os.File, buf []byte, write func([]byte)) (ended bool) {
	conn, err := f.SyscallConn()
	if err != nil {
		return true
	}
	conn.Control(func(fd uintptr) {
		for rest := 1 << 20; rest > 0; {
			n, err := syscall.Read(int(fd), buf)
			switch {
			case err == syscall.EINTR:
			case err != nil:
				ended = err != syscall.EAGAIN
				return
			case n == 0:
				ended = true
				return
			default:
				write(buf[:n])
				rest -= n
			}
		}
	})
	return ended
}

// bySession lists process groups, where there is no table of processes.
func bySession(g *Group, only *Process) (list []entry) {
	for sid, p := range house.sessions {
		if p.in(g, only) && unix.Kill(-sid, 0) == nil {
			list = append(list, entry{pid: -sid})
		}
	}
	return list
}

func sendGroup(e entry, kill bool) {
	if kill {
		unix.Kill(e.pid, unix.SIGKILL)
		return
	}
	unix.Kill(e.pid, unix.SIGTERM)
	unix.Kill(e.pid, unix.SIGCONT) // one that is stopped cannot die
}

// setTerminal makes its stdin the terminal of the session that the process opens.
func setTerminal(c *exec.Cmd) { c.SysProcAttr.Setctty = true }
