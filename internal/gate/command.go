package gate

import "github.com/sluice-dev/sluice/event"

// Command says what a shell command would do, part by part. resolve tells where a path leads once links are followed: target is
// relative to the workspace, or absolute if it is outside.
func Command(command string, resolve func(path string) (target string, outside bool)) []Access {
	return []Access{{Permission: "bash", Target: command, Class: event.ClassExec, Opaque: true, Why: "not yet judged"}}
}
