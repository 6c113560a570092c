package sandbox

import (
	"encoding/json"
	"fmt"
)

// oldestLandlock is the first version that keeps a command from cutting files short that it may not write to.
const oldestLandlock = 3

// Versions from which on Landlock can do more.
const (
	landlockTCP     = 4
	landlockSignals = 6
)

func noLandlock(version int) string {
	if version == 0 {
		return "the kernel has no Landlock"
	}
	return fmt.Sprintf("the kernel's Landlock is version %d, and %d is needed", version, oldestLandlock)
}

// landlockLimits says what is enforced only in part.
func (s *Sandbox) landlockLimits() (list []string) {
	switch {
	case s.plan.Network:
		list = append(list, "they may use the network")
	case s.able.Landlock >= landlockTCP:
		list = append(list, "TCP is cut off, but not UDP and local sockets")
	default:
		list = append(list, "the network is not cut off")
	}
	if s.able.Landlock < landlockSignals {
		list = append(list, "they may kill other processes")
	}
	return list
}

// enterWord is the first argument of our program when it is to become a command.
const enterWord = "__sandbox"

// rules are what the program lays on itself.
type rules struct {
	Version int      // of Landlock
	Write   []string // and read
	Read    []string // although it is in a hidden place
	Hidden  []string
	Temp    string
	Network bool
}

func (s *Sandbox) landlocked(args []string) []string {
	p := s.plan
	git, _ := repository(p.Workspace)
	r := rules{Version: s.able.Landlock, Temp: s.temp, Network: p.Network, Read: p.Readable}
	r.Write = append(append(append(r.Write, p.Workspace, s.temp), p.Writable...), git...)
	r.Hidden = append(append(r.Hidden, p.Hidden...), temporary(p.Workspace)...)
	text, _ := json.Marshal(r) // strings cannot fail
	return append([]string{s.self, enterWord, string(text), "--"}, args...)
}
