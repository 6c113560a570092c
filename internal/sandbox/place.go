package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// KeyPlaces lists where a user keeps keys, tokens and passwords. It looks at nothing but the environment.
func KeyPlaces(env func(string) string) (list []string) {
	if home := env("HOME"); home != "" {
		for _, name := range []string{
			".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".my.cnf", ".vault-token", ".password-store",
			".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".gradle/gradle.properties", ".terraform.d/credentials.tfrc.json",
			".config/gcloud", ".config/gh", ".config/git/credentials", ".config/hub", ".config/op", ".config/rclone", ".config/sluice", ".local/state/sluice", ".local/share/keyrings",
			".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/github-copilot",
			".claude.json", ".claude/.credentials.json", ".claude/history.jsonl", ".claude/projects", ".codex/auth.json", ".codex/history.jsonl", ".codex/sessions", ".gemini/oauth_creds.json",
			".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".python_history", ".node_repl_history", ".psql_history",
		} {
			list = append(list, filepath.Join(home, filepath.FromSlash(name)))
		}
	}
	for name, below := range map[string][]string{
		"XDG_CONFIG_HOME": {"gcloud", "gh", "git/credentials", "sluice"}, "XDG_STATE_HOME": {"sluice"}, "CARGO_HOME": {"credentials", "credentials.toml"},
		"AWS_SHARED_CREDENTIALS_FILE": {"."}, "AWS_CONFIG_FILE": {"."}, "AWS_WEB_IDENTITY_TOKEN_FILE": {"."}, "GOOGLE_APPLICATION_CREDENTIALS": {"."}, "CLOUDSDK_CONFIG": {"."},
		"AZURE_CONFIG_DIR": {"."}, "DOCKER_CONFIG": {"."}, "GNUPGHOME": {"."}, "NETRC": {"."}, "PGPASSFILE": {"."}, "NPM_CONFIG_USERCONFIG": {"."}, "CODEX_HOME": {"auth.json"}, "CLAUDE_CONFIG_DIR": {".credentials.json"},
	} {
		if dir := env(name); filepath.IsAbs(dir) {
			for _, b := range below {
				list = append(list, filepath.Join(dir, filepath.FromSlash(b)))
			}
		}
	}
	for _, path := range filepath.SplitList(env("KUBECONFIG")) {
		if filepath.IsAbs(path) {
			list = append(list, path)
		}
	}
	// What only root may read is no secret from a command of root's.
	list = append(list, "/etc/shadow", "/etc/gshadow", "/run/secrets", "/var/run/secrets", "/run/user")
	slices.Sort(list)
	return slices.Compact(list)
}

// temporary lists the folders for temporary files: but not one in the workspace, and not one that the user's home is in.
func temporary(workspace string) (list []string) {
	home, _ := os.UserHomeDir()
	for _, dir := range []string{"/tmp", "/var/tmp", os.TempDir()} {
		dir = follow(dir)
		_, ours := below(workspace, dir)
		_, homely := below(dir, follow(home))
		if ours || homely && dir != "/tmp" || !exists(dir) || slices.Contains(list, dir) {
			continue
		}
		list = append(list, dir)
	}
	return list
}

// follow makes a path absolute and follows all links, as far as it exists.
func follow(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	dir := filepath.Dir(path)
	if dir == path {
		return path
	}
	return filepath.Join(follow(dir), filepath.Base(path))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// below says how to go down from a folder to a path.
func below(dir, path string) (rel string, ok bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && (rel == "." || filepath.IsLocal(rel))
}

func depth(path string) int { return strings.Count(strings.TrimSuffix(path, "/"), "/") }
