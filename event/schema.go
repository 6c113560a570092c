package event

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (2020-12) of a line. It is made of this package's types and their comments; a test keeps it
// so.
func Schema() []byte { return schema }
