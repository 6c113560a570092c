// Sluice reads, checks and converts the event streams of coding agents.
package main

import "github.com/sluice-dev/sluice/internal/cli"

func main() { cli.Main() }
