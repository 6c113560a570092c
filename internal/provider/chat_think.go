package provider

import "strings"

// A thinkTag takes thoughts out of a text that begins with <think>…</think>, as models do whose server does not know better.
// The text comes in pieces that may be cut anywhere, within a tag too.
type thinkTag struct {
	at   thinkPlace
	some bool   // of the thought was told
	held string // what may be the beginning of a tag, and white space that may be around one
}

type thinkPlace int

const (
	thinkBefore thinkPlace = iota // nothing but white space yet
	thinkWithin
	thinkAfter // white space that follows the thought
	thinkOver
)

const (
	thinkOpen, thinkClose = "<think>", "</think>"
	thinkSpace            = " \t\r\n"
	thinkHeld             = 1 << 10 // so much white space is meant
)

// take takes a piece, and returns what can be told of it.
func (t *thinkTag) take(piece string) (thought, text string) {
	if t.at == thinkOver {
		return "", piece
	}
	piece, t.held = t.held+piece, ""
	switch t.at {
	case thinkBefore:
		start := strings.TrimLeft(piece, thinkSpace)
		switch {
		case strings.HasPrefix(start, thinkOpen):
			t.at = thinkWithin
			return t.take(start[len(thinkOpen):])
		case strings.HasPrefix(thinkOpen, start) && len(piece) < thinkHeld:
			t.held = piece
			return "", ""
		}
		t.at = thinkOver
		return "", piece
	case thinkWithin:
		thought, rest, closed := strings.Cut(piece, thinkClose)
		if !t.some {
			thought = strings.TrimLeft(thought, thinkSpace)
		}
		told := thought
		if !closed {
			told = thought[:len(thought)-openTag(thought)]
		}
		if trimmed := strings.TrimRight(told, thinkSpace); closed || len(told)-len(trimmed) < thinkHeld {
			told = trimmed
		}
		t.some = t.some || told != ""
		if closed {
			t.at = thinkAfter
			_, text = t.take(rest)
			return told, text
		}
		t.held = thought[len(told):]
		return told, ""
	default:
		if piece = strings.TrimLeft(piece, thinkSpace); piece != "" {
			t.at = thinkOver
		}
		return "", piece
	}
}

// openTag is how much of the closing tag the text ends with.
func openTag(text string) int {
	for n := min(len(thinkClose)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, thinkClose[:n]) {
			return n
		}
	}
	return 0
}

// rest returns what was held back, when nothing more comes.
func (t *thinkTag) rest() (thought, text string) {
	held := t.held
	t.held = ""
	if t.at == thinkWithin {
		return held, ""
	}
	t.at = thinkOver
	return "", held
}
