package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

func setAttributes(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// adopts says that orphans are given to us.
const adopts = true

// adoptOrphans makes this process the one that descendants are given to whose parent is gone.
var adoptOrphans = sync.OnceFunc(func() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })

// processes reads the table of processes.
func processes() ([]entry, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	list := make([]entry, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if e, ok := readEntry(pid); ok {
				list = append(list, e)
			}
		}
	}
	if len(list) == 0 {
		return nil, errors.New("proc: /proc is empty")
	}
	return list, nil
}

const exiting = 4 // PF_EXITING

func readEntry(pid int) (e entry, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return e, false
	}
	// The name stands in brackets and may hold anything; what follows the last one is plain.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return e, false
	}
	e.pid = pid
	e.parent, _ = strconv.Atoi(fields[1])
	e.session, _ = strconv.Atoi(fields[3])
	e.start, _ = strconv.ParseUint(fields[19], 10, 64)
	// A process whose first thread has ended looks dead while others run.
	alone := fields[17] == "1"
	flags, _ := strconv.ParseUint(fields[6], 10, 64)
	e.dead = (fields[0] == "Z" || fields[0] == "X") && alone
	e.dying = flags&exiting != 0 && alone
	return e, true
}

func startOf(pid int) uint64 {
	e, _ := readEntry(pid)
	return e.start
}

// commandLine says what it is.
func commandLine(pid int) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if len(data) == 0 {
		data, _ = os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	}
	return oneLine(string(bytes.TrimRight(data, "\x00\n")))
}

func sessionOf(pid int) int {
	sid, _ := unix.Getsid(pid)
	return sid
}

// markOf returns what stands in the environment that the process began with.
func markOf(pid int) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for kv := range bytes.SplitSeq(data, []byte{0}) {
		if isMark(string(kv)) {
			return string(kv[len(Mark)+1:])
		}
	}
	return ""
}

// send sends TERM or KILL to exactly this process, not to a later one of the same number.
func send(e entry, kill bool) {
	if e.pid < 0 {
		sendGroup(e, kill)
		return
	}
	fd, err := unix.PidfdOpen(e.pid, 0)
	if errors.Is(err, unix.ENOSYS) {
		fd = -1
	} else if err != nil {
		return
	} else {
		defer unix.Close(fd)
	}
	if now, ok := readEntry(e.pid); !ok || now.start != e.start {
		return
	}
	deliver := func(s syscall.Signal) {
		if fd < 0 {
			unix.Kill(e.pid, s)
		} else {
			unix.PidfdSendSignal(fd, s, nil, 0)
		}
	}
	if kill {
		deliver(unix.SIGKILL)
		return
	}
	deliver(unix.SIGTERM)
	deliver(unix.SIGCONT) // one that is stopped cannot die
}

// orphans lists the children of ours that we did not start, and reaps those that have ended, so that they do not fill the table
// while a run goes on. They are given to our first thread, which lives as long as we do. One in our session is left alone:
// somebody may wait for it. The list is not whole if it could not be read. The house is locked.
func orphans() (list []entry, whole bool) {
	if house.guard != 0 {
		if e, ok := readEntry(house.guard); !ok || e.dead { // somebody killed it
			endGuard()
		}
	}
	self := os.Getpid()
	session := sessionOf(self)
	data, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", self))
	for _, word := range strings.Fields(string(data)) {
		pid, _ := strconv.Atoi(word)
		e, ok := readEntry(pid)
		switch {
		case !ok || e.session == session || house.started[pid] != nil || pid == house.guard:
		case e.dead:
			reap(pid)
		default:
			list = append(list, e)
		}
	}
	return list, err == nil
}

// reap takes the last word of an orphan, so that it leaves the table.
func reap(pid int) { unix.Wait4(pid, nil, unix.WNOHANG, nil) }
