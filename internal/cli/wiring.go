package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/agent"
	"github.com/sluice-dev/sluice/internal/control"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/plain"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/sandbox"
	"github.com/sluice-dev/sluice/internal/skill"
	"github.com/sluice-dev/sluice/internal/tool"
)

// A worker does the work: our own agent, or a guest.
type worker interface {
	Serve(ctx context.Context, inbox <-chan event.Command) outcome.Verdict
	Recall(event.Event)
}

// work lets the agent do the work, or a guest; or several, one after the other.
func (r *runner) work(ctx context.Context, args []string) outcome.Verdict {
	switch {
	case r.plan != nil:
		return r.conduct(ctx)
	case r.guest != "":
		return r.host(ctx, args)
	}
	return r.labour(ctx, args)
}

// labour wires our own agent and lets it answer one message.
func (r *runner) labour(ctx context.Context, args []string) outcome.Verdict {
	name, prov, model, nameErr := r.chooseModel()
	rules, ruleErr := r.rules()
	who, profileErr := r.profileOf()
	if profileErr == nil && who.Name != "" {
		name, prov, model, rules, ruleErr = r.play(who, name, prov, model, rules, ruleErr)
	}
	if err := r.announce(r.started(prov, model, r.resolved(rules)...)); err != nil {
		return misuse(err)
	}
	defer r.gear.release()
	gearErr := r.equip(ctx)
	for _, p := range r.gear.problems {
		r.notice(p)
	}
	check, schemaErr := r.checks.answer()
	var openErr error
	if r.eager && nameErr == nil {
		if _, openErr = r.open(name); openErr != nil {
			openErr = hinted{openErr, ""}
		}
	}
	cfg := r.agent(ctx, name, prov, model, who, rules, check)
	r.missing(cfg.Tools)
	session := agent.New(cfg, r.line.src)
	specs := session.Tools()
	r.line.src.Emit(event.Event{Body: r.catalog(specs)})
	r.gear.porch.enter(r.line.src)
	for _, s := range r.gear.skills {
		r.line.src.Emit(event.Event{Body: event.SkillFound{Name: s.Name, Description: s.Description, Version: s.Version, Location: s.Location}})
	}
	if ctx.Err() != nil {
		return outcome.Ended(ctx)
	}
	cast, castErr := r.troupeOf(cfg.Tools)
	if err := either(nameErr, openErr, ruleErr, schemaErr, profileErr, gearErr, castErr); err != nil {
		return misuse(err)
	}
	if err := r.checks.available(specs); err != nil {
		return outcome.Verdict{Outcome: event.Unverified, Reason: err.Error()}
	}
	if cast.roles != nil {
		return r.perform(ctx, args, cast, session)
	}
	r.talk = session
	return r.serve(ctx, args, session)
}

// serve lets a worker answer one message, or what comes through the door, and says how the run ends.
func (r *runner) serve(ctx context.Context, args []string, session worker) outcome.Verdict {
	var message event.Message
	if r.door == nil {
		var err error
		message, err = r.message(ctx, args)
		if ctx.Err() != nil {
			return outcome.Ended(ctx)
		}
		if err != nil {
			return misuse(err)
		}
	}
	r.past(session.Recall)
	if r.checks.expectChange {
		if r.tree.before(ctx, r.workspace); r.tree.state == nil && ctx.Err() == nil {
			return outcome.Verdict{Outcome: event.Unverified, Reason: "a change is expected, and nobody could see one: " + r.workspace + " is in no git work tree, or there is no git"}
		}
	}
	r.helm.enter()
	var v outcome.Verdict
	if r.door != nil {
		v = r.converse(ctx, session)
	} else {
		v = r.replies(ctx, session, message)
	}
	return r.held(ctx, v)
}

// held holds a run that ended so to what was asked of it.
func (r *runner) held(ctx context.Context, v outcome.Verdict) outcome.Verdict {
	if v.Outcome == event.Done {
		if err := r.checks.after(ctx, r); err != nil {
			if ctx.Err() != nil {
				return outcome.Ended(ctx)
			}
			v.Outcome, v.Reason = event.Unverified, oneLine(err.Error())
		}
	}
	v = r.denied(v)
	r.atEnd(v)
	return v
}

// attend minds the door. A bug there ends the run, and not the program.
func (r *runner) attend(ctx context.Context, inbox chan<- event.Command) {
	defer func() {
		if p := recover(); p != nil {
			r.stop(&outcome.Cause{Outcome: event.Internal, Reason: fmt.Sprintf("panic: %v", p)})
		}
	}()
	r.door(ctx, r, inbox)
}

// converse lets a worker answer what comes through the door.
func (r *runner) converse(ctx context.Context, session worker) outcome.Verdict {
	inbox := make(chan event.Command, 1)
	open, shut := context.WithCancel(ctx)
	defer shut()
	go r.attend(open, inbox)
	v := session.Serve(ctx, inbox)
	if ctx.Err() == nil && v.Outcome != event.Internal {
		v.Outcome, v.Reason = event.Done, "" // a conversation that came to its end, whatever became of its replies
	}
	return v
}

// agent is what the agent is made of.
func (r *runner) agent(ctx context.Context, name, prov, model string, who skill.Profile, rules []event.Rule, check func(string) error) agent.Config {
	home, _ := os.UserHomeDir()
	g := gate.New(gate.Policy{Mode: r.mode, Rules: rules, Home: home, Own: r.own}, r.answerers()...)
	r.gate = g
	r.helm.watch(g)
	o := tool.Options{
		Workspace: r.workspace, Spill: r.spill(), Group: &r.group, Sandbox: r.gear.walled, Clean: r.line.secrets.Writer,
		Hidden: func(target string) bool {
			return g.Decide([]gate.Access{{Permission: "read", Target: target, Class: event.ClassInfo}}).Action == gate.Deny
		},
	}
	for _, s := range r.gear.skills {
		o.Readable = append(o.Readable, s.Dir)
	}
	set := tool.Builtin(o)
	for _, t := range slices.Concat(r.io.Tools, r.gear.tools()) {
		set.Add(t)
	}
	set.Rename(r.face.tools, r.face.args)
	return agent.Config{
		Open:     func(context.Context) (provider.Model, error) { return r.open(name) },
		Provider: prov, Model: model, Profile: first(who.Name, profile), System: r.instructions(who),
		Tools: set.Tools(), Only: r.face.named(who.Tools), Names: r.face.tools, Args: r.face.args, Describe: r.face.calls, Gate: g, Permission: r.face.permit, Price: r.price(name, prov, model),
		MaxTokens: r.maxTokens, Longer: r.longer(), Thinking: r.thinking, Forget: r.face.forget, Turns: r.turns, Rounds: r.rounds, Steps: r.steps, Budget: r.budget,
		OnAsk: r.onAsk, Answer: r.deadline(), Options: r.face.options, Depth: r.depth, NewSession: newSession, Check: check, Judge: r.judge(),
		Workspace: r.workspace, Skills: r.gear.skills, Roles: r.roles(),
		Before: r.beforeTool,
		After: func(ctx context.Context, c agent.Call, end event.ToolEnd) {
			r.checks.saw(c, end)
			r.afterTool(ctx, c, end)
		},
		Changing: func() { r.tree.before(ctx, r.workspace) }, Now: time.Now,
	}
}

// longer says how an answer can be longer, where there is a flag for it.
func (r *runner) longer() string {
	if r.face.name == "" {
		return longer
	}
	return r.face.longer
}

const longer = "--max-tokens raises it"

// instructions are what the model is told first.
func (r *runner) instructions(who skill.Profile) string {
	text := first(r.system, who.Prompt)
	if text == "" {
		text = agent.System(r.workspace, r.began)
	}
	if r.cfg.Sandbox != string(sandbox.Off) && r.gear.box != nil {
		text += "\n" + r.gear.box.Enforced() + "\n"
	}
	return text
}

// play takes on a profile: its model, if nobody named one, and its rules. One that the user does not trust allows nothing.
func (r *runner) play(who skill.Profile, name, prov, model string, rules []event.Rule, err error) (string, string, string, []event.Rule, error) {
	more, ruleErr := profileRules(who.Allow, who.Ask, who.Deny)
	if who.Model != "" && (r.cfg.From["model"] == "default" || who.Trusted && !r.named()) {
		var splitErr error
		name = who.Model
		prov, model, splitErr = provider.Split(name, slices.Collect(maps.Keys(r.cfg.Endpoints))...)
		err = either(err, splitErr)
	}
	return name, prov, model, append(rules, more...), either(err, ruleErr)
}

// named says whether the command line or the environment names a model.
func (r *runner) named() bool {
	from := r.cfg.From["model"]
	return strings.HasPrefix(from, "--") || strings.HasPrefix(from, "SLUICE_")
}

// price is what a model costs, by the user's word or by the table.
func (r *runner) price(name, prov, model string) provider.Price {
	if p, ok := r.cfg.Prices[name]; ok {
		return provider.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite, Window: p.Window}
	}
	if r.prices != nil {
		if p, ok := r.prices(prov, model); ok {
			return p
		}
	}
	p, _ := provider.Lookup(prov, model)
	return p
}

// answerers are those who answer questions: nobody is there, unless the face knows somebody, or all of them were said yes to
// beforehand, or somebody is expected who answers by file or over the control socket. The first answer counts.
func (r *runner) answerers() (list []gate.Answerer) {
	switch {
	case r.asked != nil:
		return []gate.Answerer{r.asked}
	case r.autoApprove:
		return []gate.Answerer{gate.Auto{}}
	}
	if r.handler != "" {
		list = append(list, r.byFile())
	}
	if r.onAsk == forward {
		list = append(list, gate.Inbox{})
	}
	return list // if it is empty the gate knows that nobody is there
}

// forward is what is done with a question that somebody may answer from outside.
const forward = "forward"

// deadline is how long a question waits for whoever answers over the control socket; 0: others look at the clock.
func (r *runner) deadline() time.Duration {
	if r.onAsk != forward || r.handler != "" || r.asked != nil {
		return 0
	}
	return r.patient
}

// byFile asks by files. What goes wrong with them is told in the stream.
func (r *runner) byFile() *control.Files {
	return &control.Files{
		Base: strings.TrimPrefix(r.handler, byFiles), Deadline: r.patient, Session: func() string { return r.session }, Hide: r.line.secrets.String,
		Tell: func(_ event.GateAsked, err error) {
			r.line.src.Emit(event.Event{Body: event.Error{Name: "PermissionError", Message: err.Error(), Source: "permission", Retryable: new(false)}})
		},
	}
}

func (r *runner) spill() string { return filepath.Join(r.home, "spill") }

// message is what the agent is asked.
func (r *runner) message(ctx context.Context, args []string) (m event.Message, err error) {
	m.Files = r.files
	m.Text, m.Source, err = r.io.readPrompt(ctx, args, r.promptFile)
	if errors.Is(err, errNoPrompt) && r.face.name != "" {
		err = hinted{errNoPrompt, r.help()}
	}
	if r.command != "" && (err == nil || errors.Is(err, errNoPrompt)) {
		m.Text, err = r.commanded(m.Text)
	}
	if r.resume != "" && errors.Is(err, errNoPrompt) {
		m.Text, m.Source, err = "Go on.", "argument", nil
	}
	for _, f := range r.files {
		if _, ferr := agent.Attach(f); ferr != nil {
			if pe, ok := errors.AsType[*fs.PathError](ferr); ok {
				ferr = fmt.Errorf("%s: %w", shortPath(f), pe.Err)
			}
			err = either(err, hinted{ferr, "--file names a file to go with the prompt"})
		}
	}
	return m, err
}

// shortPath shows a path that may be of any length.
func shortPath(path string) string {
	const limit = 200
	if r := []rune(plain.Name(path)); len(r) > limit {
		return "…" + string(r[len(r)-limit:])
	}
	return plain.Name(path)
}

// commanded is a prompt for a skill.
func (r *runner) commanded(text string) (string, error) {
	var names []string
	for _, s := range r.gear.skills {
		if s.Name == r.command {
			return strings.TrimSpace("/" + r.command + " " + text), nil
		}
		names = append(names, s.Name)
	}
	hint := "there is none here"
	if names != nil {
		hint = "there are " + strings.Join(names, ", ")
	}
	return "", hinted{fmt.Errorf("there is no command %q: a skill of that name would be one", r.command), hint}
}

// profile is the agent's, if none is named.
const profile = "default"

// chooseModel finds out which model it is. The names are told even if they are wrong.
func (r *runner) chooseModel() (name, prov, model string, err error) {
	name = r.cfg.Model
	if !r.named() {
		name = first(r.before(), name)
	}
	if name == "" {
		var why string
		choose := provider.Choose
		if r.otherwise != nil {
			choose = r.otherwise
		}
		name, why = choose(provider.Options{Endpoints: r.endpoints()})
		if name == "demo/demo" {
			why += ": this is the built-in demo model, which can only look around; --model names a real one"
		}
		if why != "" {
			fmt.Fprintln(r.io.Err, "sluice: "+r.line.secrets.String(why))
		}
	}
	var known []string
	for n := range r.cfg.Endpoints {
		known = append(known, n)
	}
	if prov, model, err = provider.Split(name, known...); err != nil {
		prov, model = wrongModel(name)
		err = hinted{err, r.help()}
	}
	r.flagged = prov
	return name, prov, model, err
}

// wrongModel takes a name apart that may be none.
func wrongModel(name string) (prov, model string) {
	prov, model, ok := strings.Cut(name, "/")
	if !ok {
		return "", name
	}
	return prov, model
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
	o := provider.Options{Model: name, BaseURL: r.baseURL, Endpoints: r.endpoints(), Idle: r.idle}
	if prov, _, _ := strings.Cut(name, "/"); prov == r.flagged {
		o.Key = r.key // a sub-agent's model may be somebody else's, who must not get it
	}
	m, err := provider.Open(o)
	if err != nil {
		return nil, err
	}
	p := provider.Policy{Retries: r.retries, For: r.retryFor}
	if p.Retries == 0 {
		p.Retries = -1
	}
	return provider.Retrying(m, p), nil
}

// rules are those that come with the face, then those of the configuration and the flags, in the order in which they count.
func (r *runner) rules() ([]event.Rule, error) {
	rules := gate.Defaults(first(r.face.name, gate.FaceNative))
	if r.law != nil {
		var err error
		home, _ := os.UserHomeDir()
		if r.theirs, r.own, err = r.law(r.workspace, home); err != nil {
			return nil, hinted{err, r.help()}
		}
		rules = nil
	}
	for _, c := range r.cfg.Rules {
		rule, err := gate.ParseRule(c.Action, c.Text)
		if err != nil {
			return rules, hinted{fmt.Errorf("%s: %w", c.From, err), r.help()}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// resolved are the rules as they are told. Those of a face whose last rule wins are told so that it is true here as well: what is
// denied stands last.
func (r *runner) resolved(rules []event.Rule) []event.Rule {
	if r.law == nil {
		return rules
	}
	list, denied := slices.Clone(r.theirs), gate.Protected()
	for _, rule := range rules {
		if rule.Action == gate.Deny {
			denied = append(denied, rule)
		} else {
			list = append(list, rule)
		}
	}
	return append(list, denied...)
}

func (r *runner) started(prov, model string, rules ...event.Rule) event.RunStarted {
	return event.RunStarted{
		Format: event.Format, Program: "sluice", Version: programVersion(), Cwd: r.workspace, Provider: prov, Model: model,
		Profile: first(r.profile, profile), Run: r.runID, Label: r.label, Mode: first(r.mode, gate.ModeDefault), Rules: rules, Backend: "sluice", Ephemeral: r.ephemeral, Resumed: r.resume != "",
		Capabilities: &event.Capabilities{ToolApproval: r.asked != nil || r.onAsk == forward, Thinking: true, MCP: len(r.cfg.MCP)+len(r.servers) > 0},
	}
}

func (r *runner) catalog(specs []tool.Spec) event.Catalog {
	c := event.Catalog{Tools: []event.CatalogTool{}, Skills: []event.CatalogSkill{}}
	servers := map[string]string{}
	for _, t := range r.gear.tools() {
		if s, ok := t.(interface{ Server() string }); ok {
			servers[t.Spec().Name] = s.Server()
		}
	}
	for _, t := range specs {
		at := event.CatalogTool{Name: t.Name, Source: "builtin"}
		if server, ok := servers[t.Name]; ok {
			at.Source, at.Server = "mcp", server
		}
		c.Tools = append(c.Tools, at)
	}
	for _, s := range r.gear.skills {
		at := event.CatalogSkill{Name: s.Name}
		if s.Version != "" {
			at.Version = new(s.Version)
		}
		c.Skills = append(c.Skills, at)
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
