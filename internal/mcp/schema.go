package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// This file makes the schema of a tool's arguments fit to be sent to a model. A provider refuses a whole request for one bad
// schema, so a server could end every run. What cannot be sent becomes an object of anything: the server checks its arguments
// itself.

// anything is the schema of an object that may hold anything.
var anything = event.Raw(`{"properties":{},"type":"object"}`)

const schemaLimit = 64 << 10 // bytes

// isPropertyName says whether providers take a name for a property.
func isPropertyName(s string) bool {
	return s != "" && len(s) <= nameLimit && clean(strings.ReplaceAll(s, ".", "_")) == strings.ReplaceAll(s, ".", "_")
}

// normal returns a schema that can be sent. If that is not the server's own, the error says why.
func normal(schema any) (event.Raw, error) {
	root, ok := schema.(map[string]any)
	if !ok {
		return anything, errors.New("it is not an object")
	}
	if t, ok := root["type"]; ok && t != "object" {
		return anything, errors.New("it is not for an object")
	}
	root["type"] = "object"
	if root["properties"] == nil {
		root["properties"] = map[string]any{}
	}
	// Providers take these only further down. Without them the schema allows more, and the server decides.
	for _, key := range []string{"oneOf", "anyOf", "allOf", "not", "enum", "const"} {
		delete(root, key)
	}
	if err := sound(root); err != nil {
		return anything, err
	}
	data, err := json.Marshal(root) // keys in order: the same schema is always the same text
	if err != nil {
		return anything, err
	}
	if len(data) > schemaLimit {
		return anything, fmt.Errorf("it has %d bytes", len(data))
	}
	return data, nil
}

// sound says what is wrong with a schema. A keyword that it does not know may stand before anything.
func sound(v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return a[bool](v)
	}
	for key, value := range object {
		var err error
		switch key {
		case "type":
			err = typeNames(value)
		case "required":
			err = listOf[string](value)
		case "enum":
			err = listOf[any](value)
		case "properties":
			err = properties(value)
		case "patternProperties", "$defs", "definitions", "dependentSchemas":
			err = schemas(value)
		case "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems":
			err = sound(value)
		case "items":
			if _, list := value.([]any); list {
				err = schemaList(value)
			} else {
				err = sound(value)
			}
		case "allOf", "anyOf", "oneOf", "prefixItems":
			err = schemaList(value)
		case "$ref":
			err = localRef(value)
		case "title", "description", "pattern", "format":
			err = a[string](value)
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems":
			err = a[float64](value)
		case "uniqueItems":
			err = a[bool](value)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func a[T any](v any) error {
	if _, ok := v.(T); !ok {
		return fmt.Errorf("%T is not %T", v, *new(T))
	}
	return nil
}

func properties(v any) error {
	object, _ := v.(map[string]any)
	for key := range object {
		if !isPropertyName(key) {
			return fmt.Errorf("%q is not a name that models can be told", oneLine(key, 80))
		}
	}
	return schemas(v)
}

func schemas(v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return errors.New("it is not an object")
	}
	for _, value := range object {
		if err := sound(value); err != nil {
			return err
		}
	}
	return nil
}

func schemaList(v any) error {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return errors.New("it is not a list of schemas")
	}
	for _, s := range list {
		if err := sound(s); err != nil {
			return err
		}
	}
	return nil
}

func listOf[T any](v any) error {
	list, ok := v.([]any)
	if !ok {
		return errors.New("it is not a list")
	}
	for _, x := range list {
		if err := a[T](x); err != nil && x != nil {
			return err
		}
	}
	return nil
}

func typeNames(v any) error {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	known := []any{"string", "number", "integer", "boolean", "object", "array", "null"}
	for _, t := range list {
		if s, ok := t.(string); !ok || !slices.Contains(known, any(s)) {
			return fmt.Errorf("there is no type %v", t)
		}
	}
	return nil
}

// localRef refuses what a provider would have to fetch.
func localRef(v any) error {
	if s, ok := v.(string); !ok || !strings.HasPrefix(s, "#") {
		return fmt.Errorf("%v is somewhere else", v)
	}
	return nil
}
