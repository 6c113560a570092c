package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/plain"
)

type trustFlags struct {
	workspace    string
	list, remove bool
}

func trustCommand(io IO) *cobra.Command {
	var f trustFlags
	cmd := &cobra.Command{
		Use:   "trust [FILE]",
		Short: "let a project's own file configure runs",
		Long: `A project's .sluice/config.toml came with the repository, so it may only fill in what you left open and make things stricter.
Trust lets it say everything: hooks and servers that are started, rules that allow, endpoints that get your keys. So does it for
the profile of an agent (.sluice/agents/NAME.md). Read the file first. It is trusted as it is now: once it changes, it is not.

Without FILE it is the one that a run in this folder would read.`,
		Example: `  sluice trust
  sluice trust --list
  sluice trust --remove .sluice/config.toml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			trust, err := config.OpenTrust(os.Getenv)
			if err != nil {
				return err
			}
			if f.list {
				if len(args) > 0 {
					return hinted{errors.New("--list takes no file"), "sluice trust --list"}
				}
				return trustList(io, trust)
			}
			file, err := f.file(args)
			if err != nil {
				return err
			}
			if f.remove {
				return trustRemove(io, trust, file)
			}
			return trustAdd(io, trust, file)
		},
	}
	cmd.Flags().StringVarP(&f.workspace, "workspace", "C", "", "folder to work in (the current one)")
	cmd.Flags().BoolVar(&f.list, "list", false, "list what is trusted: as it was, changed, or gone")
	cmd.Flags().BoolVar(&f.remove, "remove", false, "trust it no more")
	cmd.MarkFlagsMutuallyExclusive("list", "remove")
	return cmd
}

// file is the one that is meant.
func (f trustFlags) file(args []string) (string, error) {
	if len(args) > 0 {
		return filepath.Abs(args[0])
	}
	l, err := loadConfig(f.workspace)
	switch {
	case l.Project != "":
		return l.Project, nil // what is wrong with it, if anything is, will be told
	case err != nil:
		return "", err
	}
	return "", hinted{errors.New("there is no .sluice/config.toml here, nor above in this repository"), "sluice trust FILE"}
}

func trustAdd(io IO, trust config.Trust, file string) error {
	folder, name := filepath.Split(file)
	folder = filepath.Clean(folder)
	isConfig := name == "config.toml" && filepath.Base(folder) == ".sluice"
	isProfile := filepath.Ext(name) == ".md" && strings.HasSuffix(filepath.ToSlash(folder), ".sluice/agents")
	if !isConfig && !isProfile {
		return hinted{fmt.Errorf("%s is no file that could be trusted", plain.Name(file)), "trust a .sluice/config.toml or a .sluice/agents/NAME.md"}
	}
	data, err := readTrusted(file)
	if err != nil {
		return fmt.Errorf("%s: %w", plain.Name(file), err)
	}
	if isConfig {
		if _, err := config.Parse(data); err != nil {
			return hinted{fmt.Errorf("%s: %w", plain.Name(file), err), "mend the file first"}
		}
	}
	e, err := trust.Add(file, data, time.Now())
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(io.Out, "trusted %s\nsha256 %s\n", plain.Name(e.Path), e.SHA256); err != nil || isProfile {
		return err
	}
	return trustTell(io, filepath.Dir(folder))
}

// readTrusted reads a file that is trusted, or will be. What stands there now may be anything.
func readTrusted(file string) ([]byte, error) {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	const limit = 64 << 10
	return plain.Read(root, filepath.Base(file), limit)
}

// trustTell says what a project's file sets now.
func trustTell(io IO, folder string) error {
	l, err := loadConfig(folder)
	if err != nil {
		return err
	}
	if !l.Trusted {
		return errors.New("the file has changed meanwhile, so it is not trusted")
	}
	var b bytes.Buffer
	for _, v := range l.Values() {
		if v.From == l.Project {
			fmt.Fprintf(&b, "sets %s = %s\n", v.Key, v.Text())
		}
	}
	_, err = io.Out.Write(b.Bytes())
	return err
}

func trustRemove(io IO, trust config.Trust, file string) error {
	if err := trust.Remove(file); err != nil {
		return hinted{err, "sluice trust --list"}
	}
	_, err := fmt.Fprintf(io.Out, "no longer trusted %s\n", plain.Name(file))
	return err
}

func trustList(io IO, trust config.Trust) error {
	list, err := trust.List()
	if err != nil {
		return hinted{err, "remove that file, and trust the project's anew"}
	}
	var b bytes.Buffer
	for _, e := range list {
		standing := string(config.Trusted)
		if data, err := readTrusted(e.Path); errors.Is(err, os.ErrNotExist) {
			standing = "gone"
		} else if err != nil || !trust.Trusts(e.Path, data) {
			standing = string(config.Changed)
		}
		fmt.Fprintf(&b, "%-8s %s %s\n", standing, e.At.Format(time.DateOnly), plain.Name(e.Path))
	}
	_, err = io.Out.Write(b.Bytes())
	return err
}
