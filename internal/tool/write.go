package tool

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/event"
)

// write makes or replaces a whole file.
type write struct{ w *Workspace }

func (write) Spec() Spec {
	return Spec{
		Name:  "write",
		Class: event.ClassEdit,
		Description: "Writes a whole file: makes it, with the folders above it, or replaces what was there. To change a part of a file use " +
			"edit instead. The result is a diff.",
		Schema: event.Raw(`{"type":"object","properties":{` +
			`"file_path":{"type":"string","description":"The file, from the workspace or absolute."},` +
			`"content":{"type":"string","description":"All of its new content."}},` +
			`"required":["file_path","content"]}`),
	}
}

func (t write) Plan(input event.Raw) (Plan, error) {
	var a struct {
		Path    string `json:"file_path"`
		Content string `json:"content"`
	}
	if err := decode(input, &a, "file_path", "content"); err != nil {
		return Plan{}, err
	}
	p, err := t.w.resolve(a.Path)
	if err != nil {
		return Plan{}, err
	}
	if !utf8.ValidString(a.Content) {
		return Plan{}, errors.New("the content is not valid UTF-8")
	}
	return Plan{
		Title:  p.target,
		Access: p.access("edit", event.ClassEdit),
		Diff:   t.w.preview(p, func(string) (string, error) { return a.Content, nil }),
		Run: func(context.Context, func(string)) Result {
			c, err := t.w.change(p, func(string, error) (string, error) { return a.Content, nil })
			if err != nil {
				return Result{Error: fmt.Sprintf("%s: %v", p.target, err)}
			}
			return c.result(p)
		},
	}, nil
}
