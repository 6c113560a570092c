//go:build unix

package tool

import (
	"io/fs"
	"syscall"
)

// noBlock keeps a pipe that was put in a file's place from holding us up.
const noBlock = syscall.O_NONBLOCK

// ownerOf says whose file it is.
func ownerOf(info fs.FileInfo) (uid, gid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(s.Uid), int(s.Gid), true
}
