// Sluice runs coding agents with nobody watching, and reads, checks and converts their event streams.
package main

import "github.com/sluice-dev/sluice/internal/cli"

func main() { cli.Main() }
