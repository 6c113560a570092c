package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/internal/agent"
	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/plain"
)

func configCommand(io IO) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "what is configured here, and by whom",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(configShowCommand(io), configPathCommand(io))
	for _, sub := range cmd.Commands() {
		sub.Args = hintArgs(sub.Args)
	}
	return cmd
}

func configShowCommand(io IO) *cobra.Command {
	var workspace string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "print what is in force and where it came from",
		Long: `Show prints every value that a run in this folder would have, and where it came from: the default, your file, the
project's file, a variable or a flag. What the project's file says and may not say is listed with the reason. What may be a
secret is hidden.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			l, err := loadConfig(workspace)
			if err != nil {
				return orHint(err, "mend or remove the file or the variable")
			}
			var out []byte
			if asJSON {
				out, err = configJSON(l)
			} else {
				out = configText(l)
			}
			if err == nil {
				_, err = io.Out.Write(out)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "C", "", "folder to work in (the current one)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

func configPathCommand(io IO) *cobra.Command {
	return &cobra.Command{
		Use:   "path",
		Short: "print where your file is, or would be",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := config.Path(os.Getenv)
			if err == nil {
				_, err = fmt.Fprintln(io.Out, path)
			}
			return err
		},
	}
}

// loadConfig reads what is configured for a folder.
func loadConfig(workspace string) (config.Loaded, error) {
	folder, err := theWorkspace(workspace)
	if err != nil {
		return config.Loaded{}, err
	}
	return config.Load(config.Options{Workspace: folder, Top: agent.Top(folder)})
}

// configText is a configuration as it would stand in a file, with its origins as comments.
func configText(l config.Loaded) []byte {
	var b bytes.Buffer
	if l.Project != "" {
		standing := "not trusted"
		if l.Trusted {
			standing = "trusted"
		}
		fmt.Fprintf(&b, "# %s is %s\n", plain.Name(l.Project), standing)
	}
	const column = 40
	values := l.Values()
	for i, v := range values {
		from := plain.Name(v.From)
		if v.Value == "" {
			fmt.Fprintf(&b, "%-*s # %s\n", column, "# "+v.Key+" is not set", from)
			continue
		}
		if _, list := l.From[v.Key+"[0]"]; !list {
			fmt.Fprintf(&b, "%-*s # %s\n", column, v.Key+" = "+v.Text(), from)
			continue
		}
		if i == 0 || values[i-1].Key != v.Key {
			fmt.Fprintf(&b, "%s = [\n", v.Key)
		}
		fmt.Fprintf(&b, "%-*s # %s\n", column, "  "+v.Text()+",", from)
		if i == len(values)-1 || values[i+1].Key != v.Key {
			b.WriteString("]\n")
		}
	}
	for _, line := range l.Notices() {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	return b.Bytes()
}

// configJSON is the same for programs.
func configJSON(l config.Loaded) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(struct {
		User    string           `json:"user"`
		Project string           `json:"project,omitempty"`
		Trusted bool             `json:"trusted"`
		Values  []config.Value   `json:"values"`
		Ignored []config.Ignored `json:"ignored"`
	}{l.User, l.Project, l.Trusted, l.Values(), append([]config.Ignored{}, l.Ignored...)})
	return b.Bytes(), err
}
