package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/agent"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/proc"
	"github.com/sluice-dev/sluice/internal/tool"
)

// hookTime is how long a hook may take.
const hookTime = time.Minute

// hook runs one hook: a program and its arguments, what happened as an event on its stdin, as a journal has it. Nothing of what happened is
// ever put into its arguments: a model could write a command there. The error is what it said on stderr, if it did not exit
// with 0.
func (r *runner) hook(ctx context.Context, argv []string, what event.Event) error {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	line := append(event.Append(nil, what), '\n')
	var said tail
	p, err := r.group.Start(proc.Cmd{
		Args: argv, Dir: r.workspace, Env: tool.Environment(os.Environ()), Stdin: bytes.NewReader(line), Stdout: &said, Stderr: &said,
	})
	if err != nil {
		return fmt.Errorf("the hook %s cannot be run: %w", argv[0], err)
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
	}
	exit := p.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the hook %s did not come to an end", argv[0])
	case exit.Code != 0 || exit.Err != nil:
		why := oneLine(said.String())
		if why == "" {
			why = exit.String()
		}
		return fmt.Errorf("the hook %s refused it: %s", argv[0], why)
	}
	return nil
}

// about is an event of a call, for a hook.
func (r *runner) about(c agent.Call, b event.Body) event.Event {
	return event.Event{Header: event.Header{Session: r.session, Agent: c.Agent, Call: c.ID}, Body: b}.Stamp()
}

// beforeTool asks the hooks whether a call may run.
func (r *runner) beforeTool(ctx context.Context, c agent.Call) error {
	for _, argv := range r.cfg.Hooks.BeforeTool {
		if err := r.hook(ctx, argv, r.about(c, event.ToolCalled{Name: c.Tool, Input: c.Input})); err != nil {
			return err
		}
	}
	return nil
}

// afterTool tells the hooks what came of a call. What they say then changes nothing, but a hook that fails is told.
func (r *runner) afterTool(ctx context.Context, c agent.Call, end event.ToolEnd) {
	if ctx.Err() != nil {
		return // whoever stopped the run does not want to wait
	}
	for _, argv := range r.cfg.Hooks.AfterTool {
		what := event.Body(event.ToolDone(end))
		if end.Error != "" {
			what = event.ToolFailed(end)
		}
		if err := r.hook(ctx, argv, r.about(c, what)); err != nil {
			r.notice(err.Error())
		}
	}
}

// atEnd tells the hooks how the agent ended, before the run does.
func (r *runner) atEnd(v outcome.Verdict) {
	for _, argv := range r.cfg.Hooks.End {
		end := ended(event.RunEnd{Outcome: v.Outcome, Reason: v.Reason, Usage: v.Usage, Cost: v.Cost, Denials: v.Denials})
		err := r.hook(context.Background(), argv, event.Event{Header: event.Header{Session: r.session}, Body: end}.Stamp())
		if err != nil {
			r.notice(err.Error())
		}
	}
}

// notice tells a person something in the stream.
func (r *runner) notice(text string) {
	r.line.src.Emit(event.Event{Body: event.Notice{Text: strings.TrimSpace(text)}})
}
