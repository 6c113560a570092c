package tool

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// As returns the tool under another name, and with other names for its arguments: args has them by ours. Who calls it may use
// either; the tool itself sees its own.
func As(t Tool, name string, args map[string]string) Tool {
	r := renamed{Tool: t, spec: t.Spec(), args: args}
	r.spec.Name = name
	if len(args) > 0 {
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
		err = errors.New(r.inTheirWords(err.Error()))
	}
	return p, err
}

// inTheirWords has the names of arguments in a complaint as who called it knows them.
func (r renamed) inTheirWords(text string) string {
	for _, ours := range slices.Sorted(maps.Keys(r.args)) {
		text = strings.ReplaceAll(text, `"`+ours+`"`, `"`+r.args[ours]+`"`)
	}
	return text
}

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
