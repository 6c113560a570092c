//go:build unix

package main

import "github.com/sluice-dev/sluice/internal/guest/standin"

// The test program is codex as well, for testdata/script/drive_codex.txtar.
func init() { programs["codex"] = standin.Codex }
