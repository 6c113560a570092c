package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/agent"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/tool"
)

// work wires the agent and lets it answer one message.
func (r *runner) work(ctx context.Context, args []string) agent.Verdict {
	name, prov, model, nameErr := r.chooseModel()
	rules, ruleErr := r.rules()
	r.line.src.Emit(event.Event{Body: r.started(prov, model, rules...)})
	check, schemaErr := r.checks.answer()
	session := agent.New(r.agent(ctx, name, prov, model, rules, check), r.line.src)
	specs := session.Tools()
	r.line.src.Emit(event.Event{Body: catalog(specs)})
	if err := either(nameErr, ruleErr, schemaErr); err != nil {
		return misuse(err)
	}
	if err := r.checks.available(specs); err != nil {
		return agent.Verdict{Outcome: event.Unverified, Reason: err.Error()}
	}
	message, err := r.message(ctx, args)
	if ctx.Err() != nil {
		return agent.Ended(ctx)
	}
	if err != nil {
		return misuse(err)
	}
	r.past(session.Recall)
	if r.checks.expectChange {
		r.tree.before(ctx, r.workspace)
	}
	inbox := make(chan event.Command, 1)
	inbox <- message
	close(inbox)
	v := session.Serve(ctx, inbox)
	if v.Outcome == event.Done {
		if err := r.checks.after(ctx, r); err != nil {
			if ctx.Err() != nil {
				return agent.Ended(ctx)
			}
			v.Outcome, v.Reason = event.Unverified, oneLine(err.Error())
		}
	}
	return v
}

// agent is what the agent is made of.
func (r *runner) agent(ctx context.Context, name, prov, model string, rules []event.Rule, check func(string) error) agent.Config {
	home, _ := os.UserHomeDir()
	g := gate.New(gate.Policy{Mode: r.mode, Rules: rules, Home: home}, gate.Nobody{})
	set := tool.Builtin(tool.Options{
		Workspace: r.workspace, Spill: filepath.Join(r.home, "spill"), Group: &r.group,
		Hidden: func(target string) bool {
			return g.Decide([]gate.Access{{Permission: "read", Target: target, Class: event.ClassInfo}}).Action == gate.Deny
		},
	})
	for _, t := range r.io.Tools {
		set.Add(t)
	}
	price, _ := provider.Lookup(prov, model)
	if p, ok := r.cfg.Prices[name]; ok {
		price = provider.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite, Window: p.Window}
	}
	system := r.system
	if system == "" {
		system = agent.System(r.workspace, r.began)
	}
	return agent.Config{
		Open:     func(context.Context) (provider.Model, error) { return r.open(name) },
		Provider: prov, Model: model, Profile: profile, System: system, Tools: set.Tools(), Gate: g, Price: price,
		MaxTokens: r.maxTokens, Thinking: r.thinking, Turns: r.turns, Rounds: r.rounds, Budget: r.budget,
		OnAsk: r.onAsk, Depth: r.depth, NewSession: newSession, Check: check,
		After:    func(_ context.Context, c agent.Call, end event.ToolEnd) { r.checks.saw(c, end) },
		Changing: func() { r.tree.before(ctx, r.workspace) }, Now: time.Now,
	}
}

// message is what the agent is asked.
func (r *runner) message(ctx context.Context, args []string) (m event.Message, err error) {
	m.Files = r.files
	m.Text, m.Source, err = r.io.readPrompt(ctx, args, r.promptFile)
	if r.resume != "" && errors.Is(err, errNoPrompt) {
		m.Text, m.Source, err = "Go on.", "argument", nil
	}
	for _, f := range r.files {
		if _, ferr := agent.Attach(f); ferr != nil {
			err = either(err, hinted{ferr, "--file names a file to go with the prompt"})
		}
	}
	return m, err
}

// profile is the agent's, if none is named.
const profile = "default"

// chooseModel finds out which model it is. The names are told even if they are wrong.
func (r *runner) chooseModel() (name, prov, model string, err error) {
	name = first(r.model, os.Getenv("SLUICE_MODEL"), r.before(), r.cfg.Model)
	if name == "" {
		var why string
		name, why = provider.Choose(provider.Options{Endpoints: r.endpoints()})
		if name == "demo/demo" {
			why += ": this is the built-in demo model, which can only look around; --model names a real one"
		}
		fmt.Fprintln(r.io.Err, "sluice: "+why)
	}
	var known []string
	for n := range r.cfg.Endpoints {
		known = append(known, n)
	}
	if prov, model, err = provider.Split(name, known...); err != nil {
		prov, model, _ = strings.Cut(name, "/")
		err = hinted{err, "sluice run --help"}
	}
	return name, prov, model, err
}

// before is the model that the session was begun with.
func (r *runner) before() string {
	if r.was.Provider == "" || r.was.Model == "" {
		return ""
	}
	return r.was.Provider + "/" + r.was.Model
}

func (r *runner) endpoints() map[string]provider.Endpoint {
	list := map[string]provider.Endpoint{}
	for name, e := range r.cfg.Endpoints {
		list[name] = provider.Endpoint(e)
	}
	return list
}

// open opens the model; it is asked again when a request fails for a reason that may pass.
func (r *runner) open(name string) (provider.Model, error) {
	m, err := provider.Open(provider.Options{Model: name, BaseURL: r.baseURL, Endpoints: r.endpoints(), Idle: r.idle})
	if err != nil {
		return nil, err
	}
	p := provider.Policy{Retries: r.retries, For: r.retryFor}
	if p.Retries == 0 {
		p.Retries = -1
	}
	return provider.Retrying(m, p), nil
}

// rules are those that come with the face, then the user's, then the flags'.
func (r *runner) rules() ([]event.Rule, error) {
	rules := gate.Defaults("native")
	if r.mode == "" {
		r.mode = first(r.cfg.Mode, gate.ModeDefault)
	}
	for _, list := range []struct {
		action string
		rules  []string
	}{
		{gate.Allow, r.cfg.Allow}, {gate.Ask, r.cfg.Ask}, {gate.Deny, r.cfg.Deny},
		{gate.Allow, r.allow}, {gate.Ask, r.ask}, {gate.Deny, r.deny},
	} {
		for _, text := range list.rules {
			rule, err := gate.ParseRule(list.action, text)
			if err != nil {
				return rules, hinted{err, "sluice run --help"}
			}
			rules = append(rules, rule)
		}
	}
	return rules, nil
}

func (r *runner) started(prov, model string, rules ...event.Rule) event.RunStarted {
	return event.RunStarted{
		Format: event.Format, Program: "sluice", Version: programVersion(), Cwd: r.workspace, Provider: prov, Model: model,
		Profile: profile, Mode: first(r.mode, gate.ModeDefault), Rules: rules, Backend: "sluice", Ephemeral: r.ephemeral, Resumed: r.resume != "",
		Capabilities: &event.Capabilities{Thinking: true},
	}
}

func catalog(specs []tool.Spec) event.Catalog {
	c := event.Catalog{Tools: []event.CatalogTool{}, Skills: []event.CatalogSkill{}}
	for _, t := range specs {
		c.Tools = append(c.Tools, event.CatalogTool{Name: t.Name, Source: "builtin"})
	}
	return c
}

// first returns the first that is not empty.
func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
