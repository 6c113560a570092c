package loop

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/internal/pattern"
	"github.com/sluice-dev/sluice/internal/plain"
	"github.com/sluice-dev/sluice/internal/spell"
)

// A Workflow is a Markdown file whose frontmatter names roles, and which of them wait for which:
//
//	---
//	description: plan, then build and test at the same time, then look at both
//	roles:
//	  planner: {tools: [read, grep]}
//	  builder: {model: anthropic/claude-sonnet-5-5}
//	  tester: {}
//	  reviewer: {prompt: "Review: {{.Outputs.builder}}"}
//	edges:
//	  - planner -> builder, tester -> reviewer
//	---
//	## planner
//	Plan this: {{.Task}}
//
// What stands under a heading with a role's name is its prompt, unless the frontmatter has it.
type Workflow struct {
	Description string          `key:"description"`
	Name        string          `key:"name"` // if it is there, that of the file
	Roles       map[string]Role `key:"roles"`
	Edges       []string        `key:"edges"` // a -> b, or a -> b, c -> d

	Location string
	Data     []byte // the file as it was read, for whoever asks whether it is trusted

	before map[string][]string // whom a role waits for
	order  []string            // of the roles: those that are waited for first
}

// A Role is what an agent of a workflow is.
type Role struct {
	Name   string
	Prompt string   `key:"prompt"`
	Model  string   `key:"model"` // provider/name; empty: the run's
	Tools  []string `key:"tools"` // that it has; nil: all

	prompt prompt
}

// RoleData is what a role's prompt may speak of.
type RoleData struct {
	Task    string            // what the workflow was asked to do
	Input   string            // what those said last that the role waited for
	Outputs map[string]string // what each role said last that came before this one
	Role    string
	WorkDir string
}

var (
	roleName = pattern.Lazy(`^[a-z][a-z0-9_]{0,63}$`)
	section  = pattern.Lazy(`(?m)^##[ \t]+([a-z0-9_]+)[ \t]*#*[ \t]*\r?$`)
)

// FindWorkflow looks for NAME.md in folders, the nearest first.
func FindWorkflow(name string, folders []string) (string, error) {
	if !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) {
		return "", fmt.Errorf("%q cannot name a workflow: it is the name of a file in .sluice/workflows, without folder and without .md", name)
	}
	var names []string
	for _, folder := range folders {
		path := filepath.Join(folder, name+".md")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		found, _ := filepath.Glob(filepath.Join(folder, "*.md"))
		for _, f := range found {
			names = append(names, strings.TrimSuffix(filepath.Base(f), ".md"))
		}
	}
	slices.Sort(names)
	switch near := spell.Nearest(name, names); {
	case near != "":
		return "", fmt.Errorf("there is no workflow %q: is %s meant?", name, near)
	case len(names) > 0:
		return "", fmt.Errorf("there is no workflow %q: there are %s", name, strings.Join(slices.Compact(names), ", "))
	}
	return "", fmt.Errorf("there is no workflow %q: it would be %s", name, filepath.Join(append(slices.Clone(folders[:min(1, len(folders))]), name+".md")...))
}

// LoadWorkflow reads a workflow. The error of one that is wrong is [Problems].
func LoadWorkflow(path string) (Workflow, error) {
	r := reader{file: path}
	w := Workflow{Location: path}
	root, top, err := openTop(filepath.Dir(path))
	if err == nil {
		defer root.Close()
		w.Data, err = plain.Read(root, filepath.Join(top, filepath.Base(path)), maxConfig)
	}
	if err != nil {
		return w, Problems{{File: path, Text: reason(err)}}
	}
	head, body, err := cutFront(string(w.Data))
	if err == nil {
		r.doc.lines = map[string]int{}
		err = r.doc.readYAML([]byte(head), 1)
	}
	if err != nil {
		r.failed(err)
		return w, r.problems
	}
	data := w.Data
	r.read("", r.doc.value, reflect.ValueOf(&w).Elem())
	w.Location, w.Data = path, data
	if name := strings.TrimSuffix(filepath.Base(path), ".md"); w.Name == "" {
		w.Name = name
	} else if w.Name != name {
		r.problem("name", "it is named %q but the file %q: they must be the same", w.Name, name)
	}
	if len(w.Roles) == 0 {
		r.problem("", "there are no roles")
	}
	w.sections(&r, body)
	w.connect(&r)
	w.prompts(&r)
	if len(r.problems) > 0 {
		sortBy(r.problems, func(p Problem) int { return p.Line })
		return w, r.problems
	}
	return w, nil
}

// cutFront takes a file apart.
func cutFront(text string) (head, body string, err error) {
	text = strings.ToValidUTF8(strings.TrimPrefix(text, "\uFEFF"), "\uFFFD")
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimSpace(first) != "---" {
		return "", "", lineError{1, "it has no frontmatter: its first line must be ---"}
	}
	at := 0
	for line := range strings.Lines(rest) {
		if strings.TrimRight(line, " \t\r\n") == "---" {
			return rest[:at], rest[at+len(line):], nil
		}
		at += len(line)
	}
	return "", "", errors.New("its frontmatter has no end: a second line must be ---")
}

// sections gives roles the prompts that stand under their names.
func (w *Workflow) sections(r *reader, body string) {
	var marks [][]int
	for _, m := range section().FindAllStringSubmatchIndex(body, -1) {
		if _, ok := w.Roles[body[m[2]:m[3]]]; ok {
			marks = append(marks, m)
		}
	}
	for i, m := range marks {
		end := len(body)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		name := body[m[2]:m[3]]
		role := w.Roles[name]
		if role.Prompt != "" {
			r.problem("roles."+name, "role %s has two prompts: say one of them", name)
			continue
		}
		role.Prompt = strings.TrimSpace(body[m[1]:end])
		w.Roles[name] = role
	}
}

// connect reads the edges, and puts the roles into an order.
func (w *Workflow) connect(r *reader) {
	names := slices.Sorted(maps.Keys(w.Roles))
	w.before = map[string][]string{}
	for i, edge := range w.Edges {
		place := fmt.Sprintf("edges[%d]", i)
		stops := strings.Split(edge, "->")
		if len(stops) < 2 {
			r.problem(place, "%q is no edge: write a -> b", edge)
		}
		var from []string
		for _, stop := range stops {
			var to []string
			for _, name := range strings.Split(stop, ",") {
				if name = strings.TrimSpace(name); !slices.Contains(names, name) {
					hint := ""
					if near := spell.Nearest(name, names); near != "" {
						hint = ": is " + near + " meant?"
					}
					r.problem(place, "there is no role %q%s", name, hint)
					continue
				}
				to = append(to, name)
				for _, f := range from {
					if !slices.Contains(w.before[name], f) {
						w.before[name] = append(w.before[name], f)
					}
				}
			}
			from = to
		}
	}
	for len(w.order) < len(names) {
		n := len(w.order)
		for _, name := range names {
			ready := !slices.ContainsFunc(w.before[name], func(b string) bool { return !slices.Contains(w.order, b) })
			if ready && !slices.Contains(w.order, name) {
				w.order = append(w.order, name)
			}
		}
		if len(w.order) == n {
			stuck := slices.DeleteFunc(names, func(name string) bool { return slices.Contains(w.order, name) })
			r.problem("edges", "%s wait for each other in a circle, or for somebody who does", strings.Join(stuck, ", "))
			return
		}
	}
}

// past are all that come before a role, in their order.
func (w *Workflow) past(name string) (list []string) {
	need := map[string]bool{}
	for open := slices.Clone(w.before[name]); len(open) > 0; open = open[1:] {
		if at := open[0]; !need[at] {
			need[at] = true
			open = append(open, w.before[at]...)
		}
	}
	for _, name := range w.order {
		if need[name] {
			list = append(list, name)
		}
	}
	return list
}

// prompts holds prompts to what they may speak of.
func (w *Workflow) prompts(r *reader) {
	for _, name := range slices.Sorted(maps.Keys(w.Roles)) {
		place, role := "roles."+name, w.Roles[name]
		role.Name = name
		if !roleName().MatchString(name) {
			r.problem(place, "%q is no name for a role: small letters, digits and underlines", name)
		}
		if strings.TrimSpace(role.Prompt) == "" {
			r.problem(place, "role %s has no prompt: write it under a heading ## %s", name, name)
			continue
		}
		sample := RoleData{Task: "task", Input: "input", Outputs: map[string]string{}, Role: name, WorkDir: "folder"}
		if slices.Contains(w.order, name) {
			for _, p := range w.past(name) {
				sample.Outputs[p] = "output"
			}
		}
		var err error
		if role.prompt, err = parsePrompt(role.Prompt, sample); err != nil {
			r.problem(place, "the prompt of %s: %v", name, err)
		}
		w.Roles[name] = role
	}
}
