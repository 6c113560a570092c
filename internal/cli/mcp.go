package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/mcp"
	"github.com/sluice-dev/sluice/internal/proc"
	"github.com/sluice-dev/sluice/internal/secret"
	"github.com/sluice-dev/sluice/internal/tool"
)

func mcpCommand(io IO) *cobra.Command {
	var workspace string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "say which MCP servers are configured, and whether they answer",
		Long: `Mcp starts each server that a run in this folder would have, takes the list of its tools, and ends it again. It prints a line
for each: name, transport, state, tools, how long it took, and what is wrong. The exit code is 1 if one of them does not answer.
With --json it lists the names of the tools as well, which is what rules are written with.`,
		Example: "  sluice mcp\n  sluice mcp --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := loadConfig(workspace)
			if err != nil {
				return orHint(err, "sluice config show")
			}
			if len(l.MCP) == 0 {
				fmt.Fprintln(io.Err, "sluice: no MCP server is configured")
				fmt.Fprintln(io.Err, "sluice: hint: name one under [mcp.NAME] in the file that sluice config path prints")
				if asJSON {
					_, err = fmt.Fprintln(io.Out, "[]")
				}
				return err
			}
			list, err := askServers(cmd.Context(), l, workspace)
			if err == nil {
				err = printServers(io, list, asJSON)
			}
			for _, s := range list {
				if s.State != string(mcp.Ready) && err == nil {
					err = errNo
				}
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "C", "", "folder to work in (the current one)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

// A serverLine is what is said of a server.
type serverLine struct {
	Name      string   `json:"name"`
	Transport string   `json:"transport"`
	State     string   `json:"state"`
	Error     string   `json:"error,omitempty"`
	Version   string   `json:"version,omitempty"`
	Tools     []string `json:"tools"`
	Took      int64    `json:"took_ms"`
}

// askServers connects to all servers and leaves nothing of them behind, also when it is stopped.
func askServers(ctx context.Context, l config.Loaded, workspace string) ([]serverLine, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, stopSignals()...)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	code := make(chan int, 1)
	go func() {
		select {
		case s := <-signals:
			n, _ := signalCode(s)
			code <- n
			cancel()
		case <-ctx.Done():
		}
	}()
	folder, err := filepath.Abs(workspace)
	if err != nil {
		return nil, err
	}
	servers, list := configuredServers(l)
	var group proc.Group
	defer group.Close()
	hub := mcp.Connect(ctx, servers, mcp.Options{Group: &group, Workspace: folder, Version: programVersion()})
	defer hub.Close()
	select {
	case n := <-code:
		return nil, exitError(n)
	default:
	}
	hide := secret.New(slices.Concat(secret.Values(os.Environ(), tool.Secret), serverSecrets(servers)))
	for _, s := range hub.Status() {
		line := serverLine{
			Name: s.Name, Transport: s.Transport, State: string(s.State), Error: hide.String(s.Err), Version: s.Version,
			Tools: []string{}, Took: s.Took.Milliseconds(),
		}
		for _, t := range hub.Tools() {
			if of, ok := t.(interface{ Server() string }); ok && of.Server() == s.Name {
				line.Tools = append(line.Tools, t.Spec().Name)
			}
		}
		list = append(list, line)
	}
	slices.SortFunc(list, func(a, b serverLine) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// configuredServers are the servers that can be started, and a line for each that cannot.
func configuredServers(l config.Loaded) (servers []mcp.Server, not []serverLine) {
	for _, name := range slices.Sorted(maps.Keys(l.MCP)) {
		s, err := mcpServer(name, l.MCP[name])
		if err == nil {
			servers = append(servers, s)
			continue
		}
		line := serverLine{Name: name, Transport: "stdio", State: string(mcp.Failed), Error: oneLine(err.Error()), Tools: []string{}}
		if l.MCP[name].URL != "" {
			line.Transport = "http"
		}
		not = append(not, line)
	}
	return servers, not
}

// serverSecrets are what stands in the configuration of servers and must not get out: their headers, and variables that look
// secret.
func serverSecrets(servers []mcp.Server) (list []secret.Value) {
	for _, s := range servers {
		for name, value := range s.Headers {
			list = append(list, secret.Value{Name: name, Text: value})
			if _, token, ok := strings.Cut(value, " "); ok { // "Bearer …"
				list = append(list, secret.Value{Name: name, Text: token})
			}
		}
		for name, value := range s.Env {
			if tool.Secret(name) {
				list = append(list, secret.Value{Name: name, Text: value})
			}
		}
	}
	return list
}

func printServers(io IO, list []serverLine, asJSON bool) error {
	var b bytes.Buffer
	if asJSON {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(list); err != nil {
			return err
		}
	} else {
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, s := range list {
			took := (time.Duration(s.Took) * time.Millisecond).String()
			fmt.Fprintf(w, "%s\t%s\t%s\t%d tools\t%s\t%s\n", s.Name, s.Transport, s.State, len(s.Tools), took, first(s.Error, s.Version))
		}
		w.Flush()
	}
	_, err := b.WriteTo(io.Out)
	return err
}
