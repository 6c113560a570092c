package cli

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/agent"
	"github.com/sluice-dev/sluice/internal/loop"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/skill"
	"github.com/sluice-dev/sluice/internal/tool"
)

// A troupe is roles that a run lets work along the edges between them, instead of one agent. The zero one: it does not.
type troupe struct {
	loop.Workflow
	roles map[string]agent.Role
}

// troupeOf finds the workflow that the run is to do, if it is to do one. Its roles have some of these tools, or all.
func (r *runner) troupeOf(tools []tool.Tool) (t troupe, err error) {
	if r.workflow == "" {
		return t, nil
	}
	path, err := loop.FindWorkflow(r.workflow, r.workflows())
	if err != nil {
		return t, hinted{err, r.help()}
	}
	if t.Workflow, err = loop.LoadWorkflow(path); err != nil {
		return t, hinted{err, "sluice verify " + path}
	}
	known := r.face.named([]string{"task", "skill"})
	for _, t := range tools {
		known = append(known, t.Spec().Name)
	}
	t.roles = map[string]agent.Role{}
	for _, name := range slices.Sorted(maps.Keys(t.Roles)) {
		role := t.Roles[name]
		as := agent.Role{Name: name, Tools: r.face.named(role.Tools)}
		if i := slices.IndexFunc(as.Tools, func(tool string) bool { return !slices.Contains(known, tool) }); i >= 0 {
			return t, hinted{fmt.Errorf("%s: role %s: there is no tool %q", path, name, as.Tools[i]), "its tools: " + guess("", as.Tools[i], known)}
		}
		if role.Model != "" {
			if as.Provider, as.Model, err = provider.Split(role.Model, slices.Collect(maps.Keys(r.cfg.Endpoints))...); err != nil {
				return t, hinted{fmt.Errorf("%s: role %s: %w", path, name, err), r.help()}
			}
			as.Open = func(context.Context) (provider.Model, error) { return r.open(role.Model) }
			as.Price = r.price(role.Model, as.Provider, as.Model)
		}
		t.roles[name] = as
	}
	return t, nil
}

// workflows are the folders that workflows are looked for in: those of the project from here upwards, then the user's.
func (r *runner) workflows() (folders []string) {
	places := r.places()
	for dir := places.Workspace; ; dir = filepath.Dir(dir) {
		folders = append(folders, filepath.Join(dir, ".sluice", "workflows"))
		if dir == places.Top || dir == filepath.Dir(dir) {
			return append(folders, filepath.Join(places.Config, "workflows"))
		}
	}
}

// perform lets the roles work. Each is a sub-agent of an agent that says nothing itself, and has no more rights than that.
func (r *runner) perform(ctx context.Context, args []string, t troupe, top *agent.Session) outcome.Verdict {
	task, err := r.message(ctx, args)
	if ctx.Err() != nil {
		return outcome.Ended(ctx)
	}
	if err != nil {
		return misuse(err)
	}
	text, used, err := skill.Expand(task.Text, r.gear.skills)
	if err != nil {
		return misuse(hinted{err, r.help()})
	}
	if used != nil {
		task.Text, task.Source = text, "skill"
		r.line.src.Emit(event.Event{Body: event.SkillLoaded{Name: used.Name, Location: used.Location}})
	}
	task.ID = fmt.Sprintf("m%d", r.line.src.Last()+1)
	r.helm.enter()
	_, v := t.Run(ctx, loop.WorkflowOptions{
		Source: r.line.src, Task: task, Dir: r.workspace,
		Play: func(ctx context.Context, role loop.Role, prompt string) (string, outcome.Verdict) {
			return top.Play(ctx, role.Name, prompt, t.roles[role.Name])
		},
	})
	return r.held(ctx, v)
}
