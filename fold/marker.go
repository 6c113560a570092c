package fold

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/sluice-dev/sluice/internal/pattern"
)

// A Marker is a directive that an agent wrote into a message, for whoever supervises it.
type Marker struct {
	Of    string // loop, or status
	Word  string // loop: continue, exit or abort; status: thinking, working, waiting or done
	Label string
}

// Beats says whether a loop's marker counts more than another, which may be none. Of two that count the same, the first stands.
func (m Marker) Beats(o Marker) bool { return severity[m.Word] > severity[o.Word] }

var severity = map[string]int{"continue": 1, "exit": 2, "abort": 3}

// Markers finds markers in the text of a message that comes in pieces: however the text is cut, it finds the same ones. It is
// for messages alone: what a model thinks to itself directs nobody. The zero Markers are ready.
//
//	┌──────────────────────────────────┬──────────────────────────────────────────────────────────────────────┐
//	│ text                             │ marker                                                               │
//	├──────────────────────────────────┼──────────────────────────────────────────────────────────────────────┤
//	│ <|workflow: exit | all green|>   │ exit, "all green"; the label may have | and > in it                  │
//	│ [loop: exit | all green]         │ the same; the label has no ]                                         │
//	│ [exit], [abort | why]            │ the same without the word loop                                       │
//	│ [loop: exit] and more            │ none: it is not the whole line                                       │
//	│ > [exit], - [exit], **[exit]**   │ none, on purpose: it is spoken about                                 │
//	│ ``` … [exit] … ```               │ none in a fence of back-ticks or tildes, however long                │
//	│ [workflow: exit], <|loop: exit|> │ none: these are no forms                                             │
//	│ [loop: stop]                     │ none: there is no such word                                          │
//	│ so [status: working | tests] go  │ a status stands anywhere in a line; there may be several             │
//	│ <|status: done|>                 │ a status as a whole line                                             │
//	└──────────────────────────────────┴──────────────────────────────────────────────────────────────────────┘
//
// Capitals do not matter. A whole line is one that has ended: by a line break, or with the text. A status in a line is found at
// its bracket.
type Markers struct {
	line  []byte // the line so far
	from  int    // in it, after the last closing bracket
	fence byte   // that is open: ` or ~; 0: none
	ticks int    // how long it is
}

var (
	workflowLine = pattern.Lazy(`(?i)^<\|workflow:\s*(\w+)\s*(?:\|\s*(.*))?\|>$`)
	loopLine     = pattern.Lazy(`(?i)^\[loop:\s*(\w+)(?:\s*\|\s*([^\]]*))?\s*\]$`)
	bareLine     = pattern.Lazy(`(?i)^\[\s*(continue|exit|abort)(?:\s*\|\s*([^\]]*))?\s*\]$`)
	statusLine   = pattern.Lazy(`(?i)^<\|status:\s*(\w+)\s*(?:\|\s*(.*))?\|>$`)
	statusInLine = pattern.Lazy(`(?i)\[status:\s*(\w+)(?:\s*\|\s*([^\]]*))?\s*\]$`)
)

// Write takes the next piece of the text.
func (m *Markers) Write(text string, found func(Marker)) {
	for text != "" {
		piece, rest, ended := strings.Cut(text, "\n")
		m.add(piece, found)
		if ended {
			m.end(found)
		}
		text = rest
	}
}

// Close ends the text, and with it the last line. The Markers are ready for another text.
func (m *Markers) Close(found func(Marker)) {
	m.end(found)
	*m = Markers{line: m.line[:0]}
}

// Directive is the loop's marker that counts in a whole text; its Word is empty if there is none.
func Directive(text string) (strongest Marker) {
	var m Markers
	keep := func(found Marker) {
		if found.Of == "loop" && found.Beats(strongest) {
			strongest = found
		}
	}
	m.Write(text, keep)
	m.Close(keep)
	return strongest
}

// add adds to the line, and looks for what ends in it.
func (m *Markers) add(piece string, found func(Marker)) {
	at := len(m.line)
	m.line = append(m.line, piece...)
	if m.fence != 0 {
		return
	}
	for {
		i := bytes.IndexByte(m.line[at:], ']')
		if i < 0 {
			return
		}
		at += i + 1
		if s := statusInLine().FindSubmatch(m.line[m.from:at]); s != nil && !fences(m.line[:at]) {
			tell("status", s, found)
		}
		m.from = at
	}
}

// end ends the line.
func (m *Markers) end(found func(Marker)) {
	line := bytes.TrimSpace(m.line)
	m.line, m.from = m.line[:0], 0
	if mark, n := fenceOf(line); m.fence != 0 {
		if mark == m.fence && n >= m.ticks && n == len(line) {
			m.fence = 0
		}
		return
	} else if mark != 0 {
		m.fence, m.ticks = mark, n
		return
	}
	for _, form := range []func() *regexp.Regexp{workflowLine, loopLine, bareLine} {
		if s := form().FindSubmatch(line); s != nil {
			tell("loop", s, found)
			return
		}
	}
	if s := statusLine().FindSubmatch(line); s != nil {
		tell("status", s, found)
	}
}

// fences says whether the beginning of a line looks as if it opened a fence.
func fences(line []byte) bool {
	mark, _ := fenceOf(bytes.TrimSpace(line))
	return mark != 0
}

// fenceOf says whether a line may open or close a fence: three marks or more, and how many. What follows those of back-ticks has
// none of them, else it is code in a line.
func fenceOf(line []byte) (mark byte, n int) {
	if len(line) < 3 || line[0] != '`' && line[0] != '~' {
		return 0, 0
	}
	mark = line[0]
	for n < len(line) && line[n] == mark {
		n++
	}
	if n < 3 || mark == '`' && bytes.IndexByte(line[n:], '`') >= 0 {
		return 0, 0
	}
	return mark, n
}

// tell passes a marker on, if its word is one.
func tell(of string, match [][]byte, found func(Marker)) {
	word := strings.ToLower(string(match[1]))
	switch {
	case of == "loop" && severity[word] == 0:
		return
	case of == "status" && word != "thinking" && word != "working" && word != "waiting" && word != "done":
		return
	}
	found(Marker{Of: of, Word: word, Label: strings.TrimSpace(string(match[2]))})
}
