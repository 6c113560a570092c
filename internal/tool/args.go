package tool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// decode reads arguments into a struct. They are never mended: what is wrong is said so that the model can do better. Members
// that nobody asked for are left alone, and null is as good as absent.
func decode(input event.Raw, v any, required ...string) error {
	var doc wire.Doc
	if err := doc.Parse(input); err != nil {
		return errors.New("the arguments are not JSON: send one JSON object")
	}
	root := doc.Root()
	if root.Kind() != wire.Object {
		return errors.New("the arguments are not a JSON object: send one")
	}
	for _, name := range required {
		if k := root.Get(name).Kind(); k == wire.Absent || k == wire.Null {
			return missing(name, root)
		}
	}
	err := wire.Unmarshal(input, v)
	var wrong *wire.TypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%q must be %s, not %s", wrong.Field, inWords(wrong.Want), wrong.Got)
	}
	return err
}

func missing(name string, root wire.Node) error {
	var given []string
	for key := range root.All() {
		given = append(given, fmt.Sprintf("%q", key))
	}
	if len(given) == 0 {
		return fmt.Errorf("%q is missing: there are no arguments", name)
	}
	return fmt.Errorf("%q is missing: there is only %s", name, strings.Join(given, ", "))
}

// inWords says a Go type as a model would.
func inWords(goType string) string {
	switch {
	case goType == "string":
		return "a string"
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "int"):
		return "a whole number"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	}
	return "an object"
}

// metadata makes the object that goes with a result.
func metadata(v any) event.Raw { return wire.Append(nil, v) }
