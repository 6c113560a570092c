//go:build race

package journal

const raced = true // the race detector is on
