package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/guest"
	"github.com/sluice-dev/sluice/internal/loop"
	"github.com/sluice-dev/sluice/internal/outcome"
)

func driveCommand(io IO) *cobra.Command {
	o := defaults()
	cmd := &cobra.Command{
		Use:   "drive AGENT [flags] [prompt…]",
		Short: "let another agent do the work, under the same contract",
		Long: `Drive another agent: ` + strings.Join(guest.Names(), ", ") + `, or any other that speaks the Agent Client Protocol, as in
"acp:my-agent --acp". It is started in the workspace, asked, and ended; what it says becomes our events, its questions
go to our rules first, and the exit code is the outcome, whatever its own is. See docs/guests.md.

  sluice drive claude --allow 'bash(go test *)' --mode auto_edit "fix the failing test"
  sluice drive opencode --format avenor --timeout 10m "tidy up"
  sluice drive "acp:npx some-agent --acp" --resume latest "go on"`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.flags.Keys = changed(cmd.Flags())
			o.guest = args[0]
			if err := either(unset(cmd), o.check()); err != nil {
				return err
			}
			if o.terminal != "pty" && o.terminal != "tmux" {
				return hinted{fmt.Errorf("--terminal %q: it is one of pty, tmux", o.terminal), "sluice drive --help"}
			}
			return exitWith(o.run(cmd.Context(), io, args[1:]))
		},
		ValidArgs: guest.Names(),
	}
	f := cmd.Flags()
	o.workFlags(f)
	f.StringVarP(&o.flags.Config.Model, "model", "m", "", "the model, in the agent's own words (its usual one)")
	f.StringVar(&o.profile, "agent", "", "an agent or mode of the agent's own")
	f.StringVar(&o.terminal, "terminal", "pty", "where an agent runs that needs a terminal: pty, tmux")
	return cmd
}

// host lets a guest do the work.
func (r *runner) host(ctx context.Context, args []string) outcome.Verdict {
	rules, ruleErr := r.rules()
	cfg := r.guestConfig(r.guest, rules)
	r.past(func(e event.Event) {
		if id, ok := guest.SessionOf(e); ok {
			cfg.Resume = id
		}
	})
	started := r.started("", cfg.Model, r.resolved(rules)...)
	started.Backend, started.Profile = r.guest, r.profile
	session, err := guest.Open(ctx, cfg, r.line.src)
	if session != nil {
		defer session.Close()
		started.Backend, started.DangerouslyLoad = session.Backend(), session.Loads()
	}
	steerErr := r.announce(started)
	if ctx.Err() != nil {
		return outcome.Ended(ctx)
	}
	if err := either(steerErr, ruleErr, err); err != nil {
		return misuse(hinted{err, r.orHelp("sluice drive --help")})
	}
	r.tree.before(ctx, r.workspace)
	ctx, release := loop.Watch(ctx, r.line.src) // our own agent looks itself at what a model says
	defer release()
	return r.serve(ctx, args, session)
}

// guestConfig is how a guest is started, and under which rules it works.
func (r *runner) guestConfig(name string, rules []event.Rule) guest.Config {
	home, _ := os.UserHomeDir()
	r.gate = gate.New(gate.Policy{Mode: r.mode, Rules: rules, Home: home, Own: r.own}, r.answerers()...)
	r.helm.watch(r.gate)
	cfg := guest.Config{
		Agent: name, Workspace: r.workspace, Profile: r.profile, Label: r.label, Terminal: r.terminal, Group: &r.group, Gate: r.gate,
		Approve: r.autoApprove, OnAsk: r.onAsk, Answer: r.deadline(), Judge: r.judge(), Stay: r.helm.park > 0, Now: time.Now,
	}
	if self, err := os.Executable(); err == nil {
		cfg.Sidecar = []string{self, "claude-channel"}
	}
	if strings.HasPrefix(r.cfg.From["model"], "--") { // what is configured is a model of ours
		cfg.Model = r.cfg.Model
	}
	return cfg
}
