//go:build unix

package main

import (
	"bytes"
	"strings"
)

// converse is a client that does one thing after the other:
//
//	{…}             sends the line; so does anything that is none of the others
//	await TYPE      reads on to an event of the type
//	approve SCOPE   allows what was asked last
//	stray           waits until the command runs
//	term, eof       ends it by SIGTERM, or by closing stdin
//	again ARGS…     another process in the same place, when one has ended
func (r *run) converse(steps, always []string) {
	r.silent = true
	a := (&talk{run: r, mind: &mind{}}).open()
	call := ""
	for _, step := range steps {
		verb, rest, _ := strings.Cut(step, " ")
		switch verb {
		case "await":
			if l := a.until(rest); rest == "tool_request" {
				call, _ = l["call_id"].(string)
			}
		case "approve":
			a.approve(call, rest)
		case "stray":
			r.awaitStray("one")
		case "term":
			a.term()
		case "eof":
			a.close(0)
		case "again":
			r.args, r.errs = append(always[:len(always):len(always)], strings.Fields(rest)...), bytes.Buffer{}
			a = (&talk{run: r, mind: &mind{}}).open()
		default:
			a.raw(step)
		}
	}
}
