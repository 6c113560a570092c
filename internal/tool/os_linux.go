package tool

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// folderPath names an open folder, so that a process can begin in it, whatever is renamed meanwhile.
func folderPath(dir *os.File, _ string) string { return fmt.Sprintf("/proc/self/fd/%d", dir.Fd()) }

// limitMemory bounds what a process may ask for, without what it only reserves.
func limitMemory(pid int, bytes uint64) {
	unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes}, nil)
}
