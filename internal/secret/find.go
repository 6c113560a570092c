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

// cover finds the secret that begins at i, and those that begin inside it and reach further. The end is 0 if there is none.
// More says that the text ended too soon to know.
func (f *finder) cover(s string, i int) (end int, marks string, more bool) {
	m, more := f.at(s, i)
	if m.end == 0 {
		return 0, "", more
	}
	end, marks = m.end, m.pattern.mark
	for i++; i < end; i++ {
		if !f.likely(s, i) {
			continue
		}
		m, unsure := f.at(s, i)
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
	try := func(p *pattern, r reading) {
		end, unsure := p.read(s, i, r)
		more = more || unsure
		if end > best.end {
			best = match{end, p}
		}
	}
	c := s[i]
	for _, p := range f.first[c] {
		end, plain, unsure := p.literal(s, i)
		more = more || unsure
		if end > best.end {
			best = match{end, p}
		}
		if end == 0 && !plain {
			for _, r := range readings {
				try(p, r)
			}
		}
	}
	if c != '\\' && c != '%' {
		return best, more
	}
	for _, r := range readings {
		u, _, ok := r.next(s, i)
		if !ok {
			more = true
			continue
		}
		if u.n == 1 && u.b[0] == c { // it stands for itself: see above
			continue
		}
		for _, p := range f.first[u.b[0]] {
			try(p, r)
		}
	}
	return best, more
}

// longestSkip is how much may stand between two characters of a pattern.
const longestSkip = 32

// literal compares the pattern with the text as it stands. Plain says that there was no sign of an escape, so that every other
// reading would say the same; more, that the text ended too soon.
func (p *pattern) literal(s string, i int) (end int, plain, more bool) {
	plain = true
	skipped := 0
	for k := 0; k < len(p.text); i++ {
		if i == len(s) {
			return 0, plain, true
		}
		c := s[i]
		if c == '\\' || c == '%' || c == '+' {
			plain = false
		}
		switch {
		case c == p.text[k] || p.fold && c >= 'A' && c <= 'F' && c+'a'-'A' == p.text[k]:
			k++
			skipped = 0
		case k > 0 && p.skip != "" && skipped < longestSkip && strings.IndexByte(p.skip, c) >= 0:
			skipped++
		default:
			return 0, plain, false
		}
	}
	return i, plain, false
}

// read compares the pattern with what the text stands for.
func (p *pattern) read(s string, i int, r reading) (end int, more bool) {
	skipped := 0
	for k := 0; k < len(p.text); {
		u, next, ok := r.next(s, i)
		if !ok {
			return 0, true
		}
		i = next
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
			return 0, false
		}
	}
	return i, false
}
