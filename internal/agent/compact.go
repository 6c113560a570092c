package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/tool"
)

// fullest is how full the window may become before the history is shortened: what is left must hold an answer and the results
// of its calls.
const fullest = 0.8

const summarise = `The conversation is about to be shortened. Write down everything that is needed to go on without it: the task in the user's own
words, what was done and found so far, with the names of files, what is open, and what you were about to do. Call no tool.`

func overflows(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	return ok && e.Class == provider.Overflow
}

// crowded says whether the next request would fill the window too much. A token is about four bytes.
func (r *reply) crowded(t turn) bool {
	if t.used.Limit == 0 {
		return false
	}
	next := t.used.Used
	for _, c := range t.calls {
		next += int64(min(len(c.result), r.cfg.Clip)) / 4
	}
	if full := float64(next) > fullest*float64(t.used.Limit); full {
		return true
	}
	r.cramped = 0
	return false
}

// compact has the model sum up the history, and goes on with that instead. A verdict ends the reply: shortening it again and
// again without an answer in between that fits would go on for ever.
func (r *reply) compact(ctx context.Context, why string) *outcome.Verdict {
	if r.cramped++; r.cramped > 2 {
		return new(outcome.Verdict{Outcome: event.Failed, Stop: "error", Class: provider.Overflow, Reason: "the context is exhausted: shortening it does not help"})
	}
	history := r.request(r.specs)
	before := weigh(history.History)
	text, usage, err := r.summary(ctx, history)
	if overflows(err) {
		text, usage, err = r.summary(ctx, r.digest(history))
	}
	cost := r.cfg.Price.Cost(usage)
	r.spend(usage, cost)
	switch {
	case ctx.Err() != nil:
		return new(outcome.Ended(ctx))
	case err != nil:
		return new(refused(err))
	case strings.TrimSpace(text) == "":
		return new(outcome.Failed("error", "the model did not sum up the conversation"))
	}
	text += "\n\nThe user's last message was:\n" + tool.Cut(lastPrompt(history.History), 4000)
	r.emit(event.Compacted{Reason: why, Summary: text, Before: new(before), After: new(int64(len(text)) / 4), Usage: usage, Cost: cost})
	return nil
}

// summary asks for a summary. What the model says is not told as text: nobody asked for it but us.
func (r *reply) summary(ctx context.Context, q provider.Request) (text string, usage event.Usage, err error) {
	q.History = append(q.History, event.Event{Body: event.Prompt{Text: summarise}}.Stamp())
	m, err := r.open(ctx)
	if err != nil {
		return "", usage, err
	}
	var b strings.Builder
	for e, err := range m.Answer(ctx, q) {
		if err != nil {
			return "", usage, err
		}
		switch body := e.Body.(type) {
		case event.Text:
			if !body.Partial {
				b.WriteString(body.Text)
			}
		case event.Retry:
			b.Reset()
			r.emit(body)
		case event.TurnEnded:
			usage = body.Usage
		}
	}
	return b.String(), usage, nil
}

// digest is a request that tells the history in few words, for when it does not fit as it is: its end, as plain text.
func (r *reply) digest(q provider.Request) provider.Request {
	var b strings.Builder
	for _, e := range q.History {
		switch body := e.Body.(type) {
		case event.Prompt:
			fmt.Fprintf(&b, "\nUSER: %s\n", body.Text)
		case event.Compacted:
			fmt.Fprintf(&b, "\nSUMMARY: %s\n", body.Summary)
		case event.Text:
			fmt.Fprintf(&b, "\nASSISTANT: %s\n", body.Text)
		case event.ToolCalled:
			fmt.Fprintf(&b, "\nCALL %s %s\n", body.Name, tool.Cut(string(body.Input), 500))
		}
		if end, ok := event.AsToolEnd(e.Body); ok && end.Type != "image" {
			fmt.Fprintf(&b, "RESULT %s %s\n", end.Error, tool.Cut(end.Output, 1000))
		}
	}
	room := 100_000 // bytes, if nobody knows the window: a quarter of the usual ones
	if w := r.cfg.Price.Window; w > 0 {
		room = int(w) * 2
	}
	q.History = []event.Event{event.Event{Body: event.Prompt{Text: "So far:\n" + tool.Cut(b.String(), room)}}.Stamp()}
	return q
}

// weigh is about how many tokens a history has.
func weigh(history []event.Event) (tokens int64) {
	for _, e := range history {
		n := 0
		switch b := e.Body.(type) {
		case event.Prompt:
			n = len(b.Text)
			for _, a := range b.Attached {
				n += len(a.Text)
			}
		case event.Compacted:
			n = len(b.Summary)
		case event.Text:
			n = len(b.Text)
		case event.Thought:
			n = len(b.Text)
		case event.ToolCalled:
			n = len(b.Input)
		}
		if end, ok := event.AsToolEnd(e.Body); ok && end.Type != "image" {
			n = len(end.Output) + len(end.Error)
		}
		tokens += int64(n) / 4
	}
	return tokens
}

func lastPrompt(history []event.Event) string {
	for i := len(history) - 1; i >= 0; i-- {
		switch b := history[i].Body.(type) {
		case event.Prompt:
			if b.Source != event.SourceSteer {
				return b.Text
			}
		case event.Compacted:
			if _, last, ok := strings.Cut(b.Summary, "The user's last message was:\n"); ok {
				return last
			}
		}
	}
	return ""
}
