package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/agent"
	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/mcp"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/sandbox"
	"github.com/sluice-dev/sluice/internal/secret"
	"github.com/sluice-dev/sluice/internal/skill"
	"github.com/sluice-dev/sluice/internal/spell"
	"github.com/sluice-dev/sluice/internal/tool"
)

// equipment is what a run has besides its model: all that the workspace and the user have set up for it.
type equipment struct {
	skills   []skill.Skill
	profiles []skill.Profile
	hub      *mcp.Hub
	box      *sandbox.Sandbox
	problems []string // to be told
	porch    porch

	mu    sync.Mutex
	added []*mcp.Hub // of servers that came later
	over  bool       // none may come any more
}

// configure reads the configuration, once it is known where the run works. Flags win over all of it.
func (r *runner) configure() error {
	loaded, err := config.Load(config.Options{Workspace: r.workspace, Top: agent.Top(r.workspace), Flags: r.flags})
	if err != nil {
		return hinted{err, "sluice config show"}
	}
	r.cfg = loaded
	r.mode, r.thinking, r.turns, r.retries = loaded.Mode, loaded.Thinking, loaded.MaxTurns, loaded.Retries
	if r.steps > 0 && loaded.From["max_turns"] == "default" {
		r.turns = 0 // they are counted in another way
	}
	r.timeout, r.stall = time.Duration(loaded.Timeout), time.Duration(loaded.Stall)
	r.budget = agent.Budget{Calls: loaded.Limits.MaxToolCalls, Tokens: loaded.Limits.MaxTotalTokens, Cost: loaded.Limits.MaxCost}
	return nil
}

// equip finds skills and profiles, and starts servers and the sandbox. What is wrong with one of them is told and does not end
// the run, unless somebody said that it must be there.
func (r *runner) equip(ctx context.Context) error {
	e := &r.gear
	e.problems = append(e.problems, r.cfg.Notices()...)
	if r.cfg.Skills {
		var problems []error
		e.skills, problems = skill.Find(r.places())
		e.tell(problems)
	}
	return either(r.enclose(), r.connect(ctx))
}

// places are where skills and profiles are looked for.
func (r *runner) places() skill.Options {
	home, _ := os.UserHomeDir()
	where := skill.Options{Workspace: r.workspace, Top: agent.Top(r.workspace), Home: home, Config: filepath.Dir(r.cfg.User)}
	if trust, err := config.OpenTrust(os.Getenv); err == nil {
		where.Trusted = trust.Trusts
	}
	return where
}

// profileOf finds the profiles, and the one that was named: the first line of the stream says who it is and what it may do.
func (r *runner) profileOf() (skill.Profile, error) {
	var problems []error
	r.gear.profiles, problems = skill.Profiles(r.places())
	r.gear.tell(problems)
	return r.gear.profile(r.profile)
}

func (e *equipment) tell(problems []error) {
	for _, err := range problems {
		e.problems = append(e.problems, err.Error())
	}
}

// enclose opens the sandbox.
func (r *runner) enclose() (err error) {
	state, _ := config.State(os.Getenv)
	r.gear.box, err = sandbox.Open(sandbox.Mode(r.cfg.Sandbox), sandbox.Plan{
		Workspace: r.workspace, Readable: []string{r.spill()}, Hidden: append(sandbox.KeyPlaces(os.Getenv), state), Network: r.cfg.Network,
	})
	if err != nil {
		return hinted{err, r.orHelp("--sandbox auto takes what the machine has")}
	}
	if r.cfg.Sandbox != string(sandbox.Off) {
		r.gear.problems = append(r.gear.problems, r.gear.box.Enforced())
	}
	return nil
}

// connect starts the MCP servers.
func (r *runner) connect(ctx context.Context) error {
	var servers []mcp.Server
	for _, name := range slices.Sorted(maps.Keys(r.cfg.MCP)) {
		s, err := mcpServer(name, r.cfg.MCP[name])
		if err != nil {
			return hinted{err, "sluice mcp"}
		}
		servers = append(servers, s)
	}
	servers = append(servers, r.servers...)
	for i := range servers {
		if r.hurry > 0 {
			servers[i].StartTimeout = min(servers[i].StartTimeout, r.hurry)
		}
	}
	if len(servers) > 0 {
		r.gear.hub = mcp.Connect(ctx, servers, r.hubOptions(r.line.secrets))
	}
	for _, name := range r.requireMCP {
		if err := r.gear.requires(name); err != nil {
			return hinted{err, "sluice mcp"}
		}
	}
	return nil
}

// hubOptions are what servers need. Neither their results nor what they say gets out with a secret in it.
func (r *runner) hubOptions(hide *secret.Redactor) mcp.Options {
	return mcp.Options{
		Group: &r.group, Workspace: r.workspace, Spill: r.spill(), Clean: hide.String, Version: programVersion(),
		Reserved: slices.Collect(maps.Values(r.face.tools)),
		Emit: func(b event.Body) {
			switch said := b.(type) {
			case event.Error:
				said.Message = hide.String(said.Message)
				b = said
			case event.Notice:
				said.Text = hide.String(said.Text)
				b = said
			}
			r.gear.porch.tell(r.line.src, b)
		},
	}
}

// addServer starts a server while the run goes on, and returns its tools. That it does not answer is told.
func (r *runner) addServer(ctx context.Context, s mcp.Server) ([]tool.Tool, error) {
	o := r.hubOptions(secret.New(append(r.secretValues(), serverSecrets([]mcp.Server{s})...)))
	for _, t := range r.gear.tools() {
		o.Reserved = append(o.Reserved, t.Spec().Name)
		if of, ok := t.(interface{ Server() string }); ok && of.Server() == s.Name {
			return nil, fmt.Errorf("there is an MCP server %s already", s.Name)
		}
	}
	hub := mcp.Connect(ctx, []mcp.Server{s}, o)
	if err := r.gear.keep(hub); err != nil || hub.Status()[0].State != mcp.Ready {
		return nil, err
	}
	tools := hub.Tools()
	if tools == nil {
		tools = []tool.Tool{}
	}
	return tools, nil
}

// keep has a server end with the run. One that came too late ends now.
func (e *equipment) keep(h *mcp.Hub) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		h.Close()
		return errEnded
	}
	e.added = append(e.added, h)
	return nil
}

// requires says why a server that must answer does not.
func (e *equipment) requires(name string) error {
	if e.hub != nil {
		for _, s := range e.hub.Status() {
			if s.Name == name && s.State == mcp.Ready {
				return nil
			}
			if s.Name == name {
				return fmt.Errorf("the MCP server %s is required, and does not answer: %s", name, s.Err)
			}
		}
	}
	return fmt.Errorf("the MCP server %s is required, and is not configured", name)
}

// release lets the servers take their leave.
func (e *equipment) release() {
	if e.hub != nil {
		e.hub.Close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	for _, h := range e.added {
		h.Close()
	}
}

// walled puts the sandbox around a command, if there is one.
func (e *equipment) walled(args []string) []string {
	if e.box == nil {
		return args
	}
	return e.box.Wrap(args)
}

// tools are the servers' tools.
func (e *equipment) tools() (list []tool.Tool) {
	if e.hub != nil {
		list = e.hub.Tools()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range e.added {
		list = append(list, h.Tools()...)
	}
	return list
}

// profile returns the one of a name.
func (e *equipment) profile(name string) (skill.Profile, error) {
	if name == "" {
		return skill.Profile{}, nil
	}
	var names []string
	for _, p := range e.profiles {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	there := "there is none"
	if names != nil {
		there = "there are " + strings.Join(names, ", ")
	}
	return skill.Profile{}, hinted{fmt.Errorf("there is no agent %q", name), there + "; .sluice/agents/" + name + ".md would be one"}
}

// roles are the profiles, as sub-agents may play them. None has more rights than its parent.
func (r *runner) roles() (list []agent.Role) {
	for _, p := range r.gear.profiles {
		role := agent.Role{Name: p.Name, Description: p.Description, System: p.Prompt, Tools: r.face.named(p.Tools)}
		var err error
		if role.Rules, err = profileRules(nil, p.Ask, p.Deny); err != nil {
			r.notice(fmt.Sprintf("%s: %v", p.Location, err))
			continue // without one of its rules it might do what it should not
		}
		if p.Model != "" {
			if prov, model, err := provider.Split(p.Model, slices.Collect(maps.Keys(r.cfg.Endpoints))...); err == nil {
				role.Open = func(context.Context) (provider.Model, error) { return r.open(p.Model) }
				role.Provider, role.Model = prov, model
				role.Price = r.price(p.Model, prov, model)
			}
		}
		list = append(list, role)
	}
	return list
}

// missing tells which tools profiles name that nobody has: an agent without them is not what its profile says.
func (r *runner) missing(tools []tool.Tool) {
	known := r.face.named([]string{"skill", "task"})
	for _, t := range tools {
		known = append(known, t.Spec().Name)
	}
	for _, p := range r.gear.profiles {
		for _, name := range r.face.named(p.Tools) {
			if slices.Contains(known, name) {
				continue
			}
			there := "there are " + strings.Join(known, ", ")
			if near := spell.Nearest(name, known); near != "" {
				there = "is " + near + " meant?"
			}
			r.notice(fmt.Sprintf("%s: there is no tool %q; %s", p.Location, name, there))
		}
	}
}

func profileRules(allow, ask, deny []string) (rules []event.Rule, err error) {
	for _, list := range []struct {
		action string
		texts  []string
	}{{gate.Allow, allow}, {gate.Ask, ask}, {gate.Deny, deny}} {
		for _, text := range list.texts {
			rule, rerr := gate.ParseRule(list.action, text)
			if rerr != nil {
				err = cmp.Or(err, rerr)
				continue
			}
			rules = append(rules, rule)
		}
	}
	return rules, err
}

// mcpStart is how long a server may take to start: a run that waits for one does nothing else.
const mcpStart = 30 * time.Second

// mcpServer makes a server of its configuration.
func mcpServer(name string, c config.MCP) (mcp.Server, error) {
	c, err := c.Expand(os.Getenv)
	if err != nil {
		return mcp.Server{}, fmt.Errorf("mcp.%s: %w", name, err)
	}
	return mcp.Server{
		Name: name, Command: slices.Concat(c.Command, c.Args), Env: c.Env, URL: c.URL, Headers: c.Headers,
		Timeout: time.Duration(c.Timeout), StartTimeout: min(time.Duration(c.Timeout), mcpStart),
	}, nil
}
