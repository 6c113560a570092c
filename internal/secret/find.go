package secret

import "strings"

// has says whether there is a secret in a text.
func (f *finder) has(s string) bool {
	for i := range len(s) {
		if f.likely(s, i) {
			if m, _ := f.at(s, i); m.end > 0 {
				return true
			}
		}
	}
	return false
}

// whole replaces the secrets in a text that is complete.
func (f *finder) whole(s string) string {
	out, _ := f.scan(s, true)
	return out
}

// scan replaces the secrets in a text. Unless it is complete, it may end in the beginning of a secret: that is returned as
// rest, and is to be scanned again with what comes then. What scan decides it never takes back, so in how many pieces a text
// comes makes no difference.
func (f *finder) scan(s string, complete bool) (out, rest string) {
	var b strings.Builder
	from := 0
	for i := 0; i < len(s); {
		if !f.likely(s, i) {
			i++
			continue
		}
		end, marks, more := f.cover(s, i)
		if more && !complete {
			rest, s = s[i:], s[:i]
			break
		}
		if end == 0 {
			i++
			continue
		}
		b.WriteString(s[from:i])
		b.WriteString(marks)
		i, from = end, end
	}
	if from == 0 {
		return s, rest
	}
	b.WriteString(s[from:])
	return b.String(), rest
}

// farthest is how far behind the beginning of a secret others are looked for that begin inside it. There must be an end to it: a
// secret that begins as it ends may be repeated for ever.
const farthest = 1 << 12

// cover finds the secret that begins at i, and those that begin inside it and reach further. The end is 0 if there is none.
// More says that the text ended too soon to know.
func (f *finder) cover(s string, i int) (end int, marks string, more bool) {
	m, more := f.at(s, i)
	if m.end == 0 {
		return 0, "", more
	}
	end, marks = m.end, m.pattern.mark
	for j := i + 1; j < min(end, i+farthest); j++ {
		if !f.likely(s, j) {
			continue
		}
		m, unsure := f.at(s, j)
		more = more || unsure
		if m.end > end {
			end = m.end
			if !strings.HasSuffix(marks, m.pattern.mark) {
				marks += m.pattern.mark
			}
		}
	}
	return end, marks, more
}

// A match is where a pattern was found.
type match struct {
	end     int // 0: nowhere
	pattern *pattern
}

// at returns the longest match that begins at i. More says that another one may, when more of the text is known.
func (f *finder) at(s string, i int) (best match, more bool) {
	c := s[i]
	for _, p := range f.first[c] {
		end, saw, unsure := p.literal(s, i)
		best, more = best.or(end, p), more || unsure
		if end == 0 && saw != (signs{}) {
			end, unsure = p.escaped(s, i, 1, saw)
			best, more = best.or(end, p), more || unsure
		}
	}
	switch c {
	case '\\':
		for r := reading(1); r <= deepest; r++ {
			u, _, ok := r.next(s, i)
			if !ok {
				return best, true
			}
			if u.is('\\') { // those that begin with one were tried; below it may be something else
				continue
			}
			for _, p := range f.first[u.b[0]] {
				end, unsure := p.escaped(s, i, r, signs{slash: true})
				best, more = best.or(end, p), more || unsure
			}
			break
		}
	case '%':
		u, _, ok := percent.next(s, i)
		if !ok {
			return best, true
		}
		if u.is('%') {
			break
		}
		for _, p := range f.first[u.b[0]] {
			end, _, unsure := p.read(s, i, percent)
			best, more = best.or(end, p), more || unsure
		}
	}
	return best, more
}

// or returns the longer match.
func (m match) or(end int, p *pattern) match {
	if end > m.end {
		return match{end, p}
	}
	return m
}

// signs say which escapes there may be in what was read: a reading that undoes them may see something else.
type signs struct{ slash, percent bool }

func (g *signs) see(c byte) {
	switch c {
	case '\\':
		g.slash = true
	case '%', '+':
		g.percent = true
	}
}

// longestSkip is how much may stand between two characters of a pattern.
const longestSkip = 32

// literal compares the pattern with the text as it stands. More says that the text ended too soon.
func (p *pattern) literal(s string, i int) (end int, saw signs, more bool) {
	skipped := 0
	for k := 0; k < len(p.text); i++ {
		if i == len(s) {
			return 0, saw, true
		}
		c := s[i]
		saw.see(c)
		switch {
		case c == p.text[k] || p.fold && c >= 'A' && c <= 'F' && c+'a'-'A' == p.text[k]:
			k++
			skipped = 0
		case k > 0 && p.skip != "" && skipped < longestSkip && strings.IndexByte(p.skip, c) >= 0:
			skipped++
		default:
			return 0, saw, false
		}
	}
	return i, saw, false
}

// escaped compares the pattern with the text in those readings, from this one on, that may make a difference.
func (p *pattern) escaped(s string, i int, r reading, saw signs) (end int, more bool) {
	try := func(r reading) {
		found, seen, unsure := p.read(s, i, r)
		end, more = max(end, found), more || unsure
		saw = signs{seen.slash, saw.percent || seen.percent}
	}
	for ; r <= deepest && saw.slash; r++ {
		try(r)
	}
	if saw.percent {
		try(percent)
	}
	return end, more
}

// read compares the pattern with what the text stands for.
func (p *pattern) read(s string, i int, r reading) (end int, saw signs, more bool) {
	skipped := 0
	for k := 0; k < len(p.text); {
		u, next, ok := r.next(s, i)
		if !ok {
			return 0, saw, true
		}
		i = next
		if u.n == 1 {
			saw.see(u.b[0])
		}
		text := string(u.b[:u.n])
		switch {
		case strings.HasPrefix(p.text[k:], text), p.fold && strings.HasPrefix(p.text[k:], strings.ToLower(text)):
			k += u.n
			skipped = 0
		case r == percent && text == "+" && p.text[k] == ' ':
			k++
		case k > 0 && p.skip != "" && skipped < longestSkip && u.n == 1 && strings.Contains(p.skip, text):
			skipped++
		default:
			return 0, saw, false
		}
	}
	return i, saw, false
}
