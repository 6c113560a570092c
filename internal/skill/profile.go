package skill

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/internal/plain"
	"github.com/sluice-dev/sluice/internal/spell"
)

const (
	maxProfiles = 64
	maxProfile  = 64 << 10
)

// A Profile says who an agent is: a file NAME.md whose text is what the model is told first.
type Profile struct {
	Name        string
	Description string
	Model       string   // provider/name; empty: whichever would be taken without the profile
	Tools       []string // that it has; none: all
	Allow       []string // rules, as people type them
	Ask         []string
	Deny        []string
	Prompt      string
	Location    string
	Trusted     bool // it is the user's own, or the user trusts it with this content
}

// profileKeys are the keys that count.
var profileKeys = []string{"name", "description", "model", "tools", "allow", "ask", "deny"}

// Profiles looks for profiles in the folders .sluice/agents from the workspace up, and in the user's own. One of the repository
// that the user does not trust cannot allow anything, and cannot bring its own scripted model: both are left out, and that
// is a problem to be told.
func Profiles(o Options) (list []Profile, problems []error) {
	s := search{options: o}
	taken := map[string]bool{}
	s.each("agents", []string{".sluice"}, func(at place, e os.DirEntry) {
		name, ok := strings.CutSuffix(e.Name(), ".md")
		if !ok || taken[name] || e.IsDir() {
			return
		}
		p, err := at.profile(e.Name(), name, o.Trusted)
		if err != nil {
			s.problem(p.Location, err)
			return
		}
		if !s.room(maxProfiles, "profiles", p.Location) {
			return
		}
		if left := p.tame(); len(left) > 0 {
			s.problem(p.Location, fmt.Errorf("it is not trusted, so it cannot say %s: sluice trust %s", strings.Join(left, " and "), plain.Name(p.Location)))
		}
		taken[name] = true
		list = append(list, p)
	})
	return list, s.problems
}

// profile reads one.
func (p place) profile(file, name string, trusted func(string, []byte) bool) (Profile, error) {
	out := Profile{Name: name, Location: filepath.Join(p.folder(), file)}
	data, err := plain.Read(p.root, filepath.Join(p.sub, file), maxProfile)
	if errors.Is(err, os.ErrNotExist) {
		return out, errors.New("it is gone")
	}
	if err != nil {
		return out, err
	}
	f, err := readFront(data)
	if err != nil {
		return out, err
	}
	for _, key := range slices.Sorted(maps.Keys(f.values)) {
		// Other programs have more keys. But a mistyped deny would let something pass.
		if near := spell.Nearest(key, profileKeys); near != "" && near != key {
			return out, fmt.Errorf("there is no key %q: is %s meant?", shorten(key), near)
		}
	}
	out.Description = f.text("description")
	out.Model = f.text("model")
	out.Tools = f.list("tools", ",")
	out.Allow, out.Ask, out.Deny = f.list("allow", ""), f.list("ask", ""), f.list("deny", "")
	f.checkName(name)
	if out.Description == "" {
		f.fail(errors.New("it has no description"))
	}
	if f.err != nil {
		return out, f.err
	}
	out.Description = clip(out.Description)
	_, out.Prompt, err = cut(data)
	out.Trusted = p.ours || trusted != nil && trusted(out.Location, data)
	return out, err
}

// tame takes away what only a trusted profile may say, and tells what that was.
func (p *Profile) tame() (left []string) {
	if p.Trusted {
		return nil
	}
	if len(p.Allow) > 0 {
		p.Allow, left = nil, append(left, "allow")
	}
	if strings.HasPrefix(p.Model, "script/") {
		p.Model, left = "", append(left, "model = script/…")
	}
	return left
}
