package mcp

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
)

// builtin are the tools that come with Sluice, whatever a run has of them: a test holds this to the truth.
var builtin = []string{"read", "write", "edit", "bash", "bash_output", "glob", "grep", "todo", "task", "skill"}

// nameLimit is what every provider takes.
const nameLimit = 64

// A namer gives tools names: server_tool, in letters, digits, - and _, each only once. A name is what rules are written
// against, so no server can have one that speaks for another: of the servers git and git_hub, a tool hub_push of the first
// would be git_hub_push, which the rule git_hub_* is not meant for. It is git_hub-push.
type namer struct {
	taken    map[string]bool // in small letters
	prefixes []string        // of all servers
}

func newNamer(servers []Server, reserved []string) *namer {
	n := &namer{taken: map[string]bool{}}
	for _, r := range reserved {
		n.taken[strings.ToLower(r)] = true
	}
	for _, s := range servers {
		n.prefixes = append(n.prefixes, clean(s.Name)+"_")
	}
	slices.Sort(n.prefixes)
	return n
}

func (n *namer) name(server, tool string) string {
	own := clean(server) + "_"
	name := []byte(own + clean(tool))
	for again := true; again; {
		again = false
		for _, p := range n.prefixes {
			if len(p) > len(own) && strings.HasPrefix(string(name), p) {
				name[len(p)-1] = '-'
				again = true
			}
		}
	}
	if len(name) > nameLimit {
		mark := fmt.Sprintf("_%x", sha256.Sum256([]byte(server+"\x00"+tool)))[:7]
		name = append(name[:nameLimit-len(mark)], mark...)
	}
	unique := string(name)
	for i := 2; n.taken[strings.ToLower(unique)]; i++ {
		suffix := fmt.Sprintf("_%d", i)
		unique = string(name[:min(len(name), nameLimit-len(suffix))]) + suffix
	}
	n.taken[strings.ToLower(unique)] = true
	return unique
}

// clean puts an underline in the place of whatever a tool's name cannot have.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
	if s == "" {
		return "_"
	}
	return s
}
