package fold

import "strings"

// This file makes a [Matcher] fast: most text is words that begin nothing.

// skip returns the next offset at which something may begin. It does what step would do, but faster: most words begin
// nothing, and say no more than that the last word was not "no".
func (m *Matcher) skip(text string, i int) int {
	for i < len(text) {
		switch dull[text[i]] {
		case dullWord:
			end := i + 1
			for end < len(text) && class[text[end]] == inWord {
				end++
			}
			if lengths[text[i]] != 0 && (end == len(text) || opens(text[i:end])) {
				return i
			}
			if end == len(text) {
				m.size = len(m.word) + 1 // it may go on, and means nothing
			}
			m.no = false
			i = end
		case dullNumber:
			end, none := numberEnd(text, i)
			if end+1 >= len(text) || end-i > len(m.word) {
				return i // it may go on
			}
			if m.no = none; class[text[end]] == point {
				m.no = false
				end++
			}
			i = end
		case dullSign:
			m.no = false
			i++
		case dullBlank:
			i++
		default:
			return i
		}
	}
	return i
}

// numberEnd returns where the word ends that begins with a digit at i, and whether it is none, as in "0 failed tests".
func numberEnd(text string, i int) (end int, none bool) {
	whole := true // it is a number so far
	none = true
	for ; i < len(text); i++ {
		c := text[i]
		digit := c >= '0' && c <= '9'
		if class[c] == point && whole && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9' {
			continue // 60.5, 1,000
		}
		if class[c] != inWord {
			break
		}
		whole = whole && digit
		none = none && c == '0'
	}
	return i, none
}

// What a byte is to a Matcher that has read nothing yet.
const (
	mayMatter = iota // the marker's bracket
	dullWord
	dullNumber
	dullSign
	dullBlank
)

var dull = func() (t [256]uint8) {
	for c := range t {
		switch {
		case class[c] == blank:
			t[c] = dullBlank
		case c == '[':
			t[c] = mayMatter
		case c >= '0' && c <= '9':
			t[c] = dullNumber
		case class[c] == inWord:
			t[c] = dullWord
		default:
			t[c] = dullSign
		}
	}
	return t
}()

// openers are the words that read knows from nothing.
var openers = []string{"failed", "reviewer", "correction", "confidence", "confidence_score", "no", "not", "none", "without", "zero"}

// lengths has, for each first letter, one bit for each length of an opener.
var lengths = func() (t [256]uint32) {
	for _, w := range openers {
		t[w[0]] |= 1 << len(w)
		t[w[0]-'a'+'A'] |= 1 << len(w)
	}
	return t
}()

func opens(word string) bool {
	if lengths[word[0]]>>len(word)&1 == 0 {
		return false
	}
	for _, w := range openers {
		if strings.EqualFold(w, word) {
			return true
		}
	}
	return false
}

// mayFind says whether a whole text has a word of which every finding has one. Most have none, and to look for letters is faster
// than to read words: all but one of them have an f.
func mayFind(text string) bool {
	return near(text, 'f', withF) || near(text, 'F', withF) || near(text, 'c', withC) || near(text, 'C', withC)
}

// A telling is a word, and where in it a letter stands that is looked for.
type telling struct {
	word string
	at   int
}

var (
	withF = []telling{{"failed", 0}, {"flagged", 0}, {"confidence", 3}, {marker, 1}}
	withC = []telling{{"correction", 0}}
)

// near says whether a text has one of the words around a letter, in any case.
func near(text string, letter byte, words []telling) bool {
	for i := 0; i+1 < len(text); i++ {
		n := strings.IndexByte(text[i:len(text)-1], letter)
		if n < 0 {
			return false
		}
		i += n
		next := text[i+1] | 0x20
		for _, w := range words {
			if next != w.word[w.at+1] {
				continue
			}
			if from, end := i-w.at, i-w.at+len(w.word); from >= 0 && end <= len(text) && strings.EqualFold(text[from:end], w.word) {
				return true
			}
		}
	}
	return false
}
