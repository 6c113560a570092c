package wire

import "time"

// readTime reads the time that nearly every agent writes, 2026-08-22T10:11:12.345Z: UTC, with up to nine digits after the
// point or none. Anything else is left to the time package.
func readTime(b []byte) (time.Time, bool) {
	const form = "2006-01-02T15:04:05Z"
	if len(b) < len(form) || b[len(b)-1] != 'Z' ||
		b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' {
		return time.Time{}, false
	}
	nsec := 0
	if fraction := b[19 : len(b)-1]; len(fraction) > 0 {
		if len(fraction) < 2 || len(fraction) > 10 || fraction[0] != '.' {
			return time.Time{}, false
		}
		nsec = decimal(fraction[1:])
		for n := len(fraction); n < 10; n++ {
			nsec *= 10
		}
	}
	year := decimal(b[0:4])
	month, day := decimal(b[5:7]), decimal(b[8:10])
	hour, minute, sec := decimal(b[11:13]), decimal(b[14:16]), decimal(b[17:19])
	// Days past the 28th are left to the time package, which knows the months.
	if year < 0 || month < 1 || month > 12 || day < 1 || day > 28 ||
		hour < 0 || hour > 23 || minute < 0 || minute > 59 || sec < 0 || sec > 59 || nsec < 0 {
		return time.Time{}, false
	}
	return time.Date(year, time.Month(month), day, hour, minute, sec, nsec, time.UTC), true
}

// decimal returns the number that the digits in b make, negative if not all are digits.
func decimal(b []byte) int {
	n := 0
	for _, c := range b {
		if c-'0' > 9 {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}
