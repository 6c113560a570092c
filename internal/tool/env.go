package tool

import (
	"slices"
	"strings"
)

// Secret says whether an environment variable of this name looks as if its value should stay with us.
func Secret(name string) bool {
	name = strings.ToUpper(name)
	for _, part := range []string{"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY", "CREDENTIAL", "_TOKEN_"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	for _, word := range []string{"TOKEN", "PAT", "PSW", "PWD", "PASS", "AUTH", "KEY"} {
		if strings.HasSuffix(name, "_"+word) {
			return true
		}
	}
	return name == "TOKEN"
}

// unattended makes programs behave that expect a person: no pagers, no editors, no questions, no colours. CI is not among
// them: it makes package managers refuse to change their lock files.
var unattended = []string{
	"TERM=dumb", "NO_COLOR=1", "PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "SYSTEMD_PAGER=cat", "GH_PAGER=cat",
	"GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=true", "GIT_ASKPASS=", "SSH_ASKPASS=", "SSH_ASKPASS_REQUIRE=never", "DEBIAN_FRONTEND=noninteractive",
}

// Environment makes the environment for commands out of ours: without what looks secret, but for the names in keep.
func Environment(ours []string, keep ...string) []string {
	var env []string
	for _, kv := range ours {
		name, _, _ := strings.Cut(kv, "=")
		if name == "" || Secret(name) && !slices.Contains(keep, name) || slices.ContainsFunc(unattended, func(s string) bool { return strings.HasPrefix(s, name+"=") }) {
			continue
		}
		env = append(env, kv)
	}
	return append(env, unattended...)
}
