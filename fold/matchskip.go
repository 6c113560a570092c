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
// than to read words.
func mayFind(text string) bool {
	return hasLetter(text, '[', marker, 0) || has(text, 'f', "failed", 0) || has(text, 'f', "confidence", 3) || has(text, 'v', "reviewer", 2) || has(text, 'c', "correction", 0)
}

// has says whether a text has a word, in any case, whose letter at is a given one.
func has(text string, letter byte, word string, at int) bool {
	return hasLetter(text, letter, word, at) || hasLetter(text, letter-'a'+'A', word, at)
}

func hasLetter(text string, letter byte, word string, at int) bool {
	for i := at; i < len(text); i++ {
		n := strings.IndexByte(text[i:], letter)
		if n < 0 {
			return false
		}
		i += n
		from, end := i-at, i-at+len(word)
		if end > len(text) {
			return false
		}
		if text[i+1]|0x20 == word[at+1] && strings.EqualFold(text[from:end], word) {
			return true
		}
	}
	return false
}
