package tool

import (
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/internal/proc"
)

// Options are what the tools that come with Sluice need. Only Workspace must be set.
type Options struct {
	Workspace  string                         // the folder to work in
	Readable   []string                       // folders outside that may be read all the same
	Spill      string                         // folder for outputs that are too long; made when it is needed; empty: one in the system's temporary folder
	Group      *proc.Group                    // what commands are started in; nil: one that nobody closes
	Env        func() []string                // environment of commands; nil: [Environment] of ours
	Timeout    time.Duration                  // of a command that names none; 0: 2 minutes
	MaxTimeout time.Duration                  // that a command may name; 0: 10 minutes
	Keep       int                            // bytes of a command's output that are kept as they are; 0: 2 MB
	MaxSpill   int64                          // bytes of one output in a file; 0: 64 MB
	Sandbox    func(args []string) []string   // puts walls around a command; nil: none
	Clean      func(io.Writer) io.WriteCloser // takes out of a command's output what nobody may see; nil: nothing
	Hidden     func(target string) bool       // files that glob and grep leave out, since they may not be read; nil: none
}

func (o Options) filled() Options {
	if o.Spill == "" {
		o.Spill = filepath.Join(os.TempDir(), "sluice-"+rand.Text())
	}
	if o.Hidden == nil {
		o.Hidden = func(string) bool { return false }
	}
	if o.Sandbox == nil {
		o.Sandbox = func(args []string) []string { return args }
	}
	if o.Clean == nil {
		o.Clean = func(w io.Writer) io.WriteCloser { return unchanged{w} }
	}
	if o.Group == nil {
		o.Group = &proc.Group{}
	}
	if o.Env == nil {
		o.Env = func() []string { return Environment(os.Environ()) }
	}
	if o.MaxTimeout <= 0 {
		o.MaxTimeout = defaultMost
	}
	if o.Timeout <= 0 {
		o.Timeout = min(defaultTimeout, o.MaxTimeout)
	}
	if o.Keep <= 0 {
		o.Keep = defaultKeep
	}
	if o.MaxSpill <= 0 {
		o.MaxSpill = defaultSpill
	}
	return o
}

// unchanged passes on what is written.
type unchanged struct{ io.Writer }

func (unchanged) Close() error { return nil }

// A Set is tools in an order. The zero value is empty.
type Set struct{ tools []Tool }

// Builtin returns the tools that come with Sluice.
func Builtin(o Options) *Set {
	o = o.filled()
	w := openWorkspace(o.Workspace, append(slices.Clone(o.Readable), o.Spill)...)
	j := &jobs{}
	return &Set{tools: []Tool{
		read{w}, write{w}, edit{w}, newBash(w, o, j), bashOutput{j}, glob{w, o}, grep{w, o, findRipgrep(w, o.Group)}, &todo{},
	}}
}

// Tools lists the tools.
func (s *Set) Tools() []Tool { return slices.Clone(s.tools) }

// Find returns the tool of a name.
func (s *Set) Find(name string) (Tool, bool) {
	for _, t := range s.tools {
		if t.Spec().Name == name {
			return t, true
		}
	}
	return nil, false
}

// Add puts a tool at the end, in the place of one of the same name.
func (s *Set) Add(t Tool) {
	name := t.Spec().Name
	s.tools = append(slices.DeleteFunc(s.tools, func(t Tool) bool { return t.Spec().Name == name }), t)
}

// Rename gives tools other names, and other names to their arguments, for a face that knows them by those; both are by our
// names. A tool whose new name is empty is left out.
func (s *Set) Rename(names map[string]string, args map[string]map[string]string) {
	var list []Tool
	for _, t := range s.tools {
		own := t.Spec().Name
		name, ok := names[own]
		switch {
		case !ok && args[own] == nil:
			list = append(list, t)
		case !ok:
			list = append(list, As(t, own, args[own]))
		case name != "":
			list = append(list, As(t, name, args[own]))
		}
	}
	s.tools = list
}
