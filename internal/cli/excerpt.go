package cli

import (
	"fmt"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// This file says in a few words what an event is about, for the eye.

// excerptLength is how many runes of it are shown.
const excerptLength = 120

// excerpt returns the excerpt of the last event of a line that has one.
func excerpt(events []event.Event) (text string) {
	for _, e := range events {
		if t := excerptOf(e); t != "" {
			text = t
		}
	}
	return text
}

// textPiece returns the text of a line that is a piece of a message, a prompt or a thought, and of nothing else.
func textPiece(events []event.Event) (piece string, ok bool) {
	for _, e := range events {
		if event.Inferred(e.Body) {
			continue
		}
		text := ""
		switch b := e.Body.(type) {
		case event.TextDelta:
			text = b.Text
		case event.ThoughtDelta:
			text = b.Text
		case event.Prompt:
			text = b.Text
		}
		if ok || text == "" {
			return "", false
		}
		piece, ok = text, true
	}
	return piece, ok
}

func excerptOf(e event.Event) string {
	switch b := e.Body.(type) {
	case event.Prompt:
		return b.Text
	case event.TextDelta:
		return b.Text
	case event.Text:
		return b.Text
	case event.ThoughtDelta:
		return b.Text
	case event.Thought:
		return b.Text
	case event.Status:
		return pair(b.Phase, " | ", b.Label)
	case event.ToolCalled:
		return pair(b.Name, ":", b.Title) + " [pending]"
	case event.ToolStarted:
		return b.Name + " [running]"
	case event.ToolOutput:
		return b.Text
	case event.GateAsked:
		return one(b.Question, b.Tool)
	case event.GateAllowed:
		return pair("allowed "+one(b.Tool, b.Request), ": ", b.Option)
	case event.GateDenied:
		return pair("denied "+one(b.Tool, b.Request), ": ", one(b.Reason, b.Option))
	case event.LoopStarted:
		return fmt.Sprintf("loop start, max_iterations=%d", b.MaxIterations)
	case event.LoopEnded:
		return "loop end: " + b.Reason
	case event.PhaseStarted:
		return fmt.Sprintf("phase: %s (iter %d)", b.Phase, b.Iteration)
	case event.PhaseEnded:
		return fmt.Sprintf("phase: %s → %s", b.Phase, b.Stop)
	case event.PhaseRetry:
		return fmt.Sprintf("attempt=%d/%d", b.Attempt, b.Limit)
	case event.Retry:
		return pair(fmt.Sprintf("attempt=%d/%d", b.Attempt, b.Limit), " ", one(b.Message, b.Class))
	case event.Error:
		if b.Source == "" {
			return b.Message
		}
		return b.Source + ": " + b.Message
	case event.Notice:
		return b.Text
	case event.TurnEnded:
		return string(b.Finish)
	case event.Compacted:
		return b.Reason
	case event.AgentStarted:
		return one(b.Title, b.Prompt, b.Role)
	case event.AgentEnded:
		return b.Error
	case event.SkillFound:
		return b.Name
	case event.SkillLoaded:
		return b.Name
	case event.SkillRead:
		return b.File
	case event.Report:
		return b.State
	case event.Finished:
		return pair(b.Status, ": ", b.Summary)
	case event.Catalog:
		return fmt.Sprintf("%s, %s", plural(len(b.Tools), "tool"), plural(len(b.Skills), "skill"))
	case event.RunStarted:
		return strings.TrimSpace(b.Model + " " + one(b.Backend, b.Cwd))
	}
	if end, ok := event.AsToolEnd(e.Body); ok {
		return pair(end.Name, ":", end.Title) + " [" + strings.TrimPrefix(string(e.Body.Kind()), "tool.") + "]"
	}
	if end, ok := event.AsReplyEnd(e.Body); ok && end.Stop != "" {
		return "stop_reason=" + end.Stop
	}
	if end, ok := event.AsRunEnd(e.Body); ok {
		return pair(string(end.Outcome), ": ", end.Reason)
	}
	return ""
}

func pair(a, sep, b string) string {
	if b == "" {
		return a
	}
	return a + sep + b
}

func one(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// flat makes one line of a text and takes out what would steer a terminal.
func flat(s string) string { return flatten(s, -1) }

// clipped is a flat text cut to its length.
func clipped(s string) string { return flatten(s, excerptLength) }

// flatten stops after limit runes, unless that is negative: a text may be large.
func flatten(s string, limit int) string {
	var b strings.Builder
	space := false
	for _, r := range s {
		if limit == 0 {
			break
		}
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			if space {
				continue
			}
			r, space = ' ', true
		case obeyed(r):
			r, space = '\ufffd', false
		default:
			space = false
		}
		b.WriteRune(r)
		limit--
	}
	return strings.TrimRight(b.String(), " ")
}
