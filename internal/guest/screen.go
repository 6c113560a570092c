package guest

import (
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/pattern"
)

// A view is what claude's screen shows, as far as anybody has to know: whether it waits for a prompt, works, or asks something.
// All else is in its transcript.
type view struct {
	ready  bool    // an empty line to type into, and nothing going on
	busy   bool    // it works
	dialog *dialog // it asks
}

// A dialog is a question on the screen, with numbered answers.
type dialog struct {
	about    string // heading, and what it is about
	question string
	options  []event.Option // ids are the keys to press
}

var (
	choice = pattern.Lazy(`^\s*(❯\s*)?([1-9])\.\s+(\S.*)$`)
	rule   = pattern.Lazy(`^\s*[─╌]{10,}\s*$`)
)

// look reads a screen. A dialog stands at the bottom, with one of its answers marked and a line below that says which keys there
// are: what is quoted further up is text.
func look(screen string) view {
	lines := strings.Split(screen, "\n")
	v := view{}
	foot := len(lines) - 1
	for foot >= 0 && strings.TrimSpace(lines[foot]) == "" {
		foot--
	}
	if v.dialog = asks(lines[:foot+1]); v.dialog != nil {
		return v
	}
	for i, l := range lines {
		if strings.Contains(l, "esc to interrupt") {
			v.busy = true
		}
		if i > 0 && i < foot && rule().MatchString(lines[i-1]) && rule().MatchString(lines[i+1]) && empty(l) {
			v.ready = true
		}
	}
	v.ready = v.ready && !v.busy
	return v
}

// empty says whether a line is a prompt that nobody has typed into. A suggestion in it is not typed.
func empty(line string) bool {
	text, ok := strings.CutPrefix(strings.TrimSpace(strings.ReplaceAll(line, "\u00a0", " ")), "❯")
	text = strings.TrimSpace(text)
	return ok && (text == "" || strings.HasPrefix(text, `Try "`))
}

// asks reads the dialog that the screen ends with, if it does.
func asks(lines []string) *dialog {
	last := len(lines) - 1
	if last < 2 || !hints(lines[last]) {
		return nil
	}
	for last--; last >= 0 && strings.TrimSpace(lines[last]) == ""; last-- {
	}
	var d dialog
	marked := false
	at := last
	for ; at >= 0; at-- {
		m := choice().FindStringSubmatch(lines[at])
		if m == nil {
			if len(d.options) == 0 || strings.TrimSpace(lines[at]) == "" || !strings.HasPrefix(lines[at], "     ") {
				break
			}
			continue // a long answer goes on in the next line
		}
		marked = marked || m[1] != ""
		d.options = append(d.options, event.Option{ID: m[2], Name: strings.TrimSpace(m[3]), Kind: meaning(m[3])})
		if m[2] == "1" {
			at--
			break
		}
	}
	slices.Reverse(d.options)
	if !marked || len(d.options) < 2 || d.options[0].ID != "1" {
		return nil
	}
	var above []string
	for ; at >= 0 && len(above) < 40; at-- {
		text := strings.TrimSpace(lines[at])
		if rule().MatchString(lines[at]) && strings.Contains(lines[at], "─") {
			break
		}
		if text != "" && !rule().MatchString(lines[at]) {
			above = append(above, text)
		}
	}
	if len(above) == 0 {
		return nil
	}
	slices.Reverse(above)
	if i := slices.IndexFunc(above, func(l string) bool { return strings.HasSuffix(l, "?") }); i >= 0 {
		d.question = above[i]
		above = slices.Delete(above, i, i+1)
	}
	d.about = strings.Join(above, " ")
	if d.question == "" {
		d.question = d.about
	}
	return &d
}

// hints says whether a line names the keys of a dialog.
func hints(line string) bool {
	l := strings.ToLower(line)
	return strings.Contains(l, "esc to cancel") || strings.Contains(l, "enter to confirm") || strings.Contains(l, "esc to exit")
}

// meaning is the kind of an answer, by what it says.
func meaning(label string) string {
	l := strings.ToLower(label)
	switch {
	case strings.HasPrefix(l, "no"):
		return gate.RejectOnce
	case strings.HasPrefix(l, "yes") && (strings.Contains(l, "always") || strings.Contains(l, "allow all") || strings.Contains(l, "don't ask") || strings.Contains(l, "during this session")):
		return gate.AllowAlways
	case strings.HasPrefix(l, "yes"):
		return gate.AllowOnce
	}
	return ""
}

// trusts says whether the dialog is the one about the folder, which whoever sent us there has answered.
func (d *dialog) trusts() bool {
	return strings.Contains(d.question+d.about, "safety check") || strings.HasPrefix(d.options[0].Name, "Yes, I trust")
}

// same says whether two looks saw one question.
func (d *dialog) same(o *dialog) bool {
	return d == o || d != nil && o != nil && d.question == o.question && d.about == o.about && slices.Equal(d.options, o.options)
}
