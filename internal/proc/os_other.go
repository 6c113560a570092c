//go:build !unix

package proc

import (
	"errors"
	"os"
	"os/exec"
)

func setAttributes(*exec.Cmd) {}

func setTerminal(*exec.Cmd) {}

const adopts = false

func adoptOrphans() {}

func processes() ([]entry, error) { return nil, errors.ErrUnsupported }

func startOf(int) uint64 { return 0 }

func commandLine(int) string { return "" }

func sessionOf(int) int { return 0 }

func markOf(int) string { return "" }

func reap(int) {}

func orphans() ([]entry, bool) { return nil, false }

// bySession lists the processes that were started and have not ended.
func bySession(g *Group, only *Process) (list []entry) {
	for pid, p := range house.started {
		if p.in(g, only) {
			list = append(list, entry{pid: pid})
		}
	}
	return list
}

func send(e entry, _ bool) {
	house.Lock()
	defer house.Unlock()
	if p := house.started[e.pid]; p != nil {
		p.proc.Kill()
	}
}

// drain is not needed: no pipe has deadlines here.
func drain(*os.File, []byte, func([]byte)) bool { return true }
