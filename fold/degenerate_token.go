package fold

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/internal/pattern"
)

// This file finds a provider's control tokens in what a model says, where they were leaked and not written about.

// A token is one whose fate is open.
type token struct {
	end  int    // in the tail
	text string // as it was said
	call bool   // it opens a call, whose arguments may stand on the next line
}

// maxToken bounds the length of a token.
const maxToken = 64

// controlToken are the ones that are known. Those with the wide bars are nobody's notation for anything else.
var controlToken = pattern.Lazy(`^(?:<\|/?(?:channel|constrain|message|start|end|return|call|analysis|commentary|final|` +
	`endoftext|startoftext|begin_of_text|end_of_text|start_of_text|eot|eot_id|eom_id|start_header_id|end_header_id|python_tag|` +
	`im_start|im_end|im_sep|im_middle|endofprompt|fim_prefix|fim_middle|fim_suffix|fim_pad|pad|assistant|user|system|observation|` +
	`tool_call|tool_calls|tool_response|tool_calls_section_begin|tool_calls_section_end|tool_call_begin|tool_call_end|tool_call_argument_begin)\|?>` +
	`|<｜/?[\p{L}▁ ]+｜>|</?tool_call>)$`)

// search looks for tokens in what is new of the tail, and returns the first that was leaked. Last says that the delta ends here.
func (a *answer) search(last bool) string {
	for a.seen < len(a.tail) {
		if a.odd != nil {
			if leaked, decided := a.decide(); leaked != "" || !decided {
				return leaked
			}
			continue
		}
		i := bytes.IndexAny(a.tail[a.seen:], ">\n")
		if i < 0 {
			a.seen = len(a.tail)
			return ""
		}
		at := a.seen + i
		a.seen = at + 1
		if a.tail[at] == '\n' {
			a.endLine(at)
			continue
		}
		if leaked := a.judge(at+1, last); leaked != "" {
			return leaked
		}
	}
	return ""
}

// endLine keeps account of fences.
func (a *answer) endLine(at int) {
	if a.line >= 0 {
		line := bytes.TrimSpace(a.tail[a.line:at])
		if mark, n := fenceOf(line); a.fence != 0 {
			if mark == a.fence && n >= a.ticks && n == len(line) {
				a.fence = 0
			}
		} else if mark != 0 {
			a.fence, a.ticks = mark, n
		}
	}
	a.line = at + 1
}

// judge looks at what ends here: is it a token, and was it leaked? If what follows decides that, it is kept.
func (a *answer) judge(end int, last bool) string {
	low := max(end-maxToken, a.block, a.line, 0)
	i := bytes.LastIndexByte(a.tail[low:end], '<')
	if i < 0 || a.fence != 0 {
		return ""
	}
	start := low + i
	text := a.tail[start:end]
	if !controlToken().Match(text) {
		return ""
	}
	line := a.tail[max(a.line, a.block, 0):start]
	if bytes.Count(line, []byte("`"))%2 == 1 || bytes.Count(line, []byte(`"`))%2 == 1 {
		return ""
	}
	before := line[bytes.LastIndexFunc(line, unicode.IsSpace)+1:] // nothing but spaces of one byte come before a word here
	if len(before) > 0 {
		if stuck(before, len(bytes.TrimSpace(line)) > len(before)) {
			return string(text)
		}
		return ""
	}
	if len(bytes.TrimSpace(line)) > 0 {
		return "" // it is a word of a sentence
	}
	beginning := a.block >= 0 && len(bytes.TrimSpace(a.tail[a.block:start])) == 0
	if beginning && (end < len(a.tail) && !bytes.ContainsRune([]byte(" ,.;:/)"), rune(a.tail[end])) || end == len(a.tail) && last) {
		return string(text)
	}
	a.odd = &token{end, string(text), strings.Contains(string(text), "tool_call")}
	return ""
}

// stuck says whether a token after these letters was leaked: they are the end of a word or a sentence, and nobody's notation.
// Inside says that the word is not the first one of its line.
func stuck(before []byte, inside bool) bool {
	for i, r := range string(before) {
		switch r {
		case '"', '“', '‘', '`', '(', '[', '{', '=', '\\':
			return false
		case '\'':
			if i == 0 || i+1 == len(before) || !isLetter(before[i-1]) || !isLetter(before[i+1]) {
				return false
			}
		}
	}
	if inside && bytes.HasPrefix(before, []byte("<")) {
		return false
	}
	r, _ := utf8.DecodeLastRune(before)
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(".!?…>。！？", r)
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80 }

// decide says what the bytes after a token make of it: it is at the beginning of a line, and leaked if something is stuck to it.
func (a *answer) decide() (leaked string, decided bool) {
	t := a.odd
	rest := a.tail[t.end:]
	if t.call { // the arguments may stand on the next line
		rest = bytes.TrimLeft(rest, " \t\r\n")
	}
	if len(rest) == 0 {
		a.seen = len(a.tail)
		return "", false
	}
	a.odd = nil
	a.seen = t.end
	switch r, _ := utf8.DecodeRune(rest); {
	case t.call:
		if r == '{' || r == '[' || r == '<' {
			return t.text, true
		}
	case r == '<' || unicode.IsLetter(r) || unicode.IsDigit(r):
		return t.text, true
	}
	return "", true
}
