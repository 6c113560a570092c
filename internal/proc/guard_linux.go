package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The guard is this program once more, in a session of its own and with nothing of ours but the end of a pipe. When the pipe
// closes we are dead. Then it kills what is left of us, and ends. It is started right behind the first process, which does not
// wait for it; who starts nothing has none.

// guardWord is the first argument of our program when it is the guard.
const guardWord = "__guard"

// guardLine is the guard's end of the pipe, as it finds it.
const guardLine = 3

// guard is the one that we have. The house is locked.
var guard struct {
	wanted bool
	cmd    *exec.Cmd
	line   *os.File // our end of the pipe
	told   string   // what was last written to it
}

// Guard is among the first things that a program does if what it starts may not outlive it, not even if it is killed without
// warning. If it was called to be the guard, it is that and does not return. The program calls dismiss when it ends.
func Guard() (dismiss func()) {
	if len(os.Args) == 3 && os.Args[1] == guardWord {
		keepGuard(os.Args[2])
		os.Exit(0)
	}
	house.Lock()
	defer house.Unlock()
	guard.wanted = true
	return dismissGuard
}

// dismissGuard ends the guard without a trace, unless somebody has left a group open: then there is work for it.
func dismissGuard() {
	house.Lock()
	defer house.Unlock()
	guard.wanted = false
	if house.guard != 0 && len(house.groups) == 0 {
		endGuard()
	}
}

func endGuard() {
	guard.cmd.Process.Kill()
	guard.cmd.Wait()
	guard.line.Close()
	house.guard = 0
}

// postGuard starts the guard if one is wanted and there is none. A program that cannot have one works as well, and tries again.
// The house is locked.
func postGuard() {
	if !guard.wanted || house.guard != 0 {
		return
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return
	}
	defer theirs.Close()
	guard.cmd = &exec.Cmd{
		Path:        "/proc/self/exe", // another one may stand in its place by now
		Args:        []string{os.Args[0], guardWord, program()},
		Dir:         "/",
		Env:         []string{"GOMAXPROCS=1"}, // it mostly waits
		ExtraFiles:  []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if outer := os.Getenv(Mark); outer != "" { // our marks would make it one of those that it kills
		guard.cmd.Env = append(guard.cmd.Env, Mark+"="+outer)
	}
	if err := guard.cmd.Start(); err != nil {
		ours.Close()
		return
	}
	guard.line, guard.told = ours, "\n"
	house.guard = guard.cmd.Process.Pid
}

// tellGuard tells who has been given to us, as a process that writes its title over its environment does not show its mark.
// The house is locked.
func tellGuard(orphans []entry) {
	if house.guard == 0 {
		return
	}
	const whole = 4096 // what a pipe takes in one piece or not at all
	var line []byte
	for _, e := range orphans {
		if e.start < house.since { // it was there before the first group
			continue
		}
		word := fmt.Sprintf("%d:%d ", e.pid, e.start)
		if len(line)+len(word) >= whole {
			break
		}
		line = append(line, word...)
	}
	line = append(line, '\n')
	if string(line) == guard.told {
		return
	}
	conn, err := guard.line.SyscallConn()
	if err != nil {
		return
	}
	conn.Write(func(fd uintptr) bool {
		if n, _ := syscall.Write(int(fd), line); n == len(line) {
			guard.told = string(line)
		}
		return true // if it does not read, it is told another time
	})
}

// keepGuard is the guard's life.
func keepGuard(id string) {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	closeInherited()
	told := ""
	lines := bufio.NewScanner(os.NewFile(guardLine, "guard"))
	for lines.Scan() {
		told = lines.Text()
	}
	if lines.Err() != nil {
		return
	}
	look := charges(id, told)
	for range 5 { // each takes two seconds at most, and one finds nothing
		if len(sweep(-1, look)) == 0 {
			return
		}
	}
}

// closeInherited closes what somebody had open who started Sluice, a lock for instance. What was opened in here would not have
// survived an exec.
func closeInherited() {
	files, _ := os.ReadDir("/proc/self/fd")
	for _, f := range files {
		fd, _ := strconv.Atoi(f.Name())
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 && fd > guardLine {
			unix.Close(fd)
		}
	}
}

// charges returns a look at what is alive of a dead program: what has its mark, who was told of, their descendants, and the
// sessions that these began. A look is always in doubt, since a process that becomes another program shows no mark in that
// moment.
func charges(id, told string) func() ([]entry, bool) {
	named := strings.Fields(told)
	sessions := map[int]bool{} // are ours
	return func() ([]entry, bool) {
		table, err := processes()
		if err != nil {
			return nil, false
		}
		c := newCatch(table)
		members := map[int][]entry{} // by session
		for _, e := range table {
			if e.dead {
				continue
			}
			members[e.session] = append(members[e.session], e)
			if sessions[e.session] || slices.Contains(named, fmt.Sprintf("%d:%d", e.pid, e.start)) || hasMark(e.pid, id) {
				c.take(e)
			}
		}
		for i := 0; i < len(c.list); i++ { // it grows
			e := c.list[i]
			if all := members[e.session]; !sessions[e.session] && eldest(all) == e {
				sessions[e.session] = true
				for _, m := range all {
					c.take(m)
				}
			}
		}
		return c.list, true
	}
}

// hasMark says whether a process has a mark of the program with this id: it, or the run that it is in.
func hasMark(pid int, id string) bool {
	for m := range strings.SplitSeq(markOf(pid), ",") {
		if strings.HasPrefix(m, id+".") {
			return true
		}
	}
	return false
}

// eldest is who began a session, or the one who is next to that. A server that works for many, each with its own environment,
// is not ours because a child of it has our mark.
func eldest(session []entry) entry {
	return slices.MinFunc(session, func(a, b entry) int {
		switch {
		case a.pid == a.session:
			return -1
		case b.pid == b.session:
			return 1
		}
		return int(int64(a.start) - int64(b.start))
	})
}
