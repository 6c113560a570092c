package sandbox

import (
	"os"
	"path/filepath"
	"strings"
)

// repository says where git keeps what belongs to a work tree: the folders that it must write to, and in them what runs
// programs, which nobody may write to. A work tree beside others has a file .git that names a folder elsewhere. It is believed
// only if that folder names the file in turn: whoever wrote the workspace did not write that.
func repository(workspace string) (write, keep []string) {
	dot := filepath.Join(workspace, ".git")
	if isFolder(dot) {
		return []string{dot}, kept(dot)
	}
	dir, ok := strings.CutPrefix(line(dot), "gitdir: ")
	if !ok {
		return nil, nil
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(workspace, dir)
	}
	dir = follow(dir)
	common := line(filepath.Join(dir, "commondir"))
	if back := line(filepath.Join(dir, "gitdir")); common == "" || !filepath.IsAbs(back) || follow(back) != dot {
		return nil, []string{dot}
	}
	if !filepath.IsAbs(common) {
		common = filepath.Join(dir, common)
	}
	common = follow(common)
	if filepath.Dir(filepath.Dir(dir)) != common || !isFolder(filepath.Join(common, "objects")) {
		return nil, []string{dot}
	}
	return []string{common}, append(kept(common), dot, filepath.Join(dir, "config.worktree"))
}

func kept(dir string) []string {
	return []string{filepath.Join(dir, "hooks"), filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree")}
}

// line reads a file of one short line; empty if it is something else.
func line(path string) string {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 8<<10 {
		return ""
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(data), "\r\n")
}
