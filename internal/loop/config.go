package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/internal/plain"
)

// A Config is what a loop does: phases before it, phases in it that are repeated, phases after it.
type Config struct {
	MaxIterations int     `key:"max_iterations"` // 0: ten
	Pre           []Phase `key:"pre"`
	Loop          []Phase `key:"loop"`
	Post          []Phase `key:"post"`

	file string
	doc  document
}

// A Phase is one prompt to one agent.
type Phase struct {
	Name         string        `key:"name"`
	Prompt       string        `key:"prompt"`
	PromptFile   string        `key:"prompt_file"` // instead of it; from the folder of the configuration
	Template     *bool         `key:"template"`    // false: what is in two braces is text
	Backend      string        `key:"backend"`     // who does the work; empty: as the run says, and so for the next two
	Model        string        `key:"model"`
	Agent        string        `key:"agent"`
	Resume       bool          `key:"resume_from_previous"` // goes on with the session of the phase before it in its list
	Timeout      time.Duration `key:"timeout"`              // of all attempts together; 0: none
	Retries      *int          `key:"retries,max_retries"`  // nil: as the run says
	Requires     Requires      `key:"requires"`
	OnIncomplete OnIncomplete  `key:"on_incomplete"`

	prompt prompt
	unread bool // the prompt_file could not be read
}

// Requires are the files that a phase must leave behind, in the folder that it works in.
type Requires struct {
	Files    []string `key:"files"`
	NonEmpty []string `key:"non_empty_files"`
}

// OnIncomplete is what happens when it does not.
type OnIncomplete struct {
	Nudge string `key:"nudge"`      // what the agent is told; empty: which files are missing
	Max   *int   `key:"max_nudges"` // how often; nil: once
}

const (
	defaultIterations = 10
	maxConfig         = 1 << 20
)

// Load reads a configuration, and the prompts that it names: YAML, JSON or TOML, by the name of the file. The error of one that is
// wrong is [Problems], all that there are.
func Load(path string) (Config, error) {
	r := reader{file: path}
	var c Config
	root, top, err := openTop(filepath.Dir(path))
	if err != nil {
		return c, Problems{{File: path, Text: reason(err)}}
	}
	defer root.Close()
	data, err := plain.Read(root, filepath.Join(top, filepath.Base(path)), maxConfig)
	if err != nil {
		return c, Problems{{File: path, Text: reason(err)}}
	}
	if r.doc, err = parseDocument(filepath.Base(path), data); err != nil {
		r.failed(err)
		return c, r.problems
	}
	r.read("", r.doc.value, reflect.ValueOf(&c).Elem())
	c.file, c.doc = path, r.doc
	c.each(func(place string, p *Phase) {
		if p.PromptFile == "" || p.Prompt != "" {
			return
		}
		text, err := plain.Read(root, filepath.Join(top, filepath.FromSlash(p.PromptFile)), maxPrompt)
		if err != nil {
			p.unread = true
			r.problem(join(place, "prompt_file"), "%s: %s", plain.Name(p.PromptFile), reason(err))
			return
		}
		p.prompt.text = strings.ToValidUTF8(string(text), "\uFFFD")
	})
	c.each(func(place string, p *Phase) {
		if p.Name == initial {
			r.problem(join(place, "name"), "%q is the name of the phase that a prompt on the command line makes", initial)
		}
	})
	if problems := append(r.problems, c.Check()...); len(problems) > 0 {
		sortBy(problems, func(p Problem) int { return p.Line })
		return c, problems
	}
	return c, nil
}

// initial is the phase of a prompt that is not the configuration's.
const initial = "(initial)"

// Begin puts a phase before all others, with a prompt that is told as it is.
func (c *Config) Begin(prompt string) {
	c.Pre = slices.Insert(slices.Clone(c.Pre), 0, Phase{Name: initial, Prompt: prompt, Template: new(false)})
	c.doc = document{} // the places have moved
}

// openTop opens the folder that no prompt may be read outside of: the top of the repository, or the folder itself. It returns the
// way from there to the folder.
func openTop(dir string) (*os.Root, string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, "", err
	}
	top := dir
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			top = at
			break
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	rel, err := filepath.Rel(top, dir)
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(top)
	return root, rel, err
}

// reason is an error of reading, without the path.
func reason(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return err.Error()
}

// each goes through the phases.
func (c *Config) each(f func(place string, p *Phase)) {
	for _, part := range []struct {
		name string
		list []Phase
	}{{"pre", c.Pre}, {"loop", c.Loop}, {"post", c.Post}} {
		for i := range part.list {
			f(fmt.Sprintf("%s[%d]", part.name, i), &part.list[i])
		}
	}
}

// Check makes a configuration ready to be run, and says what is wrong with it. [Load] has done so.
func (c *Config) Check() Problems {
	r := reader{file: c.file, doc: c.doc}
	if c.MaxIterations < 0 {
		r.problem("max_iterations", "max_iterations is %d: it is at least 1", c.MaxIterations)
	}
	if c.MaxIterations == 0 {
		c.MaxIterations = defaultIterations
	}
	if len(c.Pre) == 0 && len(c.Loop) == 0 {
		r.problem("", "there is nothing to do: pre and loop have no phases")
	}
	names := map[string]bool{}
	c.each(func(place string, p *Phase) {
		switch {
		case p.Name == "":
			r.problem(place, "%s has no name", place)
		case names[p.Name]:
			r.problem(join(place, "name"), "there are two phases named %q", p.Name)
		}
		names[p.Name] = true
		r.checkPrompt(place, p)
		r.checkFiles(join(place, "requires.files"), p.Requires.Files)
		r.checkFiles(join(place, "requires.non_empty_files"), p.Requires.NonEmpty)
		if p.Retries != nil && *p.Retries < 0 {
			r.problem(join(place, "retries"), "retries is %d: it is at least 0", *p.Retries)
		}
		if n := p.OnIncomplete.Max; n != nil && *n < 0 {
			r.problem(join(place, "on_incomplete.max_nudges"), "max_nudges is %d: it is at least 0", *n)
		}
	})
	return r.problems
}

// Hold holds the phases to what whoever runs them can do. What is wrong is told where the phase has that key.
func (c *Config) Hold(key string, check func(Phase) error) Problems {
	r := reader{file: c.file, doc: c.doc}
	c.each(func(place string, p *Phase) {
		if err := check(*p); err != nil {
			r.problem(join(place, key), "%v", err)
		}
	})
	return r.problems
}

// sample has something of everything, so that what a prompt does with it can be tried.
var sample = Data{
	RunID: "run", Phase: "phase", Iteration: 1, MaxIterations: 2, WorkDir: "folder", LastOutput: "text",
	PrevPhaseCommit: "commit", DiffStat: "stat", ChangedFiles: Lines{"file"},
}

func (r *reader) checkPrompt(place string, p *Phase) {
	switch {
	case p.Prompt != "" && p.PromptFile != "":
		r.problem(place, "%s has a prompt and a prompt_file: say one of them", place)
		return
	case p.Prompt != "":
		p.prompt.text = p.Prompt
	case p.PromptFile == "":
		r.problem(place, "%s has no prompt", place)
		return
	}
	if strings.TrimSpace(p.prompt.text) == "" && !p.unread {
		r.problem(place, "the prompt of %s is empty", place)
	}
	if p.Template != nil && !*p.Template {
		return
	}
	var err error
	if p.prompt, err = parsePrompt(p.prompt.text, sample); err == nil {
		return
	}
	at, _ := errors.AsType[lineError](err)
	switch {
	case p.PromptFile != "":
		r.problems = append(r.problems, Problem{filepath.Join(filepath.Dir(r.file), p.PromptFile), at.line, err.Error()})
	case at.line > 1:
		r.problem(join(place, "prompt"), "line %d of the prompt: %v", at.line, err)
	default:
		r.problem(join(place, "prompt"), "the prompt: %v", err)
	}
}

// checkFiles holds names of files to the folder that the phase works in.
func (r *reader) checkFiles(place string, files []string) {
	for _, f := range files {
		if !filepath.IsLocal(filepath.FromSlash(f)) {
			r.problem(place, "%s is not a file below the folder that is worked in", plain.Name(f))
		}
	}
}
