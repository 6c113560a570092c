// Package sluice is the root of Sluice: it runs coding agents with nobody watching and tells the truth about what they did, as
// a stream of events.
//
// To read any agent's stream from Go, start with [github.com/sluice-dev/sluice/dialect]; the events themselves are in
// [github.com/sluice-dev/sluice/event], views over them in [github.com/sluice-dev/sluice/fold], files of them in
// [github.com/sluice-dev/sluice/journal]. The program is in cmd/sluice.
package sluice
