package proc

import (
	"golang.org/x/sys/unix"
)

// processes reads the table of processes.
func processes() ([]entry, error) {
	table, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	list := make([]entry, 0, len(table))
	for _, k := range table {
		e := entry{pid: int(k.Proc.P_pid), parent: int(k.Eproc.Ppid), dead: k.Proc.P_stat == zombie}
		e.session = sessionOf(e.pid)
		e.start = uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec)
		list = append(list, e)
	}
	return list, nil
}

const zombie = 5 // SZOMB

func startOf(pid int) uint64 {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0
	}
	return uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec)
}

// commandLine says what it is.
func commandLine(pid int) string {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return ""
	}
	return oneLine(unix.ByteSliceToString(k.Proc.P_comm[:]))
}

func sessionOf(pid int) int {
	sid, _ := unix.Getsid(pid)
	return sid
}
