package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/tool"
)

// A remote is a server's tool.
type remote struct {
	link *link
	name string // the server's name for it
	spec tool.Spec
}

// Spec says what the tool is.
func (r *remote) Spec() tool.Spec { return r.spec }

// Server is the name of the server whose tool it is, for the catalog.
func (r *remote) Server() string { return r.link.server.Name }

// Plan reads the arguments. What the gate judges is what the server is sent, to the letter: one member of a name, in the order of
// the names.
func (r *remote) Plan(input event.Raw) (tool.Plan, error) {
	arguments, err := canonical(input)
	if err != nil {
		return tool.Plan{}, err
	}
	title := ""
	if text := string(arguments); text != "{}" {
		title = oneLine(text, 120)
	}
	return tool.Plan{
		Title:  title,
		Access: []gate.Access{{Permission: r.spec.Name, Target: string(arguments), Class: event.ClassMCP}},
		Run: func(ctx context.Context, out func(string)) tool.Result {
			result, err := r.link.call(ctx, r.name, arguments, out)
			if err != nil {
				return tool.Result{Error: r.link.about("failed the call: %s", brief(err))}
			}
			return translate(result, r.link.hub.opt)
		},
	}, nil
}

// canonical writes arguments in the one way that there is for them: without spaces, members sorted, none twice.
func canonical(input event.Raw) (event.Raw, error) {
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber()
	var object map[string]any
	err := d.Decode(&object)
	if _, more := d.Token(); err != nil || more != io.EOF {
		return nil, errors.New("the arguments are not a JSON object: send one")
	}
	if object == nil {
		object = map[string]any{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(object); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
