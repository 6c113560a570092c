package provider

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/event"
)

// This file is the demo's rules: which prompt means what, and what follows from what came of a call.

// expressions that prompts are held against, made when the first one is.
var expressions = sync.OnceValue(func() (x struct{ run, quoted, find, look, file *regexp.Regexp }) {
	x.run = regexp.MustCompile(`(?i)\b(?:run|execute|call)\b`)
	x.quoted = regexp.MustCompile("`([^`\n]+)`|\"([^\"\n]+)\"|'([^'\n]+)'|“([^”\n]+)”")
	x.find = regexp.MustCompile(`(?i)\b(?:find|search(?:\s+for)?|grep(?:\s+for)?|look\s+for|where(?:\s+is|\s+are|'s)?|who\s+uses)\b\s*(?:the\s+|all\s+|every\s+|uses\s+of\s+)*([^\s?!,;]+)?`)
	x.look = regexp.MustCompile(`(?i)\b(?:folder|directory|dir|repo|repository|project|files|workspace|codebase|what(?:'s|\s+is)\s+(?:in\s+)?here)\b`)
	x.file = regexp.MustCompile(`(?:^|[\s"'\x60(“])((?:[\w.@~-]+/)*[\w@-][\w.@-]*\.[A-Za-z][\w]{0,8}|(?:[\w.@~-]*/)+[\w.@-]+|Makefile|Dockerfile|LICENSE|README)(?:$|[\s"'\x60)”,;:?!.])`)
	return x
})

// next is the rules, in order.
func (t talk) next() move {
	const enough = 4 << 10 // what is asked stands at the beginning; a whole file may follow it
	t.prompt = strings.ToValidUTF8(t.prompt[:min(len(t.prompt), enough)], "")
	x := expressions()
	if x.run.MatchString(t.prompt) {
		if command := quoted(t.prompt); command != "" {
			return t.run(command)
		}
	}
	if sum, ok := arithmetic(t.prompt); ok {
		return say(sum)
	}
	if m := x.find.FindStringSubmatch(t.prompt); m != nil {
		if what := first(quoted(t.prompt), strings.TrimRight(m[1], ".")); what != "" {
			return t.search(what)
		}
	}
	if m := x.file.FindStringSubmatch(t.prompt); m != nil {
		return t.read(strings.TrimRight(m[1], "."))
	}
	if len(t.attached) > 0 {
		return t.describe()
	}
	if x.look.MatchString(t.prompt) {
		return t.folder("I will look at what is here.")
	}
	return t.lost()
}

// quoted is the first thing that stands in quotes.
func quoted(prompt string) string {
	m := expressions().quoted.FindStringSubmatch(prompt)
	if m == nil {
		return ""
	}
	return first(m[1:]...)
}

// start calls a tool, or says that there is none.
func (t talk) start(does deed, about, thought string) move {
	c, ok := t.call(does, about, thought)
	if !ok {
		return say(fmt.Sprintf("I would have to %s, and I have no tool for that.", map[deed]string{
			toList: "list files", toRead: "read a file", toSearch: "search the files", toRun: "run a command",
		}[does]))
	}
	return move{thought: thought, calls: []demoCall{c}}
}

// trouble says what went wrong with a call, if anything did.
func (o outcome) trouble(what string) (string, bool) {
	end, _ := event.AsToolEnd(o.end)
	why := oneLine(first(end.Error, end.Output), 300)
	switch o.end.(type) {
	case event.ToolDone:
		return "", false
	case event.ToolDenied:
		what = "I was not allowed to " + what
	case event.ToolCancelled:
		what = "I was stopped when I wanted to " + what
	default:
		what = "I could not " + what
	}
	if why == "" {
		return what + ".", true
	}
	return what + ": " + strings.TrimSuffix(why, ".") + ".", true
}

// run runs the command that the prompt gives.
func (t talk) run(command string) move {
	o, ok := t.made(toRun, command)
	if !ok {
		return t.start(toRun, command, "I was given a command to run.")
	}
	end, _ := event.AsToolEnd(o.end)
	result := "worked"
	if end.Exit != nil && *end.Exit != 0 {
		result = fmt.Sprintf("ended with exit code %d", *end.Exit)
	} else if trouble, ok := o.trouble("run `" + command + "`"); ok {
		return say(trouble)
	}
	output := strings.TrimSpace(end.Output)
	if output == "" {
		return say(fmt.Sprintf("`%s` %s and printed nothing.", command, result))
	}
	return say(fmt.Sprintf("`%s` %s. It printed:\n\n```\n%s\n```", command, result, top(output, 40)))
}

// search looks for a text in all files, or for a file if it is the name of one.
func (t talk) search(what string) move {
	if expressions().file.MatchString(what) {
		pattern := "**/" + path.Base(what)
		o, ok := t.made(toList, pattern)
		if !ok {
			return t.start(toList, pattern, "That is the name of a file. Let me see where it is.")
		}
		if trouble, ok := o.trouble("list the files"); ok {
			return say(trouble)
		}
		return say(whereabouts(what, o))
	}
	o, ok := t.made(toSearch, regexp.QuoteMeta(what))
	if !ok {
		return t.start(toSearch, regexp.QuoteMeta(what), fmt.Sprintf("I will search all files for %q.", what))
	}
	if trouble, ok := o.trouble("search the files for `" + what + "`"); ok {
		return say(trouble)
	}
	return say(occurrences(what, o))
}

// read reads the file that the prompt names.
func (t talk) read(name string) move {
	o, ok := t.made(toRead, name)
	if !ok {
		return t.start(toRead, name, fmt.Sprintf("%s is named. I will read it.", name))
	}
	if trouble, ok := o.trouble("read " + name); ok {
		return say(trouble)
	}
	end, _ := event.AsToolEnd(o.end)
	if end.Type == "image" {
		return say(fmt.Sprintf("%s is an image. I am only the demo model, and I cannot see; a real model would be shown it.", name))
	}
	return say(portrait(name, contents(end)))
}

// describe says what came with the prompt.
func (t talk) describe() move {
	var parts []string
	for _, f := range t.attached {
		if f.Data != "" {
			parts = append(parts, fmt.Sprintf("%s is attached (%s); I am only the demo model, and I cannot look into it.", f.Path, f.Type))
			continue
		}
		parts = append(parts, portrait(f.Path, shown{text: f.Text}))
	}
	return say(strings.Join(parts, "\n\n"))
}

// folder looks at the folder, its top and all below, and reads the README if there is one.
func (t talk) folder(thought string) move {
	all, ok := t.made(toList, "**/*")
	if !ok {
		m := t.start(toList, "**/*", thought)
		if c, ok := t.call(toList, "*", thought); ok && string(c.input) != string(m.calls[0].input) {
			m.calls = append(m.calls, c)
		}
		return m
	}
	if trouble, ok := all.trouble("look at the folder"); ok {
		return say(trouble)
	}
	surface, _ := t.made(toList, "*")
	f := survey(all, surface)
	if f.readme == "" {
		return say(f.String())
	}
	o, ok := t.made(toRead, f.readme)
	if !ok {
		m := t.start(toRead, f.readme, fmt.Sprintf("There are %s. %s may say what they are.", plural(f.total, "file", "files"), f.readme))
		if len(m.calls) > 0 {
			return m
		}
		return say(f.String())
	}
	text := f.String()
	end, _ := event.AsToolEnd(o.end)
	if trouble, ok := o.trouble("read " + f.readme); ok {
		text += "\n\n" + trouble
	} else if s := opening(contents(end).text); s != "" {
		text += fmt.Sprintf("\n\n%s begins: “%s”", f.readme, s)
	}
	return say(text)
}

// lost is what to do when no rule fits: look around, and say what would.
func (t talk) lost() move {
	m := t.folder("I have no rule for that. At least I can look at what is here.")
	if len(m.calls) == 0 {
		m.text += apology
	}
	return m
}

var apology = `

That is all I can say to this: I am only the demo model that is built into Sluice, a few rules without any understanding. I can
- say what is in a folder,
- read a file that you name,
- search for a word ("where is NewSource?"),
- run a command that stands in backticks ("run ` + "`go version`" + `"),
- and do sums.

For a real model, set its key and name it: sluice run --model anthropic/` + rows[0].model + ` "…"`
