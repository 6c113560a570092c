package tool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/sluice-dev/sluice/event"
)

// edit replaces a part of a file.
type edit struct{ w *Workspace }

func (edit) Spec() Spec {
	return Spec{
		Name:  "edit",
		Class: event.ClassEdit,
		Description: "Replaces old_string by new_string in a file. old_string must be in the file exactly once, so give as many lines around the " +
			"place as make it the only one; or set replace_all. The numbers that read puts in front of lines are not part of the file. " +
			"The result is a diff.",
		Schema: event.Raw(`{"type":"object","properties":{` +
			`"file_path":{"type":"string","description":"The file, from the workspace or absolute."},` +
			`"old_string":{"type":"string","description":"The text to be replaced, as it stands in the file."},` +
			`"new_string":{"type":"string","description":"The text to put there instead."},` +
			`"replace_all":{"type":"boolean","description":"Replace it wherever it is."}},` +
			`"required":["file_path","old_string","new_string"]}`),
	}
}

func (t edit) Plan(input event.Raw) (Plan, error) {
	var a struct {
		Path string `json:"file_path"`
		swap
	}
	if err := decode(input, &a, "file_path", "old_string", "new_string"); err != nil {
		return Plan{}, err
	}
	p, err := t.w.resolve(a.Path)
	if err != nil {
		return Plan{}, err
	}
	switch {
	case a.Old == "":
		return Plan{}, errors.New("old_string is empty: name the text to be replaced, or write the whole file")
	case a.Old == a.New:
		return Plan{}, errors.New("old_string and new_string are the same: there is nothing to do")
	}
	return Plan{
		Title:  p.target,
		Access: p.access("edit", event.ClassEdit),
		Diff:   t.w.preview(p, a.swap.in),
		Run: func(context.Context, func(string)) Result {
			c, err := t.w.change(p, func(before string, err error) (string, error) {
				if errors.Is(err, fs.ErrNotExist) {
					return "", errors.New("there is no such file: write it first, or look for it with glob")
				}
				return a.swap.in(before)
			})
			if err != nil {
				return Result{Error: fmt.Sprintf("%s: %v", p.target, err)}
			}
			return c.result(p)
		},
	}, nil
}
