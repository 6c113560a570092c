// Package skill finds what people wrote for agents to use: skills (SKILL.md), which a model or a prompt calls by name, and
// profiles, which say who an agent is.
//
//	workspace ─▶ … ─▶ top of the repository ─▶ home        the nearest one of a name wins
//
// Only names and descriptions are read when they are looked for; a skill's text is read when it is called. All of this may be
// somebody else's: a repository's skills came with the repository. So nothing is read through a link that leads out of the
// repository, everything is bounded, and what is malformed is a problem to be told, never a reason to stop.
package skill

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/internal/pattern"
	"github.com/sluice-dev/sluice/internal/plain"
)

const (
	maxSkills      = 100       // of a repository, and as many of the user
	maxLooks       = 500       // names that are looked at, good and bad; likewise
	maxFile        = 256 << 10 // of a SKILL.md
	maxName        = 64
	maxDescription = 1024 // runes; what is more is cut, since every request carries it
)

// Options say where to look. An empty folder is not looked into.
type Options struct {
	Workspace string // folder that the agent works in
	Top       string // top folder of its repository; empty: only the workspace is looked into
	Home      string // the user's home, for what other programs keep there
	Config    string // Sluice's own folder in the user's configuration

	// Trusted says whether the user trusts a file of the repository with this content. Nil means that none is. It is for
	// profiles: see [Profiles].
	Trusted func(path string, data []byte) bool
}

// A Skill is a folder with a SKILL.md.
type Skill struct {
	Name        string
	Description string         // what it is for
	Version     string         // as it was written; may be empty
	More        map[string]any // keys of the frontmatter that are none of the above
	Dir         string         // its folder
	Location    string         // its SKILL.md

	root string // folder that no link may lead out of
	file string // SKILL.md, from there
	real string // the folder once links are followed
}

// Find looks for skills. The problems are one line each and name the file.
func Find(o Options) (list []Skill, problems []error) {
	s := search{options: o}
	taken := map[string]bool{}
	s.each("skills", []string{".sluice", ".claude", ".agents"}, func(at place, e os.DirEntry) {
		if taken[e.Name()] || e.Type().IsRegular() {
			return
		}
		found, err := at.skill(e.Name())
		switch {
		case errors.Is(err, errNone):
		case err != nil:
			s.problem(found.Location, err)
		case s.room(maxSkills, "skills", found.Location):
			taken[found.Name] = true
			list = append(list, found)
		}
	})
	return list, s.problems
}

// errNone says that a folder is no skill, and does not mean to be one.
var errNone = errors.New("none")

// skill reads what stands before the text of a SKILL.md.
func (p place) skill(name string) (Skill, error) {
	s := Skill{
		Name: name, Dir: filepath.Join(p.folder(), name), Location: filepath.Join(p.folder(), name, "SKILL.md"),
		root: p.root.Name(), file: filepath.Join(p.sub, name, "SKILL.md"),
	}
	head, err := plain.Head(p.root, s.file, maxFile, maxFront)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := p.root.Stat(filepath.Join(p.sub, name)); err == nil {
			return s, errNone
		}
		return s, errors.New("its folder is a link that leads nowhere")
	}
	if err != nil {
		if p.linked(name) {
			return s, errNone
		}
		return s, err
	}
	front, err := readFront(head)
	if err != nil {
		return s, err
	}
	s.Description = front.text("description")
	s.Version = front.version()
	s.More = front.others("name", "description", "version")
	front.checkName(name)
	if s.Description == "" {
		front.fail(errors.New("it has no description: models choose by it"))
	}
	if front.err != nil {
		return s, front.err
	}
	s.Description = clip(s.Description)
	if s.real, err = filepath.EvalSymlinks(s.Dir); err != nil {
		return s, errors.New("its folder cannot be found any more")
	}
	return s, nil
}

var goodName = pattern.Lazy(`^[a-z0-9-]+$`)

// checkName says what is wrong with the name. Left out, it is that of the folder or file.
func (f *front) checkName(place string) {
	name := cmp.Or(f.text("name"), place)
	switch {
	case !goodName().MatchString(name) || len(name) > maxName:
		f.fail(fmt.Errorf("the name %q is not one: small letters, digits and dashes, %d at most", shorten(name), maxName))
	case name != place:
		f.fail(fmt.Errorf("it is named %s but stands at %q: they must be the same", name, shorten(place)))
	}
}

func shorten(s string) string {
	if len(s) > maxName {
		return strings.ToValidUTF8(s[:maxName], "") + "…"
	}
	return s
}

// clip makes one line of a description, not longer than it may be.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) <= maxDescription {
		return s
	}
	return string([]rune(s)[:maxDescription-1]) + "…"
}

// Text reads what the skill says: its SKILL.md as it is now, without the frontmatter.
func (s Skill) Text() (string, error) {
	if s.root == "" {
		return "", fmt.Errorf("the skill %s has no file", s.Name)
	}
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return "", err
	}
	defer root.Close()
	data, err := plain.Read(root, s.file, maxFile)
	if err != nil {
		return "", fmt.Errorf("%s: %w", plain.Name(s.Location), err)
	}
	_, body, err := cut(data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", plain.Name(s.Location), err)
	}
	return body, nil
}
