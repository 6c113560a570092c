package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
)

// A markdown writes a session down as a document, as its events come. What the model, a tool or a file said is in it as text,
// whatever it looks like: it can neither close what we opened, nor load something from elsewhere.
type markdown struct {
	out     *bufio.Writer
	session string

	titled bool
	runs   int
	began  event.Event                  // the run.started of the first run
	calls  map[callKey]event.ToolCalled // that have not ended
	sum    textSum
}

// tell writes what an event says.
func (m *markdown) tell(e event.Event) {
	m.sum.see(e)
	switch b := e.Body.(type) {
	case event.RunStarted:
		m.started(e)
	case event.Prompt:
		m.prompt(e, b)
	case event.Text:
		m.text(e, b)
	case event.Thought:
		if b.Text != "" {
			m.details(e.Agent, "thought", nil, func() { m.para(quoted(b.Text)) })
		}
	case event.ToolCalled:
		if m.calls == nil {
			m.calls = map[callKey]event.ToolCalled{}
		}
		m.calls[keyOf(e.Header)] = b
	case event.ToolDone, event.ToolFailed, event.ToolDenied, event.ToolCancelled:
		m.call(e)
	case event.AgentStarted:
		m.details(e.Agent, joined([]string{"agent", b.Title, b.Role}), nil, func() { m.para(quoted(b.Prompt)) })
	case event.AgentEnded:
		m.note("agent " + e.Agent + " is over" + because(b.Error))
	case event.Compacted:
		m.details(e.Agent, "the history was shortened", nil, func() { m.para(quoted(b.Summary)) })
	case event.Retry:
		m.note(retried(b))
	case event.Notice:
		m.note(b.Text)
	case event.Error:
		m.note("error: " + b.Message)
	default:
		if end, ok := event.AsRunEnd(e.Body); ok {
			m.ended(end)
		}
	}
}

func (m *markdown) started(e event.Event) {
	if m.runs++; m.runs == 1 {
		m.began = e // it is told below the title, which is in the prompt
		return
	}
	m.sum = textSum{}
	m.para(fmt.Sprintf("## Run %d", m.runs))
	m.facts(about(e)...)
}

// about says where and with what a run began.
func about(e event.Event) []string {
	b, _ := e.Body.(event.RunStarted)
	model := b.Model
	if b.Provider != "" && model != "" {
		model = b.Provider + "/" + model
	}
	began := ""
	if !e.At.IsZero() {
		began = e.At.Format(time.RFC3339)
	}
	return []string{"folder", b.Cwd, "model", model, "began", began}
}

// prompt writes what was asked. The first one gives the document its title.
func (m *markdown) prompt(e event.Event, b event.Prompt) {
	if e.Agent != "" || b.Text == "" && len(b.Files) == 0 {
		return
	}
	m.title(b.Text)
	word := "Prompt"
	switch b.Source {
	case event.SourceHistory:
		word = "Context"
	case event.SourceSteer:
		word = "Said meanwhile"
	}
	m.para("## " + word)
	m.fence("text", b.Text)
	for _, f := range b.Files {
		m.note("file: " + f)
	}
}

// title begins the document, if nothing did.
func (m *markdown) title(text string) {
	if m.titled {
		return
	}
	m.titled = true
	m.para("# " + escapeLine(cut(one(firstLine(text), "A session"), 80)))
	m.facts(append([]string{"session", m.session}, about(m.began)...)...)
}

func (m *markdown) text(e event.Event, b event.Text) {
	if strings.TrimSpace(b.Text) == "" {
		return
	}
	m.title("")
	if b.Partial {
		m.details(e.Agent, "an answer that was not finished", nil, func() { m.para(quoted(b.Text)) })
		return
	}
	if e.Agent != "" {
		m.details(e.Agent, "answer", nil, func() { m.para(quoted(b.Text)) })
		return
	}
	m.para("## Answer")
	m.para(quoted(b.Text))
}

// call writes a call and what came of it.
func (m *markdown) call(e event.Event) {
	end, _ := event.AsToolEnd(e.Body)
	called := m.calls[keyOf(e.Header)]
	delete(m.calls, keyOf(e.Header))
	m.title("")
	mark := map[event.Kind]string{"tool.done": "✓", "tool.failed": "✗", "tool.denied": "⊘", "tool.cancelled": "■"}[e.Kind]
	c := textCall{name: one(called.Name, end.Name), title: one(end.Title, called.Title)}
	var took []string
	if end.Exit != nil && *end.Exit != 0 {
		took = append(took, fmt.Sprintf("exit %d", *end.Exit))
	}
	if !end.Start.IsZero() && !end.End.IsZero() {
		took = append(took, humanSpan(end.End.Sub(end.Start)))
	}
	m.details(e.Agent, mark+" "+c.what(), took, func() {
		if len(called.Input) > 0 {
			m.fence("json", indented(called.Input))
		}
		switch {
		case end.Output == "":
		case end.Type == "image":
			m.note(fmt.Sprintf("an image, %s of base64", humanCount(int64(len(end.Output)))))
		case end.Type == "diff":
			m.fence("diff", end.Output)
		default:
			m.fence("text", end.Output)
		}
		if end.Error != "" {
			m.fence("text", end.Error)
		}
		if end.Truncated {
			m.note("this is not all of it")
		}
	})
}

// ended writes how a run ended, and what it used.
func (m *markdown) ended(end event.RunEnd) {
	m.title("")
	m.para("## Outcome")
	if end.Usage == (event.Usage{}) {
		end.Usage = m.sum.usage
	}
	if end.Cost == (event.Cost{}) {
		end.Cost = m.sum.cost
	}
	took := ""
	if end.Duration != nil {
		took = humanSpan(time.Duration(*end.Duration) * time.Millisecond)
	}
	outcome := one(outcomes[end.Outcome], string(end.Outcome), "it has no end")
	if end.Inferred {
		outcome += " (inferred)"
	}
	m.facts("outcome", outcome, "reason", end.Reason, "turns", fmt.Sprint(m.sum.turns), "took", took, "tokens", tokensText(end.Usage),
		"cost", costText(end), "changed", changedText(end.Changes))
}

// para writes a paragraph.
func (m *markdown) para(text string) {
	if text != "" {
		m.out.WriteString(strings.TrimRight(text, "\n") + "\n\n")
	}
}

// note writes a remark.
func (m *markdown) note(text string) {
	if text = tameLine(text); text != "" {
		m.title("")
		m.para("*" + escapeLine(text) + "*")
	}
}

// facts writes pairs of a word and what it says, those that say something.
func (m *markdown) facts(pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if v := tameLine(pairs[i+1]); v != "" {
			m.out.WriteString("- " + pairs[i] + ": " + escapeLine(v) + "\n")
		}
	}
	m.out.WriteString("\n")
}

// details folds something away.
func (m *markdown) details(agent, summary string, also []string, inside func()) {
	m.title("")
	if agent != "" {
		also = append([]string{agent}, also...)
	}
	summary = tameLine(joined(append([]string{cut(tameLine(summary), 120)}, also...)))
	m.out.WriteString("<details><summary>" + html.EscapeString(summary) + "</summary>\n\n")
	inside()
	m.out.WriteString("</details>\n\n")
}

// fence writes a text as it is. The fence is longer than any that the text has.
func (m *markdown) fence(lang, text string) {
	text = strings.TrimRight(tame(text), "\n")
	if text == "" {
		return
	}
	longest, n := 2, 0
	for _, c := range []byte(text) {
		if n++; c != '`' {
			n = 0
		}
		longest = max(longest, n)
	}
	bar := strings.Repeat("`", longest+1)
	m.out.WriteString(bar + lang + "\n" + text + "\n" + bar + "\n\n")
}

// escapeLine writes a line so that Markdown shows it as it is.
func escapeLine(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '<':
			b.WriteString("&lt;")
			continue
		case r == '&':
			b.WriteString("&amp;")
			continue
		case strings.ContainsRune("\\`*_[]!#|~>", r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// quoted lets a text be Markdown inside a quotation, at the end of which everything ends that the text left open. It has no HTML and
// no images, which would call home. Code is left alone only in fences that every reader sees alike: those that begin in the
// first column, as long as there was no other.
func quoted(text string) string {
	var b strings.Builder
	fence, sure := "", true // the fence that is open; all fences are known
	for line := range strings.Lines(strings.TrimRight(tame(text), "\n")) {
		if bare := strings.TrimLeft(line, " \t"); strings.HasPrefix(bare, "`") || strings.HasPrefix(bare, "~") {
			line = strings.ReplaceAll(line[:len(line)-len(bare)], "\t", "    ") + bare // a tab would be shorter in a quotation
		}
		switch {
		case fence != "":
			if closesFence(line, fence) {
				fence = ""
			}
		case sure && opensFence(line) != "":
			fence = opensFence(line)
		default:
			sure = sure && !strings.Contains(line, "```") && !strings.Contains(line, "~~~")
			line = strings.NewReplacer("<", "&lt;", "![", `!\[`).Replace(line)
		}
		if b.WriteByte('>'); line != "\n" {
			b.WriteByte(' ')
		}
		b.WriteString(line)
	}
	return b.String()
}

// opensFence returns the fence that a line opens, if it does.
func opensFence(line string) string {
	for _, c := range "`~" {
		info := strings.TrimLeft(line, string(c))
		n := len(line) - len(info)
		if n >= 3 && (c == '~' || !strings.Contains(info, "`")) {
			return line[:n]
		}
	}
	return ""
}

// closesFence says whether a line closes a fence: one of the same sign, as long at least, and nothing else.
func closesFence(line, fence string) bool {
	bar := strings.TrimLeft(line, " ")
	return len(line)-len(bar) <= 3 && strings.HasPrefix(bar, fence) && strings.Trim(strings.TrimLeft(bar, fence[:1]), " \t\n") == ""
}

func because(err string) string {
	if err == "" {
		return ""
	}
	return ": " + err
}

// indented writes JSON over several lines.
func indented(raw event.Raw) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
