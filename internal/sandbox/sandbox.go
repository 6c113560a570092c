// Package sandbox keeps commands inside what they need: they write only to the workspace, cannot read the user's keys, and
// have no network unless it is allowed.
//
// Bubblewrap is the first choice. It gives a command a file system, a process table and a network of its own:
//
//	/                                    read-only
//	the workspace, what is writable      as they are
//	.git/hooks, .git/config, .sluice     read-only, also when what is around them is renamed
//	/tmp, /var/tmp, TMPDIR               a folder of this run
//	/run, hidden places                  empty; this takes the sockets of daemons away as well
//	/proc                                only the command and what it started; read-only
//	network                              a loopback interface that nobody else is on
//
// Landlock is the second choice, for a machine without bubblewrap: the program calls itself, lays rules on itself that nobody
// can take off, and becomes the command. It can allow and not except: so .git/hooks stays writable with the workspace. It knows
// TCP, but neither UDP nor the sockets of daemons; and it guards what is in a file, not its permissions. [Sandbox.Enforced]
// says so.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A Mode says what to do on a machine that has no good sandbox.
type Mode string

const (
	Auto    Mode = "auto"    // take what there is
	Require Mode = "require" // fail, if not everything can be enforced
	Off     Mode = "off"
)

// A Plan is what commands may do.
type Plan struct {
	Workspace string   // the folder they work in, and may write to
	Writable  []string // other places that they may write to
	Readable  []string // places that they may read although they are in a hidden one
	Hidden    []string // places that they may not read: see [KeyPlaces]
	Network   bool     // they may use it
}

// A Sandbox wraps commands. The zero value has no walls.
type Sandbox struct {
	plan  Plan
	home  string // folder of what follows
	temp  string // what they see instead of the temporary folder
	empty string // what they see instead of a hidden file
	self  string // our program, which lays Landlock's rules on itself
	able  Capability
	kind  kind
	why   string // there is no better one
}

type kind int

const (
	none kind = iota
	bubblewrap
	landlock
)

// A Capability is what a machine can do.
type Capability struct {
	Bubblewrap string // where it is; empty: it cannot be used
	Landlock   int    // version of its interface; 0: there is none
	Why        string // bubblewrap cannot be used
}

// Detect finds out what this machine can do, once. Bubblewrap is tried with a command that does nothing: to be installed is
// not enough where namespaces are forbidden.
var Detect = sync.OnceValue(func() Capability {
	c := Capability{Landlock: landlockVersion()}
	c.Bubblewrap, c.Why = findBubblewrap()
	return c
})

// Open makes a sandbox. It is the best that the machine has, or, if only the best is good enough, an error that says what is
// missing. Close removes its temporary folder.
func Open(m Mode, p Plan) (*Sandbox, error) {
	switch m {
	case Off:
		return &Sandbox{why: "it is off"}, nil
	case Auto, Require:
		return open(m, p, Detect())
	}
	return nil, fmt.Errorf("there is no sandbox mode %q: use auto, require or off", m)
}

func open(m Mode, p Plan, c Capability) (*Sandbox, error) {
	p, err := p.resolved()
	if err != nil {
		return nil, err
	}
	s := &Sandbox{plan: p, able: c, why: c.Why}
	if _, inside := below(p.Workspace, follow(c.Bubblewrap)); c.Bubblewrap != "" && inside {
		s.able.Bubblewrap, s.why = "", "bubblewrap in PATH is the workspace's own"
	}
	switch {
	case s.able.Bubblewrap != "":
		s.kind = bubblewrap
	case m == Require:
		return nil, fmt.Errorf("there is no sandbox: %s; install bubblewrap, or take what there is with auto", s.why)
	case c.Landlock >= oldestLandlock:
		s.kind = landlock
		if s.self, err = os.Executable(); err != nil {
			return nil, err
		}
	default:
		s.why += "; " + noLandlock(c.Landlock)
		return s, nil
	}
	if err := s.furnish(); err != nil {
		s.Close()
		return nil, fmt.Errorf("the sandbox has no temporary folder: %w", err)
	}
	return s, nil
}

func (s *Sandbox) furnish() (err error) {
	// Paths go into mounts and rules, which follow no links.
	if s.home, err = os.MkdirTemp(follow(os.TempDir()), "sluice-box-"); err != nil {
		return err
	}
	s.temp, s.empty = filepath.Join(s.home, "tmp"), filepath.Join(s.home, "empty")
	if err := os.Mkdir(s.temp, 0o700); err != nil {
		return err
	}
	return os.WriteFile(s.empty, nil, 0o400)
}

// resolved makes paths absolute and free of links.
func (p Plan) resolved() (Plan, error) {
	if p.Workspace == "" {
		return p, errors.New("the sandbox has no workspace")
	}
	p.Workspace = follow(p.Workspace)
	for _, list := range []*[]string{&p.Writable, &p.Readable, &p.Hidden} {
		paths := make([]string, 0, len(*list))
		for _, path := range *list {
			if path != "" {
				paths = append(paths, follow(path))
			}
		}
		*list = paths
	}
	return p, nil
}

// Close removes what the sandbox made. No command may run any more.
func (s *Sandbox) Close() error {
	if s.home == "" {
		return nil
	}
	return os.RemoveAll(s.home)
}

// Wrap returns the command line that runs args in the sandbox.
func (s *Sandbox) Wrap(args []string) []string {
	switch s.kind {
	case bubblewrap:
		return s.bubblewrapped(args)
	case landlock:
		return s.landlocked(args)
	}
	return args
}

// Enforced says in one sentence what is really enforced, and what is not.
func (s *Sandbox) Enforced() string {
	switch s.kind {
	case bubblewrap:
		net := "have no network"
		if s.plan.Network {
			net = "may use the network"
		}
		return "sandbox bubblewrap: commands write only to the workspace and a temporary folder, cannot read key files, cannot change git's hooks and configuration, see no other process, and " + net
	case landlock:
		return fmt.Sprintf("sandbox landlock %d (%s): commands write only to the workspace and a temporary folder, and cannot read key files; %s; git's hooks and the permissions of files are not protected",
			s.able.Landlock, s.why, strings.Join(s.landlockLimits(), "; "))
	}
	why := s.why
	if why == "" {
		why = "nobody asked for one"
	}
	return fmt.Sprintf("no sandbox (%s): commands can do what this user can", why)
}
