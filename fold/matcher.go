package fold

import "strings"

// A Matcher finds findings in text that comes in pieces: however a text is cut, it finds the same ones. It remembers one
// word, never the text. The zero Matcher is ready.
//
// The specification names the marker [finding], the phrases "reviewer flagged", "correction needed" and "failed test", and
// confidence scores from 60 %. They are read as words, in any case, with white space, quotes and Markdown's stars and
// back-ticks between them:
//
//	┌──────────────────────────────┬─────────┬────────────────────────────────────────────────┐
//	│ text                         │ finding │ why                                            │
//	├──────────────────────────────┼─────────┼────────────────────────────────────────────────┤
//	│ [finding], [FINDING]         │ yes     │ the marker, wherever it stands                 │
//	│ reviewer flagged             │ yes     │                                                │
//	│ correction needed            │ yes     │                                                │
//	│ no correction needed         │ no      │ no, not, without, zero or 0 before a phrase    │
//	│ failed test, 2 failed tests  │ yes     │                                                │
//	│ 0 failed tests               │ no      │                                                │
//	│ failed tests: 0              │ no      │ a number after it counts as well               │
//	│ failed testing, failed_test  │ no      │ other words                                    │
//	│ confidence: 60, Confidence:75│ yes     │ after a colon or = the number is a score       │
//	│ confidence: 60.5%            │ yes     │                                                │
//	│ confidence: high (85%)       │ yes     │                                                │
//	│ "confidence": 85             │ yes     │                                                │
//	│ confidence 95%, … score 95 % │ yes     │ without a colon the per cent sign makes it one │
//	│ confidence 95                │ no      │                                                │
//	│ confidence: 59.9%            │ no      │ below                                          │
//	│ confidence: 0.9              │ no      │ not in per cent                                │
//	│ confidence: 60ms, 600        │ no      │ not per cent                                   │
//	│ confidence ≥60%              │ no      │ a threshold, not a score                       │
//	│ 95% confidence               │ no      │ may be an interval                             │
//	└──────────────────────────────┴─────────┴────────────────────────────────────────────────┘
//
// A finding is decided at the byte that makes it sure: a number may go on, and so may "failed test". What the end of the
// text decides, Close does.
type Matcher struct {
	marker int // bytes of "[finding]" that were seen

	word [20]byte // the word or number being read, in small letters
	size int      // its length, also beyond what is kept
	num  bool     // it is a number so far
	dot  bool     // a point or comma followed it, and may be part of it

	state state
	no    bool // the last word was a negation
}

// A state is what the words so far may be the beginning of.
type state uint8

const (
	nothing    state = iota
	failed           // failed
	failedTest       // failed test
	failedSum        // failed tests:
	reviewer         // reviewer
	correction       // correction
	confidence       // confidence, confidence score of
	score            // confidence:
	percent          // confidence 95
)

const marker = "[finding]"

// Write takes the next piece and returns how many findings it decided.
func (m *Matcher) Write(text string) (findings int) {
	m.scan(text, func(int) { findings++ })
	return findings
}

// Close ends the text and returns how many findings that decided: none or one. The Matcher is ready for another text.
func (m *Matcher) Close() (findings int) {
	if m.flush() {
		findings++
	}
	if m.state == failedTest || m.state == failedSum {
		findings++
	}
	*m = Matcher{}
	return findings
}

// likely says whether the text so far ends in a phrase that only the next bytes could take back.
func (m Matcher) likely() bool {
	return m.state == failedTest || m.state == failed && (m.is("test") || m.is("tests"))
}

// CountFindings returns the number of findings in a whole text.
func CountFindings(text string) int {
	if !mayFind(text) {
		return 0
	}
	var m Matcher
	return m.Write(text) + m.Close()
}

// firstFinding returns the number of findings and where the first stands.
func firstFinding(text string) (count, at int) {
	if !mayFind(text) {
		return 0, 0
	}
	var m Matcher
	likely := m.scan(text, func(i int) {
		if count++; count == 1 {
			at = i
		}
	})
	open := m.state == failedTest || m.state == failedSum
	if n := m.Close(); n > 0 {
		if count += n; count == n {
			at = len(text)
			if open {
				at = likely
			}
		}
	}
	return count, at
}

// scan calls found with the offset at which each finding stands: where it was decided, or began to be likely. It returns
// where the last one began to be.
func (m *Matcher) scan(text string, found func(at int)) (likely int) {
	for i := 0; i < len(text); i++ {
		if m.size == 0 && m.marker == 0 && m.state == nothing {
			if i = m.skip(text, i); i == len(text) {
				break
			}
		}
		before := m.state
		decided := m.step(text[i])
		if decided {
			if before == failedTest || before == failedSum {
				found(likely)
			} else {
				found(i)
			}
		}
		if m.state == failedTest && before != failedTest {
			likely = i
		}
	}
	return likely
}

// step takes one byte and says whether it decided a finding.
func (m *Matcher) step(c byte) (found bool) {
	if lower(c) == marker[m.marker] {
		if m.marker++; m.marker == len(marker) {
			m.marker = 0
			found = true
		}
	} else if m.marker = 0; c == '[' {
		m.marker = 1
	}
	switch class[c] {
	case inWord:
		digit := c >= '0' && c <= '9'
		if m.dot && !digit {
			found = m.flush() || found
		}
		if m.dot { // 60.5, 1,000
			m.dot = false
			m.put('.')
		}
		m.num = digit && (m.size == 0 || m.num)
		m.put(lower(c))
		return m.early() || found
	case point:
		if m.num && !m.dot {
			m.dot = true
			return found
		}
	}
	found = m.flush() || found
	if class[c] != blank {
		m.no = false
		found = m.sign(c) || found
	}
	return found
}

func (m *Matcher) put(c byte) {
	if m.size < len(m.word) {
		m.word[m.size] = c
	}
	m.size++
}

// early decides the phrases that need not wait for what follows.
func (m *Matcher) early() bool {
	if m.state == reviewer && m.is("flagged") || m.state == correction && m.is("needed") {
		m.state = nothing
		return true
	}
	return false
}

func (m Matcher) is(word string) bool {
	return m.size == len(word) && string(m.word[:m.size]) == word
}

// flush ends the word that is being read.
func (m *Matcher) flush() (found bool) {
	if m.size == 0 {
		return false
	}
	w, num := "", m.num
	if m.size <= len(m.word) {
		w = string(m.word[:m.size])
	}
	trailing := m.dot
	m.size, m.num, m.dot = 0, false, false
	found = m.read(w, num)
	if trailing {
		m.no = false
		found = m.sign('.') || found
	}
	return found
}

// read takes a whole word; one that is too long to mean anything is empty.
func (m *Matcher) read(w string, num bool) (found bool) {
	no := m.no
	m.no = w == "no" || w == "not" || w == "without" || w == "zero" || w == "none" || num && w != "" && strings.Trim(w, "0.") == ""
	switch m.state {
	case failed:
		if w == "test" || w == "tests" {
			m.state = failedTest
			return false
		}
	case failedTest:
		found = true
	case failedSum:
		found = !m.no
	case confidence:
		switch w {
		case "score", "level", "rating", "of", "is", "was", "at":
			return false
		}
		if num && isScore(w) {
			m.state = percent
			return false
		}
	case score:
		switch w {
		case "about", "around", "approximately", "very", "high", "medium", "low":
			return false
		}
		found = num && isScore(w)
	}
	m.state = nothing
	switch w {
	case "failed":
		if !no {
			m.state = failed
		}
	case "reviewer":
		if !no {
			m.state = reviewer
		}
	case "correction":
		if !no {
			m.state = correction
		}
	case "confidence", "confidence_score":
		m.state = confidence
	}
	return found
}

// sign takes a byte that is neither in a word nor between words.
func (m *Matcher) sign(c byte) (found bool) {
	switch m.state {
	case failedTest:
		if c == ':' || c == '=' || c == '(' {
			m.state = failedSum
			return false
		}
		found = true
	case failedSum:
		found = true
	case confidence:
		switch c {
		case ':', '=':
			m.state = score
			return false
		case '(':
			return false
		}
	case score:
		switch c {
		case '(', '~', '>', '=':
			return false
		}
	case percent:
		found = c == '%'
	}
	m.state = nothing
	return found
}

// isScore says whether a number is one of 60 to 100.
func isScore(w string) bool {
	whole, _, _ := strings.Cut(w, ".")
	return len(whole) == 2 && whole >= "60" || whole == "100"
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// What a byte is to a Matcher.
const (
	other  = iota
	inWord // letters, digits and _
	blank  // between words
	point  // . and , which may stand in a number
)

var class = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
			t[c] = inWord
		case strings.IndexByte(" \t\r\n*`\"'", byte(c)) >= 0:
			t[c] = blank
		case c == '.' || c == ',':
			t[c] = point
		}
	}
	return t
}()
