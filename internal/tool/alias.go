package tool

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/pattern"
)

// As returns the tool under another name, and with other names for its arguments: args has them by ours. Who calls it may use
// either; the tool itself sees its own.
func As(t Tool, name string, args map[string]string) Tool {
	r := renamed{Tool: t, spec: t.Spec(), args: args}
	r.spec.Name = name
	if len(args) > 0 {
		r.spec.Description = r.inTheirWords(r.spec.Description)
		r.spec.Schema = renameSchema(r.spec.Schema, args)
	}
	return r
}

type renamed struct {
	Tool
	spec Spec
	args map[string]string
}

func (r renamed) Spec() Spec { return r.spec }

func (r renamed) Plan(input event.Raw) (Plan, error) {
	var given map[string]json.RawMessage
	if len(r.args) == 0 || json.Unmarshal(input, &given) != nil || given == nil {
		return r.Tool.Plan(input) // which says what is wrong with it
	}
	for ours, theirs := range r.args {
		if v, ok := given[theirs]; ok {
			given[ours] = v
			delete(given, theirs)
		}
	}
	own, err := json.Marshal(given)
	if err != nil {
		return Plan{}, err
	}
	p, err := r.Tool.Plan(own)
	if err != nil {
		return p, errors.New(r.inTheirWords(err.Error()))
	}
	run := p.Run
	p.Run = func(ctx context.Context, out func(string)) Result {
		result := run(ctx, out)
		result.Error = r.inTheirWords(result.Error)
		return result
	}
	return p, nil
}

// inTheirWords has the names of arguments in a text as who calls it knows them: those in quotes and, if they have an underline
// and so are no words that mean something else, those that stand by themselves.
func (r renamed) inTheirWords(text string) string {
	return named().ReplaceAllStringFunc(text, func(word string) string {
		bare := strings.Trim(word, `"`)
		theirs, ok := r.args[bare]
		if !ok || bare == word && !strings.Contains(word, "_") {
			return word
		}
		return strings.Replace(word, bare, theirs, 1)
	})
}

// named is whatever may be the name of an argument, or a longer thing that has one in it.
var named = pattern.Lazy(`"\w+"|[\w./\\-]*\w`)

// renameSchema has the arguments of a schema by other names.
func renameSchema(schema event.Raw, args map[string]string) event.Raw {
	var doc map[string]json.RawMessage
	var properties map[string]json.RawMessage
	var required []string
	if json.Unmarshal(schema, &doc) != nil || json.Unmarshal(doc["properties"], &properties) != nil {
		return schema
	}
	for ours, theirs := range args {
		if p, ok := properties[ours]; ok {
			properties[theirs] = p
			delete(properties, ours)
		}
	}
	doc["properties"], _ = json.Marshal(properties) // it was JSON before
	if json.Unmarshal(doc["required"], &required) == nil {
		for i, name := range required {
			if theirs, ok := args[name]; ok {
				required[i] = theirs
			}
		}
		doc["required"], _ = json.Marshal(required)
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return schema
	}
	return out
}
