package main

import (
	"os"
	"path/filepath"
)

// Three streams, three dialects, one program.
func Example() {
	for _, file := range []string{"grok/clean/hello.ndjson", "grok/clean/failed.ndjson", "enso/clean/hello.ndjson"} {
		f, err := os.Open(filepath.Join("..", "..", "dialect", "testdata", filepath.FromSlash(file)))
		if err != nil {
			panic(err)
		}
		os.Stdin = f
		main()
		f.Close()
	}
	// Output:
	// done ""
	// failed "Tool `bash` denied: command not in allowlist"
	// done ""
}
