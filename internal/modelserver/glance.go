package modelserver

import "github.com/sluice-dev/sluice/internal/script"

// A glance is what a request shows of itself, gathered as its messages go by. What a model said in several messages that
// follow each other is one answer.
type glance struct {
	script.Seen
	met  bool // there was a user's message
	said bool // the message before was the model's
}

// answer sees a message of the model, or a part of one.
func (g *glance) answer() {
	if !g.said {
		g.Answers++
	}
	g.said = true
}

// message sees a message of the user: all its text, and the last thing in it.
func (g *glance) message(text, last string) {
	if !g.met {
		g.Prompt, g.met = text, true
	}
	g.Last, g.said = last, false
}

// result sees what a tool said.
func (g *glance) result(text string) { g.Last, g.said = text, false }
