package proc

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	defaultGrace = 500 * time.Millisecond
	sweepTime    = 2 * time.Second // for what is killed to be gone
)

// house is what this program started, over all groups. While it is locked nothing is started, so that a look at the system's
// table never shows a child that is not yet known here.
var house = struct {
	sync.Mutex
	groups   map[*Group]bool
	started  map[int]*Process // by pid, until it was waited for
	sessions map[int]*Process // by session, until nothing descends from it or its group is closed
	since    uint64           // when the first one was started
	looks    int              // how often somebody looked who may be forgotten
	guard    int              // the pid of the one that nobody counts; 0: there is none
}{groups: map[*Group]bool{}, started: map[int]*Process{}, sessions: map[int]*Process{}}

func register(p *Process) error {
	house.Lock()
	defer house.Unlock()
	adoptOrphans()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.proc, p.pid = p.cmd.Process, p.cmd.Process.Pid
	pid := p.pid
	if house.since == 0 {
		house.since = startOf(pid)
	}
	house.groups[p.group] = true
	house.started[pid] = p
	house.sessions[pid] = p
	postGuard()
	return nil
}

func unregister(p *Process) {
	house.Lock()
	defer house.Unlock()
	delete(house.started, p.Pid())
	list, whole := orphans()
	forget(list, whole)
	postGuard() // somebody may have killed the one before
	tellGuard(list)
}

// forget drops the sessions of those that have ended and left nobody behind: a run that goes on for days starts many. What a
// dead process left behind is given to us, so it is among the orphans. Since a list that is read while processes end can miss
// one, somebody is forgotten at the second look; and nobody while there is an orphan that tells nothing of itself.
func forget(orphans []entry, whole bool) {
	heirs := map[*Process]bool{}
	for _, e := range orphans {
		if p := ownerOf(e); p != nil || e.start >= house.since {
			heirs[p] = true
		}
	}
	if !whole || heirs[nil] {
		return
	}
	house.looks++
	for sid, p := range house.sessions {
		switch {
		case house.started[p.pid] == p || heirs[p]:
			p.alone = 0
		case p.alone == 0:
			p.alone = house.looks
		case p.alone < house.looks:
			delete(house.sessions, sid)
		}
	}
}

// An entry is a line of the system's table of processes.
type entry struct {
	pid, parent, session int
	start                uint64 // with the pid it names a process for good
	dead                 bool   // it waits only to be waited for
	dying                bool   // it is on its way there and needs no help
}

// Kill ends the process and its descendants, and returns when they are gone: TERM, the group's grace, KILL. A descendant that
// has both left the session and wiped its environment is found only while its parent lives, and else when the group is closed.
func (p *Process) Kill() {
	sweep(p.group.Grace, func() ([]entry, bool) { return left(p.group, p) })
}

// Kill kills all that runs now, without grace. It may be called while Close waits for those that were asked to end.
func (g *Group) Kill() {
	sweep(-1, func() ([]entry, bool) { return left(g, nil) })
}

// Close kills what is left of the group, and returns when it is gone. It lists what it had to kill: pid and command line.
// Nothing can be started any more. A second Close finds nothing.
func (g *Group) Close() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.starts == nil {
		g.closed = true
		return nil
	}
	g.closed = true
	killed := sweep(g.Grace, func() ([]entry, bool) { return left(g, nil) })
	close(g.starts)
	closeAll(slices.Collect(maps.Keys(g.ours)))
	leave(g)
	return killed
}

// leave forgets a group, when the last of its dead have left the table.
func leave(g *Group) {
	enough := time.After(sweepTime)
	for _, p := range running(g) {
		select {
		case <-p.gone:
		case <-enough:
		}
	}
	house.Lock()
	defer house.Unlock()
	delete(house.groups, g)
	for sid, p := range house.sessions {
		if p.group == g {
			delete(house.sessions, sid)
		}
	}
}

func running(g *Group) (list []*Process) {
	house.Lock()
	defer house.Unlock()
	for _, p := range house.started {
		if p.group == g {
			list = append(list, p)
		}
	}
	return list
}

// sweep kills what look shows until it twice shows nothing: a table that is read while processes fork and end can miss one.
// While look is in doubt about somebody's process, it looks a few times more.
func sweep(grace time.Duration, look func() (list []entry, doubt bool)) []string {
	if grace == 0 {
		grace = defaultGrace
	}
	var (
		told   []string
		known  = map[entry]int{} // where it stands in told
		kill   = grace < 0
		mercy  = time.Now().Add(grace)
		limit  time.Time
		wait   = time.Millisecond
		silent = 0
	)
	for {
		now := time.Now()
		kill = kill || now.After(mercy)
		if kill && limit.IsZero() {
			limit, wait = now.Add(sweepTime), time.Millisecond
		}
		list, doubt := look()
		if len(list) == 0 {
			if silent++; silent >= 2 && !doubt || silent == 10 {
				return told
			}
			if doubt {
				time.Sleep(time.Millisecond)
			}
			continue
		}
		silent = 0
		for _, e := range list {
			dying := e.dying
			e.parent, e.session, e.dying = 0, 0, false // they change
			_, met := known[e]
			if !met {
				if dying {
					continue
				}
				known[e] = len(told)
				told = append(told, strings.TrimSpace(fmt.Sprintf("%d %s", e.pid, commandLine(e.pid))))
			}
			if kill || !met {
				send(e, kill)
			}
			if kill && now.After(limit) {
				told[known[e]] += " (still there)"
			}
		}
		if kill && now.After(limit) {
			return told
		}
		time.Sleep(wait)
		wait = min(2*wait, 20*time.Millisecond)
	}
}

// left lists what is alive of a group, or of one of its processes. It is in doubt if there is an orphan that tells nothing of
// itself, as a process does in the moments when it becomes another program or ends.
func left(g *Group, only *Process) (list []entry, doubt bool) {
	house.Lock()
	defer house.Unlock()
	table, err := processes()
	if err != nil {
		return bySession(g, only), false
	}
	var (
		self    = os.Getpid()
		session = sessionOf(self)
		c       = newCatch(table)
	)
	for _, e := range table {
		switch {
		case e.session == session || e.pid == self || e.pid == house.guard:
		case e.parent == self && e.dead && house.started[e.pid] == nil:
			reap(e.pid)
		case e.parent == self:
			p := ownerOf(e)
			if p.in(g, only) || p == nil && only == nil && unclaimed(e, g) {
				c.take(e)
			} else if p == nil {
				doubt = true
			}
		case !adopts && house.sessions[e.session].in(g, only): // orphans are given to somebody else; where they come to us, this may be a stranger whose session got an old number
			c.take(e)
		}
	}
	return c.list, doubt
}

// A catch is processes with all that descends from them.
type catch struct {
	list   []entry // who of them is alive
	taken  map[int]bool
	behind map[int][]entry // the table, by parent
}

func newCatch(table []entry) *catch {
	c := &catch{taken: map[int]bool{os.Getpid(): true}, behind: map[int][]entry{}}
	for _, e := range table {
		c.behind[e.parent] = append(c.behind[e.parent], e)
	}
	return c
}

func (c *catch) take(e entry) {
	if c.taken[e.pid] {
		return
	}
	c.taken[e.pid] = true
	if !e.dead {
		c.list = append(c.list, e)
	}
	for _, child := range c.behind[e.pid] {
		c.take(child)
	}
}

func (p *Process) in(g *Group, only *Process) bool {
	return p != nil && p.group == g && (only == nil || p == only)
}

// ownerOf says which process an entry descends from: by its session, else by its mark. A session that is known by a mark stays
// known.
func ownerOf(e entry) *Process {
	if p := house.sessions[e.session]; p != nil {
		return p
	}
	for m := range strings.SplitSeq(markOf(e.pid), ",") {
		for _, p := range house.sessions {
			if m == p.mark {
				house.sessions[e.session] = p
				return p
			}
		}
	}
	return nil
}

// unclaimed says whether the last open group may take an orphan that nobody knows: not if this process had it before its first
// group, as one does that was a shell before it became us.
func unclaimed(e entry, g *Group) bool {
	return house.groups[g] && len(house.groups) == 1 && e.start >= house.since
}

// oneLine makes a command line, its arguments divided by NULs, fit to be told.
func oneLine(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return s
}
