// Package spell finds out which word a mistyped one was meant to be.
package spell

import "strings"

// Nearest returns the known word that is at most a third of its letters away, or none. Capitals do not count. Of two that are
// equally near, it is the first.
func Nearest(word string, known []string) string {
	word = strings.ToLower(word)
	best, least := "", 0
	for _, k := range known {
		limit := (len(k) + 2) / 3
		if limit >= len(k) || len(word) > len(k)+limit || len(word) < len(k)-limit {
			continue // too far away, whatever the letters are; and what nobody can have meant is not measured
		}
		if d := distance(word, strings.ToLower(k)); d <= limit && (best == "" || d < least) {
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to change, add or leave out, and the neighbours to swap, to make b of a.
func distance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, above, row = above, row, before
		row[0] = i + 1
		for j := range len(b) {
			change := above[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, row[j]+1, above[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
