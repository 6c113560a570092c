package dialect

import (
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// Schema returns the JSON Schema (2020-12) of the dialect's lines.
func (d *Dialect) Schema() []byte {
	if d == &native {
		return event.Schema()
	}
	s := d.shapes()
	root := schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", ID: "urn:sluice:dialect:" + d.Name,
		Title: d.Name, Description: d.Doc, Defs: map[string]*schema{},
	}
	for i := range s.lines {
		l := &s.lines[i]
		def := object(s.all(l))
		def.Description = l.doc
		def.Properties[s.key] = &schema{Const: l.name}
		def.Required = append([]string{s.key}, def.Required...)
		root.Defs[l.name] = def
		root.OneOf = append(root.OneOf, &schema{Ref: "#/$defs/" + l.name})
	}
	if !s.strict { // a type from tomorrow is allowed
		var known []string
		for _, l := range s.lines {
			known = append(known, l.name)
		}
		root.OneOf = append(root.OneOf, &schema{
			Type: []string{"object"}, Required: []string{s.key},
			Properties: map[string]*schema{s.key: {Type: []string{"string"}, Not: &schema{Enum: known}}},
		})
	}
	return wire.Append(nil, root)
}

// schema is the part of JSON Schema that shapes need.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	ID          string             `json:"$id,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Ref         string             `json:"$ref,omitempty"`
	Type        []string           `json:"type,omitempty"`
	Const       string             `json:"const,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Minimum     *int               `json:"minimum,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Not         *schema            `json:"not,omitempty"`
	AnyOf       []*schema          `json:"anyOf,omitempty"`
	OneOf       []*schema          `json:"oneOf,omitempty"`
	Defs        map[string]*schema `json:"$defs,omitempty"`
}

func object(fields []field) *schema {
	s := &schema{Type: []string{"object"}, Properties: map[string]*schema{}}
	for _, f := range fields {
		s.Properties[f.name] = f.schema()
		if f.need {
			s.Required = append(s.Required, f.name)
		}
	}
	return s
}

func (f field) schema() *schema {
	s := &schema{}
	if f.fields != nil {
		s = object(f.fields)
	}
	if f.types != isAny {
		s.Type = f.types.names()
	}
	for i, t := range s.Type {
		if t == "number" && f.whole {
			s.Type[i] = "integer"
		}
	}
	if f.types&isNumber != 0 && !f.signed {
		s.Minimum = new(0)
	}
	if len(f.values) > 0 && !f.open {
		s.AnyOf = []*schema{{Enum: f.values}}
		if f.types != isString {
			s.AnyOf = append(s.AnyOf, &schema{Not: &schema{Type: []string{"string"}}})
		}
	}
	if f.each != nil {
		s.Items = f.each.schema()
	}
	return s
}
