package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/internal/plain"
)

// Options say where to look.
type Options struct {
	Env       func(string) string // nil: os.Getenv
	Workspace string              // folder that the agent works in; empty: no project
	Top       string              // top folder of its repository; empty: only the workspace is looked into
	Flags     Flags               // what the command line says
}

// Flags are what the command line says: those values of Config whose keys are named.
type Flags struct {
	Config
	Keys []string // max_turns, limits.max_cost …
}

// Loaded is what is in force, and why.
type Loaded struct {
	Config
	Rules   []Rule            // those of Allow, Ask and Deny in the order in which they count: the later wins
	From    map[string]string // where a value came from: by model, limits.max_cost, deny[0], mcp.github
	Ignored []Ignored
	User    string // path of the user's file; it need not be there
	Project string // path of the project's file; empty if there is none
	Trusted bool   // the user trusts the project's file as it is
}

// A Rule is one of Allow, Ask or Deny.
type Rule struct {
	Action string // allow, ask or deny
	Text   string
	From   string
}

// An Ignored is something that the project's file says and that does not count.
type Ignored struct {
	Key  string `json:"key"`
	Path string `json:"path"`
	Why  string `json:"why"`
}

// maxFile bounds a project's file.
const maxFile = 64 << 10

// Load reads all that there is to read. The project's file is the nearest .sluice/config.toml from the workspace up to the top
// of the repository. If the user does not trust it, this is what it may do:
//
//	model, thinking                      say it where the user has not; no scripted model
//	ask, deny                            add rules
//	max_turns, timeout, stall, limits    lower
//	sandbox, network, skills             make stricter
//	everything else                      nothing
func Load(o Options) (Loaded, error) {
	env := o.Env
	if env == nil {
		env = os.Getenv
	}
	l := Loaded{Config: Defaults(), From: map[string]string{}}
	for _, k := range keys {
		if k.variable() != "" {
			l.From[k.name] = "default"
		}
	}
	var err error
	if l.User, err = Path(env); err == nil { // else there is none
		user, err := readLayer(l.User)
		if err != nil {
			return l, err
		}
		l.take(user)
	}
	if err := l.takeProject(o, env); err != nil {
		return l, err
	}
	variables, err := fromEnv(env)
	if err != nil {
		return l, err
	}
	for _, v := range variables {
		l.take(v)
	}
	if err := Check(o.Flags); err != nil {
		return l, err
	}
	for _, name := range o.Flags.Keys {
		k, _ := lookup(name)
		l.take(layer{Config: o.Flags.Config, from: k.flag(), set: map[string]bool{name: true}})
	}
	return l, nil
}

// take puts a layer on top.
func (l *Loaded) take(top layer) {
	for _, k := range keys {
		if !top.set[k.name] {
			continue
		}
		to, v := k.value(&l.Config), k.value(&top.Config)
		switch v.Kind() {
		case reflect.Slice:
			for i := range v.Len() {
				l.From[fmt.Sprintf("%s[%d]", k.name, to.Len())] = top.from
				to.Set(reflect.Append(to, v.Index(i)))
			}
		case reflect.Map:
			if to.IsNil() {
				to.Set(reflect.MakeMap(to.Type()))
			}
			for _, name := range v.MapKeys() {
				l.From[k.name+"."+name.String()] = top.from
				to.SetMapIndex(name, v.MapIndex(name))
			}
		default:
			to.Set(v)
			l.From[k.name] = top.from
		}
	}
	for _, list := range []struct {
		action string
		rules  []string
	}{{"allow", top.Allow}, {"ask", top.Ask}, {"deny", top.Deny}} {
		for _, text := range list.rules {
			if top.set[list.action] {
				l.Rules = append(l.Rules, Rule{list.action, text, top.from})
			}
		}
	}
}

// fromEnv has a layer for each variable that is set.
func fromEnv(env func(string) string) (list []layer, err error) {
	for _, k := range keys {
		name := k.variable()
		if name == "" || env(name) == "" {
			continue
		}
		l := layer{from: name, set: map[string]bool{k.name: true}}
		if err := k.parse(&l.Config, env(name)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if wrong := l.check(); wrong != nil {
			return nil, fmt.Errorf("%s %w", name, wrong.err)
		}
		list = append(list, l)
	}
	return list, nil
}

// takeProject puts the project's file on top, or what of it may be.
func (l *Loaded) takeProject(o Options, env func(string) string) error {
	path, data, err := readProject(o.Workspace, o.Top)
	if err != nil || path == "" {
		return err
	}
	l.Project = path
	project, err := parseFile(path, data)
	if err != nil {
		return err
	}
	why := "the file is not trusted"
	if trust, err := OpenTrust(env); err == nil { // else there is nothing that could be trusted
		switch trust.Check(path, data) {
		case Trusted:
			l.Trusted = true
			l.take(project)
			return nil
		case Changed:
			why = "the file has changed since it was trusted"
		}
	}
	for _, k := range keys {
		if !project.set[k.name] {
			continue
		}
		if k.variable() != "" && k.value(&project.Config).Equal(k.value(&l.Config)) {
			delete(project.set, k.name) // it changes nothing
			continue
		}
		if because, no := l.refuses(k, &project.Config); no {
			delete(project.set, k.name)
			for _, name := range k.names(&project.Config) {
				l.Ignored = append(l.Ignored, Ignored{Key: name, Path: path, Why: why + because})
			}
		}
	}
	l.take(project)
	return nil
}

// refuses says whether the file of a project that is not trusted is kept from setting a key, and why, if that is not all.
func (l *Loaded) refuses(k key, project *Config) (because string, no bool) {
	from := l.From[k.name]
	switch {
	case k.may == never:
		return "", true
	case k.name == "model" && strings.HasPrefix(project.Model, "script/"):
		return ", and a script is no model", true
	case k.may == fill && from != "default":
		return ", and " + plain.Name(from) + " says otherwise", true
	case k.may == tighten && !k.stricter(project, &l.Config):
		return ", and it would loosen what is set (" + plain.Name(from) + ")", true
	}
	return "", false
}

// names are a key and, if it has entries with names, theirs.
func (k key) names(c *Config) (list []string) {
	v := k.value(c)
	if v.Kind() != reflect.Map || v.Len() == 0 {
		return []string{k.name}
	}
	for _, name := range v.MapKeys() {
		list = append(list, k.name+"."+name.String())
	}
	slices.Sort(list)
	return list
}

// readProject reads the project's file. It may be reached by links, as long as they stay in the repository.
func readProject(workspace, top string) (path string, data []byte, err error) {
	if workspace == "" {
		return "", nil, nil
	}
	folders := plain.Upward(workspace, top)
	root, err := os.OpenRoot(folders[len(folders)-1])
	if err != nil {
		return "", nil, err
	}
	defer root.Close()
	for _, folder := range folders {
		rel, err := filepath.Rel(root.Name(), folder)
		if err != nil {
			return "", nil, err
		}
		data, err := plain.Read(root, filepath.Join(rel, ".sluice", "config.toml"), maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		path := filepath.Join(folder, ".sluice", "config.toml")
		if err != nil {
			return path, nil, fmt.Errorf("%s: %w", plain.Name(path), err)
		}
		return path, data, nil
	}
	return "", nil, nil
}

// Notices say what of the project's file does not count, a line for each reason.
func (l Loaded) Notices() (lines []string) {
	var reasons []string
	keys := map[string][]string{}
	for _, i := range l.Ignored {
		if keys[i.Why] == nil {
			reasons = append(reasons, i.Why)
		}
		keys[i.Why] = append(keys[i.Why], i.Key)
	}
	for _, why := range reasons {
		path := plain.Name(l.Project)
		lines = append(lines, fmt.Sprintf("%s: %s: left out %s (sluice trust %s)", path, why, strings.Join(keys[why], ", "), path))
	}
	return lines
}
