package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/skill"
	"github.com/sluice-dev/sluice/internal/tool"
)

// invoke is the tool that loads a skill. Its description has every skill's name and what it is for; a skill's text enters the
// context only when it is called.
type invoke struct{ skills []skill.Skill }

// Spec implements [tool.Tool].
func (t invoke) Spec() tool.Spec {
	about := "Load a skill: instructions for a kind of work. Load one when the task is what it is for."
	names := make([]string, len(t.skills))
	for i, s := range t.skills {
		names[i] = s.Name
		about += fmt.Sprintf("\n- %s: %s", s.Name, s.Description)
	}
	schema, err := json.Marshal(map[string]any{
		"type": "object", "required": []string{"name"},
		"properties": map[string]any{
			"name":      map[string]any{"type": "string", "enum": names},
			"arguments": map[string]any{"type": "string", "description": "what the skill is to be applied to, if it wants to know"},
		},
	})
	if err != nil {
		panic(err) // names are strings
	}
	return tool.Spec{Name: "skill", Description: about, Class: event.ClassInfo, Schema: schema}
}

// Plan implements [tool.Tool].
func (t invoke) Plan(input event.Raw) (tool.Plan, error) {
	var in struct{ Name, Arguments string }
	if err := json.Unmarshal(input, &in); err != nil {
		return tool.Plan{}, fmt.Errorf("wrong arguments: %w", err)
	}
	i := slices.IndexFunc(t.skills, func(s skill.Skill) bool { return s.Name == in.Name })
	if i < 0 {
		return tool.Plan{}, fmt.Errorf("there is no skill %q", in.Name)
	}
	s := t.skills[i]
	return tool.Plan{
		Title:  s.Name,
		Access: []gate.Access{{Permission: "skill", Target: s.Name, Class: event.ClassInfo}},
		Run: func(ctx context.Context, _ func(string)) tool.Result {
			text, err := s.Invoke(in.Arguments)
			if err != nil {
				return tool.Result{Error: err.Error()}
			}
			if r, ok := ctx.Value(replyKey{}).(*reply); ok {
				r.emit(event.SkillLoaded{Name: s.Name, Location: s.Location})
			}
			return tool.Result{Output: text}
		},
	}, nil
}

// expand makes of a prompt that begins with a skill's name what the skill says.
func (r *reply) expand(m event.Message) (event.Message, *skill.Skill, error) {
	text, used, err := skill.Expand(m.Text, r.cfg.Skills)
	if used != nil {
		m.Text, m.Source = text, "skill"
	}
	return m, used, err
}

// noticeSkill tells that a file of a skill's folder was read.
func (r *reply) noticeSkill(c *call) {
	for _, a := range c.passed {
		if a.Permission != "read" || len(r.cfg.Skills) == 0 {
			continue
		}
		path := filepath.FromSlash(a.Target)
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.cfg.Workspace, path)
		}
		if s, file, ok := skill.Owner(path, r.cfg.Skills); ok && !strings.EqualFold(file, "SKILL.md") {
			r.emit(event.SkillRead{Name: s.Name, File: path})
		}
	}
}
