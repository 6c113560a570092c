package provider

import (
	"context"
	"crypto/rand"
	"iter"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/script"
	"github.com/sluice-dev/sluice/internal/wire"
)

// demo is the model for those who have none: a handful of rules that really call the tools and say what came of it. It
// needs no key and no network, and its tokens are nobody's.
//
// Each request is answered from the last prompt and from the calls that were made since; the demo remembers nothing else.
// The prompt chooses a rule, and the rule says what to do next: call a tool, or answer.
type demo struct{}

func newDemo(target) (Model, error) { return demo{}, nil }

func (demo) Answer(ctx context.Context, r Request) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		a := answer{yield: yield}
		if ctx.Err() != nil {
			a.fail(ctx.Err())
			return
		}
		const size = 40 // runes in a delta
		m := listen(r).next()
		for delta := range script.Deltas(m.thought, size) {
			a.thought(delta)
		}
		for delta := range script.Deltas(m.text, size) {
			a.text(delta)
		}
		finish := event.FinishStop
		for _, c := range m.calls {
			finish = event.FinishToolCalls
			a.call(callID(), c.tool, string(c.input))
		}
		a.end(event.TurnEnded{Provider: "demo", Model: "demo", Finish: finish})
	}
}

// callID is an id for a call that has none.
func callID() string { return "call_" + strings.ToLower(rand.Text()[:16]) }

// A move is what the demo does next.
type move struct {
	thought, text string
	calls         []demoCall
}

type demoCall struct {
	tool  string
	input []byte
}

func say(text string) move { return move{text: text} }

// A talk is a request as the demo hears it.
type talk struct {
	tools    []Tool
	prompt   string
	attached []event.Attachment
	done     []outcome // of the calls since the prompt
}

// An outcome is a call that was made, and its end.
type outcome struct {
	does  deed
	about string // the argument that matters: a path, a pattern, a command
	end   event.Body
}

// listen finds the last prompt and what was done about it. Prompts that follow each other are one.
func listen(r Request) talk {
	t := talk{tools: r.Tools}
	spoken := true // the model has, since the last prompt
	open := map[string]outcome{}
	for _, e := range r.History {
		switch b := e.Body.(type) {
		case event.Prompt:
			if spoken {
				t.prompt, t.attached, t.done = "", nil, nil
			}
			spoken = false
			t.prompt += b.Text + "\n"
			t.attached = append(t.attached, b.Attached...)
		case event.Text:
			spoken = true
		case event.ToolCalled:
			spoken = true
			open[e.Call] = begun(b)
		default:
			if _, ok := event.AsToolEnd(b); ok {
				o := open[e.Call]
				o.end = b
				t.done = append(t.done, o)
			}
		}
	}
	return t
}

func begun(b event.ToolCalled) outcome {
	o := outcome{does: deedOf(b.Name)}
	var d wire.Doc
	if d.Parse(b.Input) == nil {
		for _, key := range demoKeys[o.does] {
			if o.about = d.Root().Get(key).Text(); o.about != "" {
				break
			}
		}
	}
	return o
}

// made returns what came of a call, if it was made. A tool that lists folders lists the one there is, whatever the pattern.
func (t talk) made(does deed, about string) (outcome, bool) {
	i := slices.IndexFunc(t.done, func(o outcome) bool { return o.does == does && (o.about == about || does == toList && o.about == ".") })
	if i < 0 {
		return outcome{}, false
	}
	return t.done[i], true
}

// A deed is what a tool can do for the demo. Tools have other names under other faces.
type deed string

const (
	toList   deed = "list"
	toRead   deed = "read"
	toSearch deed = "search"
	toRun    deed = "run"
)

// demoTools are the names of tools for each deed, without case and what is no letter; the first that there is is taken.
var demoTools = map[deed][]string{
	toList:   {"glob", "list", "ls", "listfiles", "listdir", "listdirectory", "findfiles", "globfiles"},
	toRead:   {"read", "readfile", "view", "viewfile", "openfile", "cat"},
	toSearch: {"grep", "search", "searchfiles", "searchtext", "filesearch", "ripgrep", "rg"},
	toRun:    {"bash", "shell", "exec", "execcommand", "runcommand", "runshellcommand", "execute", "terminal"},
}

// demoKeys are the names of the argument that matters; the first that the tool's schema has is taken.
var demoKeys = map[deed][]string{
	toList:   {"pattern", "glob", "path", "directory", "dir"},
	toRead:   {"path", "file_path", "filePath", "absolute_path", "filename", "file"},
	toSearch: {"pattern", "query", "regex", "text"},
	toRun:    {"command", "cmd", "script"},
}

func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

func deedOf(name string) deed {
	for d, list := range demoTools {
		if slices.Contains(list, letters(name)) {
			return d
		}
	}
	return ""
}

// call makes a call of the tool that can do it, if there is one. Arguments that the tool insists on and the demo does not
// know get the reason.
func (t talk) call(does deed, about, reason string) (demoCall, bool) {
	for _, name := range demoTools[does] {
		i := slices.IndexFunc(t.tools, func(tool Tool) bool { return letters(tool.Name) == name })
		if i < 0 {
			continue
		}
		var d wire.Doc
		if d.Parse(t.tools[i].Schema) != nil {
			continue
		}
		properties := d.Root().Get("properties")
		at := slices.IndexFunc(demoKeys[does], func(key string) bool { return properties.Get(key).Kind() == wire.Object })
		if at < 0 {
			continue
		}
		key := demoKeys[does][at]
		if does == toList && (key == "path" || key == "directory" || key == "dir") { // it lists a folder, not a pattern
			about = "."
		}
		input := map[string]string{key: about}
		for _, must := range d.Root().Get("required").All() {
			if _, ok := input[must.Text()]; !ok && properties.Get(must.Text()).Get("type").Is("string") {
				input[must.Text()] = reason
			}
		}
		return demoCall{t.tools[i].Name, wire.Append(nil, input)}, true
	}
	return demoCall{}, false
}
