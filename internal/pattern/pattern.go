// Package pattern has regular expressions that are compiled when they are first needed: the program has many, one run needs few, and
// every start would pay for all.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns what compiles expr the first time it is called. One that is wrong panics then.
func Lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
