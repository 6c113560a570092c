package guest

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

// This file says what a guest's call would do, in the words that our rules are written in. The rules: a command is judged part by
// part, by the shell's grammar; a path where it leads; what nobody can say is named after the tool, so that a rule can be
// written for it, and asked about otherwise. There is always at least one access: a call that is about nothing would pass.

// input are the arguments that tools have, whatever they are called there.
type input struct {
	Command   json.RawMessage `json:"command"`
	Cwd       string          `json:"cwd"`
	Directory string          `json:"directory"`
	Dir       string          `json:"dir_path"`
	Workdir   string          `json:"workdir"`
	URL       string          `json:"url"`
	Name      string          `json:"name"`
	Skill     string          `json:"skill"`
	About     string          `json:"description"`
}

// pathKeys are the names that arguments with one path have.
var pathKeys = []string{"file_path", "filePath", "filepath", "absolute_path", "path", "notebook_path", "dir_path", "target_file", "source", "destination"}

// kinds are tools by the name that guests have for them, in small letters, and ACP's kinds of tools.
var kinds = map[string]string{
	"bash": "bash", "shell": "bash", "run_shell_command": "bash", "execute": "bash", "terminal": "bash",
	"read": "read", "read_file": "read", "readfile": "read", "notebookread": "read", "read_many_files": "read", "view": "read",
	"write": "edit", "write_file": "edit", "edit": "edit", "multiedit": "edit", "notebookedit": "edit", "replace": "edit", "patch": "edit",
	"apply_patch": "edit", "str_replace": "edit", "delete": "edit", "move": "edit",
	"glob": "glob", "ls": "glob", "list": "glob", "list_directory": "glob", "grep": "grep", "search": "grep", "search_file_content": "grep",
	"task": "task", "agent": "task", "skill": "skill", "todowrite": "todo", "todoread": "todo", "todo": "todo",
}

// classes are what our permissions can do to the world.
var classes = map[string]event.Class{
	"bash": event.ClassExec, "read": event.ClassInfo, "edit": event.ClassEdit, "glob": event.ClassInfo, "grep": event.ClassInfo,
	"task": event.ClassExec, "skill": event.ClassInfo, "todo": event.ClassInfo,
}

// permissionOf is our permission for a tool, by its name and else by its kind; the tool's own name if we have none.
func permissionOf(tool, kind string) string {
	if server, ok := strings.CutPrefix(tool, "mcp__"); ok {
		return strings.Replace(server, "__", "_", 1) // as our own MCP tools are called
	}
	if p, ok := kinds[strings.ToLower(tool)]; ok {
		return p
	}
	if p, ok := kinds[kind]; ok {
		return p
	}
	return first(tool, kind, "unknown")
}

// classOf is what a tool can do to the world.
func classOf(tool, kind string) event.Class {
	if strings.HasPrefix(tool, "mcp__") {
		return event.ClassMCP
	}
	if c, ok := classes[permissionOf(tool, kind)]; ok {
		return c
	}
	if kind == "think" {
		return event.ClassInfo
	}
	return event.ClassExec
}

// accesses says what a call would do. More are paths that the guest says it touches.
func (s *Session) accesses(tool, kind string, raw event.Raw, more ...string) []gate.Access {
	var in input
	_ = json.Unmarshal(raw, &in) // what has another type is not what we look for
	permission, class := permissionOf(tool, kind), classOf(tool, kind)
	base := first(in.Cwd, in.Directory, in.Workdir)
	if permission == "bash" {
		command := commandOf(in.Command)
		if command == "" {
			return []gate.Access{{Permission: "bash", Class: class, Opaque: true, Why: "the guest does not say which command"}}
		}
		list := gate.ShCommand(command, func(path string) (string, bool) { return s.space.Resolve(under(base, path)) })
		if target, outside := s.space.Resolve(first(base, ".")); outside {
			list = append(list, gate.Access{Permission: gate.Outside, Target: target, Class: class})
		}
		return list
	}
	switch permission {
	case "task", "skill", "todo":
		return []gate.Access{{Permission: permission, Target: first(in.Skill, in.Name, in.About, "*"), Class: class}}
	}
	var list []gate.Access
	if class == event.ClassInfo || class == event.ClassEdit {
		for _, path := range paths(raw, more) {
			target, outside := s.space.Resolve(under(base, path))
			list = append(list, gate.Access{Permission: permission, Target: target, Class: class})
			if outside {
				list = append(list, gate.Access{Permission: gate.Outside, Target: target, Class: class})
			}
		}
	}
	switch {
	case len(list) > 0:
	case permission == "glob" || permission == "grep": // in the workspace, if nothing else is said
		list = append(list, gate.Access{Permission: permission, Target: ".", Class: class})
	case permission == "read" || permission == "edit":
		list = append(list, gate.Access{Permission: permission, Class: class, Opaque: true, Why: "the guest does not say which file"})
	default:
		list = append(list, gate.Access{Permission: permission, Target: first(in.URL, string(raw), "*"), Class: class})
	}
	return list
}

// commandOf is a command, which may be given as a list of words.
func commandOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		return ""
	}
	for i, w := range list {
		list[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(list, " ")
}

// paths are those that arguments name, and more.
func paths(raw event.Raw, more []string) []string {
	var args map[string]json.RawMessage
	_ = json.Unmarshal(raw, &args)
	var list []string
	for _, key := range pathKeys {
		var p string
		if json.Unmarshal(args[key], &p) == nil && p != "" && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	for _, p := range more {
		if p != "" && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

// under is a path as it is meant by somebody who stands in dir.
func under(dir, path string) string {
	if dir == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "~") {
		return path
	}
	return dir + "/" + path // not Join: .. goes up from where a link leads
}
