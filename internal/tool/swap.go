package tool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A swap is one text for another. It is looked for as it stands; if it is not there, by lines whose indentation and trailing
// blanks may differ, since models are careless with those. What is put in then gets the file's indentation.
type swap struct {
	Old string `json:"old_string"`
	New string `json:"new_string"`
	All bool   `json:"replace_all"`
}

// in makes the swap in a text.
func (s swap) in(text string) (string, error) {
	if windows(text) {
		s.Old, s.New = toCRLF(s.Old), toCRLF(s.New)
	}
	switch n := strings.Count(text, s.Old); {
	case n == 0:
		return s.loosely(text)
	case n > 1 && !s.All:
		return "", fmt.Errorf("old_string is there %d times (lines %s): add lines around it until it is the only one, or set replace_all", n, places(text, s.Old))
	}
	after := strings.ReplaceAll(text, s.Old, s.New)
	if after == text {
		return "", errors.New("the file has new_string there already: nothing would change")
	}
	return after, nil
}

// windows says whether most lines of a text end in CR LF.
func windows(text string) bool {
	n := strings.Count(text, "\r\n")
	return n > 0 && 2*n >= strings.Count(text, "\n")
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// places lists the lines on which old begins.
func places(text, old string) string {
	const most = 8
	var list []string
	for at := 0; ; {
		i := strings.Index(text[at:], old)
		if i < 0 {
			return strings.Join(list, ", ")
		}
		if len(list) == most {
			return strings.Join(list, ", ") + " …"
		}
		list = append(list, fmt.Sprint(1+strings.Count(text[:at+i], "\n")))
		at += i + len(old)
	}
}

// loosely makes the swap where the lines are the same but for blanks at their ends. It must be the only such place.
func (s swap) loosely(text string) (string, error) {
	old := splitLines(s.Old)
	lines := splitLines(text)
	if strings.TrimSpace(s.Old) == "" {
		return "", errors.New("old_string is not in the file: read it again, and take the text from there")
	}
	var found []int
	for i := 0; i+len(old) <= len(lines); i++ {
		if slices.EqualFunc(old, lines[i:i+len(old)], sameLine) {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return "", s.notFound(lines, old)
	}
	if len(found) > 1 {
		return "", fmt.Errorf("old_string is not in the file as it stands, and with other blanks it is there %d times (the first at line %d): take it from the file, blanks and all", len(found), found[0]+1)
	}
	at := found[0]
	there := lines[at : at+len(old)]
	indents, ok := indentsOf(old, there)
	if !ok {
		return "", fmt.Errorf("old_string is at line %d but with another indentation: take it from the file, blanks and all", at+1)
	}
	put := indent(s.New, indents)
	if !strings.HasSuffix(s.Old, "\n") { // the end of the last line is not part of it
		put += ending(there[len(there)-1])
	}
	after := strings.Join(lines[:at], "") + put + strings.Join(lines[at+len(old):], "")
	if after == text {
		return "", errors.New("the file has new_string there already: nothing would change")
	}
	return after, nil
}

func (s swap) notFound(lines, old []string) error {
	first := slices.IndexFunc(old, func(l string) bool { return strings.TrimSpace(l) != "" })
	for i, line := range lines {
		if len(old) > 1 && sameLine(line, old[first]) {
			return fmt.Errorf("old_string is not in the file: its first line is at line %d, but what follows is different: read the file again, and take the text from there", i+1)
		}
	}
	return errors.New("old_string is not in the file: read it again, and take the text from there")
}

// splitLines splits into lines with their ends.
func splitLines(s string) []string { return slices.Collect(strings.Lines(s)) }

func sameLine(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

func indentOf(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// ending is the newline of a line, if it has one.
func ending(line string) string {
	switch {
	case strings.HasSuffix(line, "\r\n"):
		return "\r\n"
	case strings.HasSuffix(line, "\n"):
		return "\n"
	}
	return ""
}

// indentsOf says which indentation of the file stands for which of the model's. If one stands for two, it cannot be said.
func indentsOf(old, there []string) (map[string]string, bool) {
	m := map[string]string{}
	for i, line := range old {
		if strings.TrimSpace(line) == "" {
			continue
		}
		from, to := indentOf(line), indentOf(there[i])
		if was, ok := m[from]; ok && was != to {
			return nil, false
		}
		m[from] = to
	}
	return m, true
}

// indent gives a text the file's indentation. One that is not known is made of the longest known one that it begins with.
func indent(text string, indents map[string]string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			out.WriteString(line)
			continue
		}
		from := indentOf(line)
		best, known := "", false
		for i := range indents {
			if strings.HasPrefix(from, i) && (!known || len(i) > len(best)) {
				best, known = i, true
			}
		}
		if known {
			line = indents[best] + likewise(from[len(best):], best, indents[best]) + line[len(from):]
		}
		out.WriteString(line)
	}
	return out.String()
}

// likewise turns more blanks into tabs, if the file has tabs where the model has blanks.
func likewise(more, from, to string) string {
	if to == "" || strings.Trim(to, "\t") != "" || strings.Trim(from+more, " ") != "" || len(from)%len(to) != 0 {
		return more
	}
	width := len(from) / len(to)
	if width == 0 {
		return more
	}
	return strings.Repeat("\t", len(more)/width) + more[:len(more)%width]
}
