package loop

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/sluice-dev/sluice/internal/pattern"
	"github.com/sluice-dev/sluice/internal/spell"
)

// Data is what a phase's prompt may speak of, as {{.Iteration}}.
type Data struct {
	RunID         string
	Phase         string
	Iteration     int // 0 outside the loop
	MaxIterations int
	WorkDir       string
	LastOutput    string // the last thing that the phase before said

	// What changed in the git work tree since the phase before began: also what was committed, and new files.
	PrevPhaseCommit string // where it began; for the first phase, where that begins
	DiffStat        string // a line for each file, and a sum
	ChangedFiles    Lines
}

// Lines are written one to a line, and can be ranged over.
type Lines []string

func (l Lines) String() string { return strings.Join(l, "\n") }

// maxPrompt bounds a prompt, before and after what it speaks of is put in.
const maxPrompt = 1 << 20

// A prompt is a text that may have templates in it.
type prompt struct {
	text string
	tmpl *template.Template // nil: it is told as it is
	uses map[string]bool    // names of fields
}

// functions that a prompt may use: those that cannot make much of little.
var functions = []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len"}

// parsePrompt reads a prompt and holds it to what it may speak of; sample has it all. The line of an error is the prompt's own.
func parsePrompt(text string, sample any) (prompt, error) {
	p := prompt{text: text, uses: map[string]bool{}}
	if !strings.Contains(text, "{{") {
		return p, nil
	}
	t, err := template.New("prompt").Option("missingkey=error").Parse(text)
	if err != nil {
		return p, templateError(err)
	}
	if len(t.Templates()) > 1 || t.Tree == nil {
		return p, errors.New("a prompt defines no other templates")
	}
	c := checker{text: text, fields: fieldsOf(sample), uses: p.uses}
	c.node(t.Root)
	if c.err != nil {
		return p, c.err
	}
	p.tmpl = t
	_, err = p.with(sample)
	return p, err
}

var atLine = pattern.Lazy(`^template: prompt:(\d+)(?::\d+)?: (?:executing "prompt" at [^:]*: )?`)

// templateError says what is wrong, and on which line of the prompt.
func templateError(err error) error {
	why, _, _ := strings.Cut(err.Error(), "\n")
	line := 0
	if m := atLine().FindStringSubmatch(why); m != nil {
		line, _ = strconv.Atoi(m[1])
		why = why[len(m[0]):]
	}
	return lineError{line, why + ` ({{"{{"}} stands for two braces, and template: false leaves the whole prompt alone)`}
}

// with puts in what the prompt speaks of.
func (p prompt) with(data any) (string, error) {
	if p.tmpl == nil {
		return p.text, nil
	}
	out := &bounded{left: 4 * maxPrompt}
	if err := p.tmpl.Execute(out, data); err != nil {
		return "", templateError(err)
	}
	return out.String(), nil
}

// bounded is a text that cannot grow for ever.
type bounded struct {
	strings.Builder
	left int
}

func (b *bounded) Write(data []byte) (int, error) {
	if b.left -= len(data); b.left < 0 {
		return 0, errors.New("the prompt has become too long")
	}
	return b.Builder.Write(data)
}

// fieldsOf are the names of a struct's fields.
func fieldsOf(sample any) map[string]reflect.Type {
	fields, t := map[string]reflect.Type{}, reflect.TypeOf(sample)
	for i := range t.NumField() {
		fields[t.Field(i).Name] = t.Field(i).Type
	}
	return fields
}

// A checker holds a template to what a prompt may do: speak of fields, ask about them, and go through lists.
type checker struct {
	text   string
	fields map[string]reflect.Type
	uses   map[string]bool
	err    error
}

func (c *checker) fail(n parse.Node, format string, args ...any) {
	if c.err == nil {
		line := 1 + strings.Count(c.text[:min(int(n.Position()), len(c.text))], "\n")
		c.err = lineError{line, fmt.Sprintf(format, args...)}
	}
}

func (c *checker) node(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, item := range n.Nodes {
				c.node(item)
			}
		}
	case *parse.ActionNode:
		c.pipe(n.Pipe)
	case *parse.IfNode:
		c.branch(&n.BranchNode)
	case *parse.WithNode:
		c.branch(&n.BranchNode)
	case *parse.RangeNode:
		if cmds := n.Pipe.Cmds; len(cmds) != 1 || len(cmds[0].Args) != 1 || cmds[0].Args[0].Type() == parse.NodeNumber {
			c.fail(n, "range goes through a list, such as .ChangedFiles")
		}
		c.branch(&n.BranchNode)
	case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
	default:
		c.fail(n, "a prompt cannot have %s", n)
	}
}

func (c *checker) branch(n *parse.BranchNode) {
	c.pipe(n.Pipe)
	c.node(n.List)
	c.node(n.ElseList)
}

func (c *checker) pipe(p *parse.PipeNode) {
	for _, cmd := range p.Cmds {
		for _, arg := range cmd.Args {
			c.arg(arg)
		}
	}
}

func (c *checker) arg(n parse.Node) {
	switch n := n.(type) {
	case *parse.PipeNode:
		c.pipe(n)
	case *parse.FieldNode:
		c.field(n, n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			c.field(n, n.Ident[1:])
		}
	case *parse.IdentifierNode:
		if !slices.Contains(functions, n.Ident) {
			c.fail(n, "there is no %s in a prompt: there are %s", n.Ident, strings.Join(functions, ", "))
		}
	case *parse.DotNode, *parse.StringNode, *parse.NumberNode, *parse.BoolNode, *parse.NilNode:
	default:
		c.fail(n, "a prompt cannot have %s", n)
	}
}

func (c *checker) field(n parse.Node, ident []string) {
	names := slices.Sorted(maps.Keys(c.fields))
	t, ok := c.fields[ident[0]]
	switch near := spell.Nearest(ident[0], names); {
	case !ok && near != "":
		c.fail(n, "there is no .%s: is .%s meant?", ident[0], near)
	case !ok:
		c.fail(n, "there is no .%s: there are .%s", ident[0], strings.Join(names, ", ."))
	case len(ident) > 1 && t.Kind() != reflect.Map:
		c.fail(n, ".%s has no parts", ident[0])
	}
	c.uses[ident[0]] = true
}
