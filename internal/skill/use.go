package skill

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Invoke is what a model is told when it calls the skill, or when a prompt does: where its files are, and its text with the
// arguments. They stand where the text says $ARGUMENTS, or else after it.
func (s Skill) Invoke(args string) (string, error) {
	text, err := s.Text()
	if err != nil {
		return "", err
	}
	args = strings.TrimSpace(args)
	if strings.Contains(text, "$ARGUMENTS") {
		text = strings.ReplaceAll(text, "$ARGUMENTS", args)
	} else if args != "" {
		text += "\n\nArguments: " + args
	}
	return fmt.Sprintf("Skill %s; the files that it names are in %s\n\n%s", s.Name, s.Dir, text), nil
}

// Expand expands a prompt that begins with a slash and the name of a skill. Any other prompt is returned as it is, and used is
// nil. An error is one of reading the skill.
func Expand(prompt string, skills []Skill) (text string, used *Skill, err error) {
	rest, ok := strings.CutPrefix(prompt, "/")
	if !ok {
		return prompt, nil, nil
	}
	name, args := rest, ""
	if i := strings.IndexAny(rest, " \t\r\n"); i >= 0 {
		name, args = rest[:i], rest[i:]
	}
	for i := range skills {
		if skills[i].Name == name {
			if text, err = skills[i].Invoke(args); err != nil {
				return prompt, nil, err
			}
			return text, &skills[i], nil
		}
	}
	return prompt, nil, nil
}

// Owner says in which skill's folder a file is, and where in it. The path is absolute, with links followed or not.
func Owner(path string, skills []Skill) (owner *Skill, rel string, ok bool) {
	for i := range skills {
		for _, dir := range []string{skills[i].Dir, skills[i].real} {
			if dir == "" {
				continue
			}
			// Of two folders, one in the other, the inner one is meant.
			if r := below(dir, path); r != "" && (owner == nil || len(r) < len(rel)) {
				owner, rel = &skills[i], r
			}
		}
	}
	return owner, filepath.ToSlash(rel), owner != nil
}
