// Package loop runs phases over a worker until somebody says that it is enough, and roles over a graph.
//
//	Config ──Run──▶ pre … ─▶ loop, loop, loop … ─▶ post …      each phase: Open ──▶ Worker ◀──inbox── its prompt
//	                                                                      │ events
//	                          markers, last words, required files ◀───────┘
//
// A worker is our own agent or a guest: the loop knows neither. It reads what a worker says off the one [event.Source] that all
// of them emit into, so a marker counts whoever wrote it. Each phase is a session of its own; what a loop decides is
// told in loop.* and phase.* events, and returned as a verdict; the run around it is ended by whoever started it.
package loop
