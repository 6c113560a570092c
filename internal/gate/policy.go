package gate

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// A Policy is what is allowed. The zero Policy asks about everything, and denies what is [Protected].
type Policy struct {
	Mode  string       // empty means default
	Rules []event.Rule // the later wins, but a deny always does; those of Protected need not be among them
	Home  string       // what ~ in rules and commands stands for; empty: itself

	// Own reads the rules of a face that have a law of their own, and returns the one that counts for an access, or nil. It
	// stands before Rules as if it were the only one, so a deny elsewhere wins over it all the same.
	Own func(Access) *event.Rule
}

// A Decision is what a policy says of a call.
type Decision struct {
	Action string      // Allow, Ask or Deny
	By     event.By    // who decided; empty when it must be asked
	Rule   *event.Rule // that decided, if one did
	Access Access      // the one that decided: the first that is denied, else the first that must be asked, else the first
	Asked  []Access    // all that must be asked about
	Of     []string    // targets: of all accesses that have that one's permission and came out as it did
	Reason string      // one line, for model and person; empty when it is allowed
	Hints  []string    // of what must be asked: the rules that would allow it, as in bash(go test *)
}

// Decide says whether a call with these accesses may pass.
func (p Policy) Decide(accesses []Access) Decision { return p.decide(accesses, nil) }

// decide is Decide with what was always allowed before.
func (p Policy) decide(accesses []Access, always func(Access, *event.Rule) bool) Decision {
	out := Decision{Action: Allow, By: event.ByMode}
	var asked []Access
	of := map[string][]string{} // action and permission → targets
	for i, a := range accesses {
		d := p.one(a)
		if d.Action == Ask && always != nil && always(a, d.Rule) {
			d = Decision{Action: Allow, By: event.ByAlways, Access: a}
		}
		if d.Action == Ask {
			asked = append(asked, a)
		}
		key := d.Action + " " + a.Permission
		if !(a.Implied && d.Action == Allow) {
			of[key] = append(of[key], a.Target)
		}
		if i == 0 || weight(d) > weight(out) {
			out = d
		}
	}
	out.Of = of[out.Action+" "+out.Access.Permission]
	if out.Action == Ask {
		out.Asked = asked
		for _, a := range asked {
			if h := hint(a); !slices.Contains(out.Hints, h) {
				out.Hints = append(out.Hints, h)
			}
		}
	}
	return out
}

// weight orders decisions: the heaviest of a call's accesses is the call's.
func weight(d Decision) int {
	switch {
	case d.Action == Deny:
		return 3
	case d.Action == Ask:
		return 2
	case !d.Access.Implied:
		return 1
	}
	return 0
}

// Event tells a decision that needed no question. The header is the caller's.
func (d Decision) Event(tool string, input event.Raw) event.Body {
	a := event.GateAnswer{
		Tool: tool, Permission: d.Access.told(), Patterns: d.Of, Input: input,
		Rule: d.Rule, Reason: d.Reason, By: d.By,
	}
	if d.Action == Allow {
		return event.GateAllowed(a)
	}
	return event.GateDenied(a)
}

// one decides about one access.
func (p Policy) one(a Access) Decision {
	var last *event.Rule
	for r := range p.speaking(a) {
		if r.Action == Deny {
			return Decision{Action: Deny, By: event.ByRule, Rule: &r, Access: a, Reason: "denied by the rule " + RuleText(r) + ": " + about(a)}
		}
		last = &r
	}
	switch {
	case p.Mode == ModeYolo:
		return Decision{Action: Allow, By: event.ByMode, Access: a}
	case last != nil && last.Action == Allow:
		return Decision{Action: Allow, By: event.ByRule, Rule: last, Access: a}
	case last != nil:
		return Decision{Action: Ask, Rule: last, Access: a, Reason: "the rule " + RuleText(*last) + " asks: " + about(a)}
	case a.Implied:
		return Decision{Action: Allow, By: event.ByMode, Access: a}
	case p.Mode == ModeAutoEdit && !a.Opaque && a.Permission != Outside && (a.Class == event.ClassInfo || a.Class == event.ClassEdit):
		return Decision{Action: Allow, By: event.ByMode, Access: a}
	}
	return Decision{Action: Ask, Access: a, Reason: "no rule allows it: " + about(a)}
}

// speaking yields the rules that speak of an access: the protected ones, the face's own, and then the policy's.
func (p Policy) speaking(a Access) iter.Seq[event.Rule] {
	return func(yield func(event.Rule) bool) {
		tell := func(rules []event.Rule) bool {
			for _, r := range rules {
				if matches(r, a, p.Home) && !yield(r) {
					return false
				}
			}
			return true
		}
		if !tell(Protected()) {
			return
		}
		if p.Own != nil {
			if r := p.Own(a); r != nil && !yield(*r) {
				return
			}
		}
		tell(p.Rules)
	}
}

// about says in a few words what an access is.
func about(a Access) string {
	s := a.Permission
	if a.Target != "" {
		s += " " + clip(a.Target)
	}
	if a.Opaque && a.Why != "" {
		s += " (" + a.Why + ")"
	}
	return s
}

// clip shortens what is shown in a sentence.
func clip(s string) string {
	const limit = 200
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}

// hint is the narrowest rule that a person would write to allow an access.
func hint(a Access) string {
	switch {
	case a.Opaque || a.Target == "" || a.Class == event.ClassMCP: // nobody writes down all arguments of a call
		return a.Permission
	case a.Permission == "bash":
		return ruleText("bash", commandHint(a.Target))
	}
	return ruleText(a.Permission, a.Target)
}

// commandHint keeps a command's name and what it was told to do: go test ./... gives go test *.
func commandHint(command string) string {
	words := strings.Split(command, " ")
	keep := words[:1]
	if len(words) > 1 && plainWord(words[1]) && slices.Contains(twoWords, words[0]) {
		keep = words[:2]
	}
	return strings.Join(keep, " ") + " *"
}

// twoWords are commands whose second word says what they do.
var twoWords = []string{"git", "go", "npm", "pnpm", "yarn", "cargo", "make", "docker", "kubectl", "pip", "gh", "bundle", "mvn", "gradle", "terraform", "dotnet", "uv", "poetry", "bun", "deno"}

func plainWord(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r == '-' || r == '_' || r == ':' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	}) < 0 && s[0] != '-'
}

// ParseMode reads a mode as people type it.
func ParseMode(s string) (string, error) {
	switch s {
	case ModeDefault, ModeAutoEdit, ModeYolo:
		return s, nil
	case "":
		return ModeDefault, nil
	}
	return "", fmt.Errorf("no mode is called %q: write default, auto_edit or yolo", s)
}
