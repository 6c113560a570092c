package git

import (
	"io/fs"
	"syscall"
)

// noBlock keeps a pipe that stands in a file's place from holding us up.
const noBlock = syscall.O_NONBLOCK

func statOf(info fs.FileInfo) stat {
	s := stat{mtime: info.ModTime().UnixNano(), size: info.Size()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ctime = sys.Ctim.Nano()
	}
	return s
}
