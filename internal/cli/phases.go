package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/agent"
	"github.com/sluice-dev/sluice/internal/guest"
	"github.com/sluice-dev/sluice/internal/loop"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/journal"
)

// A plan is phases that a run works through, instead of answering one message.
type plan struct {
	config loop.Config
	guest  func(backend string) (name string, err error) // who does the work of a phase that says so; empty: our own agent

	mu      sync.Mutex
	session string // of the last phase that began
	label   string // of the marker that ended it all
}

// said is what the plan came to, as far as anybody got: the session of the last phase, and the label of the marker that ended it.
func (p *plan) said() (session, label string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session, p.label
}

// each are all phases.
func (p *plan) each() []loop.Phase { return slices.Concat(p.config.Pre, p.config.Loop, p.config.Post) }

// phases is a run that works through a plan. All of them emit into the one source, each under a session of its own.
type phases struct {
	*runner
	rules             []event.Rule
	name, prov, model string // of our own agent, where a phase does not say
	common            *agent.Common
	at                int64 // where in the journal the session of the last phase begins
}

// conduct works through the plan.
func (r *runner) conduct(ctx context.Context) outcome.Verdict {
	p := &phases{runner: r, common: agent.NewCommon(0)}
	ours, modelErr, profileErr := p.cast()
	var ruleErr error
	p.rules, ruleErr = r.rules()
	started := r.started(p.prov, p.model, r.resolved(p.rules)...)
	err := either(modelErr, profileErr, ruleErr)
	started.Phases = err == nil
	err = either(err, r.announce(started))
	defer r.gear.release()
	if ours {
		err = either(err, r.equip(ctx))
	}
	for _, problem := range r.gear.problems {
		r.notice(problem)
	}
	r.gear.porch.enter(r.line.src)
	for _, s := range r.gear.skills {
		r.line.src.Emit(event.Event{Body: event.SkillFound{Name: s.Name, Description: s.Description, Version: s.Version, Location: s.Location}})
	}
	if err != nil && ctx.Err() == nil {
		return misuse(err)
	}
	r.helm.enter()
	open, shut := context.WithCancel(ctx)
	defer shut()
	result := loop.Run(ctx, r.plan.config, loop.Options{
		Source: r.line.src, Open: p.open, Session: newSession, Inbox: r.helm.feed(open), RunID: r.runID, Dir: r.workspace,
		Retries: r.repeat.most, Wait: r.repeat.pause,
	})
	shut()
	r.helm.dismiss()
	r.plan.mu.Lock()
	r.plan.label = result.Label
	r.plan.mu.Unlock()
	return r.held(ctx, result.Verdict)
}

// cast finds out which model our own agent has, if there is a phase for it that does not say, and which profiles there are. A model
// or an agent that a phase names and that is not there is told now, and not when the phases before it have done their work.
func (p *phases) cast() (ours bool, modelErr, profileErr error) {
	model, profile := false, false
	var own []loop.Phase
	for _, phase := range p.plan.each() {
		if who, err := p.guestOf(phase); who == "" && err == nil {
			own, model, profile = append(own, phase), model || phase.Model == "", profile || phase.Agent == ""
		}
	}
	if model {
		p.name, p.prov, p.model, modelErr = p.chooseModel()
	}
	if len(own) > 0 {
		if _, err := p.profileOf(); profile {
			profileErr = err
		}
	}
	for _, phase := range own {
		_, _, err := p.modelOf(phase)
		_, agentErr := p.gear.profile(phase.Agent)
		if err = either(err, agentErr); err != nil {
			modelErr = either(modelErr, fmt.Errorf("phase %s: %w", phase.Name, err))
		}
	}
	return len(own) > 0, modelErr, profileErr
}

// modelOf is the model that a phase names, if it names one.
func (p *phases) modelOf(phase loop.Phase) (prov, model string, err error) {
	if phase.Model == "" {
		return p.prov, p.model, nil
	}
	return provider.Split(phase.Model, slices.Collect(maps.Keys(p.cfg.Endpoints))...)
}

// guestOf is who does the work of a phase, if it is not our own agent.
func (p *phases) guestOf(phase loop.Phase) (string, error) {
	if phase.Backend == "" {
		return p.runner.guest, nil
	}
	return p.plan.guest(phase.Backend)
}

// open makes a worker for a phase, and tells its session's start: once, however often it is tried.
func (p *phases) open(ctx context.Context, job loop.Job) (loop.Worker, error) {
	p.plan.mu.Lock()
	p.plan.session = job.Session
	p.plan.mu.Unlock()
	p.helm.forget()
	if info, err := os.Stat(p.journal()); err == nil && job.Attempt == 0 && !job.Resumes {
		p.at = info.Size()
	}
	who, err := p.guestOf(job.Phase)
	if err != nil {
		return nil, err
	}
	if who == "" {
		return p.own(ctx, job)
	}
	return p.invite(ctx, job, who)
}

// begin tells that a session begins, or goes on.
func (p *phases) begin(job loop.Job, b event.SessionStarted) {
	if job.Attempt > 0 {
		return
	}
	b.Cwd, b.Resumed = p.workspace, job.Resumes
	p.line.src.Emit(event.Event{Header: event.Header{Session: job.Session}, Body: b})
}

// own is our own agent at work on a phase.
func (p *phases) own(ctx context.Context, job loop.Job) (loop.Worker, error) {
	name, rules := first(job.Phase.Model, p.name), slices.Clone(p.rules)
	prov, model, err := p.modelOf(job.Phase)
	if err != nil {
		return nil, err
	}
	who, err := p.gear.profile(first(job.Phase.Agent, p.profile))
	if err == nil && who.Name != "" {
		if job.Phase.Model != "" {
			who.Model = "" // the phase's counts
		}
		name, prov, model, rules, err = p.play(who, name, prov, model, rules, nil)
	}
	if err != nil {
		return nil, err
	}
	check, err := p.checks.answer()
	if err != nil {
		return nil, err
	}
	cfg := p.agent(ctx, name, prov, model, who, rules, check)
	p.common.After(p.line.src.Last())
	cfg.Session, cfg.Common = job.Session, p.common
	session := agent.New(cfg, p.line.src)
	p.begin(job, event.SessionStarted{Backend: "sluice", Model: model})
	return session, p.recall(job, session.Recall)
}

// invite has a guest at work on a phase.
func (p *phases) invite(ctx context.Context, job loop.Job, who string) (loop.Worker, error) {
	cfg := p.guestConfig(who, p.rules)
	cfg.Session, cfg.CallID = job.Session, p.common.CallID
	cfg.Model, cfg.Profile = first(job.Phase.Model, cfg.Model), first(job.Phase.Agent, cfg.Profile)
	if err := p.recall(job, func(e event.Event) {
		if id, ok := guest.SessionOf(e); ok {
			cfg.Resume = id
		}
	}); err != nil {
		return nil, err
	}
	p.tree.before(ctx, p.workspace)
	session, err := guest.Open(ctx, cfg, p.line.src)
	if err != nil {
		return nil, err
	}
	p.begin(job, event.SessionStarted{Backend: session.Backend(), Model: cfg.Model, DangerouslyLoad: session.Loads()})
	return session, nil
}

// recall tells what a phase goes on with.
func (p *phases) recall(job loop.Job, tell func(event.Event)) error {
	if !job.Resumes {
		return nil
	}
	f, err := os.Open(p.journal())
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(p.at, io.SeekStart); err != nil {
		return err
	}
	for l, err := range journal.Scan(f, nil) {
		if err != nil || !job.Remembers(l.Header) {
			continue // a line that cannot be read was told when it was written
		}
		if e, err := l.Event(); err == nil {
			tell(e)
		}
	}
	return nil
}

// feed brings what others ask for to whichever phase is at work, until ctx ends. Nobody is told that it is accepted before a phase
// has it: the last one may be about to end.
func (h *helm) feed(ctx context.Context) <-chan []event.Command {
	out := make(chan []event.Command)
	hand := func(list []event.Command) error {
		if ctx.Err() != nil {
			return errOver
		}
		select {
		case out <- list:
			return nil
		case <-ctx.Done():
			return errOver
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.park, h.hand = 0, hand // it is over when its phases are, and not when one of them is
	early := h.queue
	h.queue = nil
	go func() {
		for _, m := range early {
			_ = hand([]event.Command{m}) // it fails if nothing was begun
		}
	}()
	return out
}

// forget lets gates go of phases that are over, but the last.
func (h *helm) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gates = h.gates[max(0, len(h.gates)-1):]
}

// problems are all that is wrong with a file, or the one error that it is.
func problems(err error) []error {
	list, ok := errors.AsType[loop.Problems](err)
	if !ok {
		return []error{err}
	}
	var each []error
	for _, p := range list {
		each = append(each, p)
	}
	return each
}
