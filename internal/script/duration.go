package script

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// UnmarshalYAML reads what Go's [time.ParseDuration] reads.
func (d *Duration) UnmarshalYAML(n ast.Node) error {
	t := n.GetToken()
	v, err := time.ParseDuration(t.Value)
	if err != nil {
		return problem{line: t.Position.Line, why: fmt.Sprintf("%q is not a duration: write 20ms, 1.5s or 2m", t.Value)}
	}
	*d = Duration(v)
	return nil
}
