package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/tool"
)

// A Role is what a sub-agent may be.
type Role struct {
	Name        string
	Description string
	System      string                                        // instead of the parent's
	Tools       []string                                      // names; nil: the parent's
	Open        func(context.Context) (provider.Model, error) // another model; nil: the parent's
	Provider    string
	Model       string
	Price       provider.Price
	Rules       []event.Rule // beside the parent's
}

// general is what rules call a sub-agent that has no role. Titles are the model's own words, and nothing to hold a rule against.
const general = "general"

// task is the tool that starts a sub-agent.
type task struct{ parent *Session }

// taskInput are its arguments.
type taskInput struct {
	Description string `json:"description"`
	Prompt      string `json:"prompt"`
	Agent       string `json:"agent"`
}

// Spec implements [tool.Tool].
func (t task) Spec() tool.Spec {
	about := "Give a part of the work to a sub-agent. It sees nothing of this conversation but the prompt, works alone with the same tools, and its " +
		"last message is the result. Several calls in one answer work at the same time."
	agent := map[string]any{"type": "string", "description": "which kind of agent; leave it out for a general one"}
	if roles := t.parent.cfg.Roles; len(roles) > 0 {
		var names []string
		for _, r := range roles {
			names = append(names, r.Name)
			about += fmt.Sprintf("\n- agent %q: %s", r.Name, r.Description)
		}
		agent["enum"] = names
	}
	schema, err := json.Marshal(map[string]any{
		"type": "object", "required": []string{"description", "prompt"},
		"properties": map[string]any{
			"description": map[string]any{"type": "string", "description": "three to six words, for a person"},
			"prompt":      map[string]any{"type": "string", "description": "the whole task: what to do, what to know, what to answer"},
			"agent":       agent,
		},
	})
	if err != nil {
		panic(err)
	}
	return tool.Spec{Name: "task", Description: about, Class: event.ClassExec, Schema: schema}
}

// Plan implements [tool.Tool].
func (t task) Plan(input event.Raw) (tool.Plan, error) {
	var in taskInput
	if err := json.Unmarshal(input, &in); err != nil {
		return tool.Plan{}, fmt.Errorf("wrong arguments: %w", err)
	}
	if strings.TrimSpace(in.Prompt) == "" {
		return tool.Plan{}, errors.New(`"prompt" is missing: say what the sub-agent shall do`)
	}
	role := Role{}
	if in.Agent != "" {
		i := slices.IndexFunc(t.parent.cfg.Roles, func(r Role) bool { return r.Name == in.Agent })
		switch {
		case i >= 0:
			role = t.parent.cfg.Roles[i]
		case in.Agent != general: // which is what models of other programs, and our own rules, call the one without a role
			return tool.Plan{}, fmt.Errorf("there is no agent %q: leave it out for a general one", in.Agent)
		}
	}
	title := in.Description
	if title == "" {
		title, _, _ = strings.Cut(in.Prompt, "\n")
	}
	return tool.Plan{
		Title:  title,
		Access: []gate.Access{{Permission: "task", Target: cmp.Or(role.Name, general), Class: event.ClassExec}},
		Run: func(ctx context.Context, _ func(string)) tool.Result {
			return t.parent.spawn(ctx, title, in.Prompt, role)
		},
	}, nil
}

// spawn runs a sub-agent to its end, for a call.
func (s *Session) spawn(ctx context.Context, title, prompt string, role Role) tool.Result {
	parent, _ := ctx.Value(replyKey{}).(*reply)
	r, v := s.play(ctx, title, prompt, role, parent)
	switch v.Outcome {
	case event.Denied, event.Budget, event.Internal: // these end the whole run
		if parent != nil {
			parent.mu.Lock()
			parent.fatal = &v
			parent.mu.Unlock()
		}
	}
	meta, _ := json.Marshal(map[string]any{"agent": r.path, "session": r.name, "turns": r.turn})
	result := tool.Result{Output: r.answerText(), Metadata: meta}
	if v.Outcome != event.Done {
		result.Error = "the sub-agent failed: " + v.Reason
	}
	return result
}

// Play runs a sub-agent in a role, for whoever conducts several of them. It returns the last thing that it said.
func (s *Session) Play(ctx context.Context, title, prompt string, role Role) (string, outcome.Verdict) {
	r, v := s.play(ctx, title, prompt, role, nil)
	r.mu.Lock()
	v.Usage, v.Cost, v.Denials, v.Denied = r.usage, r.cost, r.denials, r.denied
	r.mu.Unlock()
	return r.answerText(), v
}

// play runs a sub-agent to its end. It has no more rights than its parent: the gate is the same, or a stricter one.
func (s *Session) play(ctx context.Context, title, prompt string, role Role, parent *reply) (*reply, outcome.Verdict) {
	child := s.child(role)
	child.emit(event.AgentStarted{Parent: s.name, Title: title, Role: role.Name, Prompt: prompt, Depth: child.depth})
	r := &reply{Session: child, parent: parent}
	v, sound := r.run(ctx)
	over := event.AgentEnded{Parent: s.name}
	if v.Outcome != event.Done {
		over.Error = v.Reason
	}
	if sound {
		child.emit(over)
	}
	return r, v
}

// replyKey is where a context has the reply that a call belongs to.
type replyKey struct{}

// child is a session of a sub-agent.
func (s *Session) child(role Role) *Session {
	cfg := s.cfg
	cfg.Depth--
	cfg.Check = nil
	if len(role.Rules) > 0 {
		cfg.Gate = cfg.Gate.Stricter(role.Rules)
	}
	if role.Tools != nil {
		cfg.Only = slices.DeleteFunc(slices.Clone(role.Tools), func(name string) bool { return !cfg.has(name) })
	}
	if role.System != "" {
		cfg.System = role.System
	}
	if role.Name != "" {
		cfg.Profile = role.Name
	}
	cfg.Tools = slices.DeleteFunc(slices.Clone(cfg.Tools), func(t tool.Tool) bool {
		return t.Spec().Top
	})
	sh := s.shared
	c := newSession(sh, cfg)
	if role.Open != nil {
		c.own = &model{}
		c.cfg.Open, c.cfg.Provider, c.cfg.Model, c.cfg.Price = role.Open, role.Provider, role.Model, role.Price
	}
	c.path = s.Common.agent()
	if s.path != "" {
		c.path = s.path + "/" + c.path
	}
	c.depth = s.depth + 1
	if cfg.NewSession != nil {
		c.name = cfg.NewSession()
	}
	c.history.Agent = c.path
	return c
}

// answerText is the last thing that was said.
func (r *reply) answerText() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.history.Events()
	for i := len(events) - 1; i >= 0; i-- {
		if b, ok := events[i].Body.(event.Text); ok {
			return b.Text
		}
	}
	return ""
}
