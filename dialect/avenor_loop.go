package dialect

import (
	"slices"

	"github.com/sluice-dev/sluice/event"
)

// This file is what avenor's encoder tells of loops and their phases.

type avenorLoopStart struct {
	MaxIterations  int `json:"max_iterations"`
	PrePhaseCount  int `json:"pre_phase_count"`
	LoopPhaseCount int `json:"loop_phase_count"`
	PostPhaseCount int `json:"post_phase_count,omitempty"`
}

type avenorPhaseStart struct {
	Phase     string `json:"phase"`
	Iteration int    `json:"iteration"`
	Kind      string `json:"kind"`
}

type avenorPhaseEnd struct {
	Phase            string `json:"phase"`
	Iteration        int    `json:"iteration"`
	StopReason       string `json:"stop_reason"`
	AbortMarker      bool   `json:"abort_marker,omitempty"`
	AbortMarkerLabel string `json:"abort_marker_label,omitempty"`
	ExitMarker       bool   `json:"exit_marker,omitempty"`
	ExitMarkerLabel  string `json:"exit_marker_label,omitempty"`
}

type avenorLoopEnd struct {
	ExitReason          string `json:"exit_reason"`
	IterationsCompleted int    `json:"iterations_completed"`
	ExitLabel           string `json:"exit_label,omitempty"`
}

type avenorRetry struct {
	Attempt    int `json:"attempt"`
	MaxRetries int `json:"max_retries"`
}

// cutLoop ends a loop whose end nobody told: the run's end says why, and the iterations that are whole count.
func (a *avenorEncoder) cutLoop(dst []byte, e event.Event) []byte {
	b := event.LoopEnded{Iterations: max(0, a.iteration-1), Inferred: true}
	if a.iteration > 0 && a.phase == nil && a.passed >= max(a.phases, 1) {
		b.Iterations = a.iteration
	}
	r, _ := event.AsRunEnd(e.Body)
	if _, ok := e.Body.(event.RunCancelled); ok {
		b.Reason = "cancelled"
	} else if r.Outcome == event.Timeout || r.Outcome == event.Stalled {
		b.Reason = "timeout"
	}
	return a.endLoop(dst, e.Header, b)
}

// looping tells phases and what is around them.
func (a *avenorEncoder) looping(dst []byte, e event.Event) []byte {
	dst = a.release(dst)
	if _, retry := e.Body.(event.PhaseRetry); a.bare && !retry && e.Session != "" {
		a.opt.lose(e, "session", Dropped, "the sessions of a run of phases are theirs")
		e.Session = ""
	}
	if b, ok := e.Body.(event.LoopStarted); ok {
		if a.cut {
			dst = a.cutLoop(dst, event.Event{Header: e.Header})
		}
		return a.startLoop(dst, e, b)
	}
	if b, ok := e.Body.(event.PhaseRetry); ok {
		clear(a.ended)
		clear(a.erred)
		clear(a.announced)
		a.retries++
		return a.line(dst, e.Header, "avenor.retry", avenorRetry{a.retries, max(b.Limit, a.retries)})
	}
	dst = a.startLoop(dst, event.Event{Header: e.Header}, event.LoopStarted{Loop: 1})
	switch b := e.Body.(type) {
	case event.PhaseStarted:
		b.Iteration = a.within(e, "iteration", b.Iteration)
		dst = a.endPhase(dst, e.Header, event.PhaseEnded{Inferred: true})
		dst = a.startPhase(dst, e.Header, b)
	case event.PhaseEnded:
		b.Iteration = a.within(e, "iteration", b.Iteration)
		if a.phase == nil {
			dst = a.startPhase(dst, e.Header, event.PhaseStarted{Phase: b.Phase, Iteration: b.Iteration})
		}
		if b.Stop != "" && !slices.Contains(avenorStops, b.Stop) {
			a.opt.lose(e, "stop", Approximated, "it is not one of the document's")
			b.Stop = "error"
		}
		dst = a.endPhase(dst, e.Header, b)
	case event.LoopEnded:
		if a.cut = b.Inferred && b.Reason == ""; a.cut {
			return dst
		}
		b.Iterations = a.within(e, "iterations", b.Iterations)
		dst = a.endLoop(dst, e.Header, b)
	}
	return dst
}

// within keeps a count of iterations within what the loop's start said; 0 is no limit.
func (a *avenorEncoder) within(e event.Event, field string, n int) int {
	if a.most > 0 && n > a.most {
		a.opt.lose(e, field, Approximated, "the loop has no more iterations")
		return a.most
	}
	return n
}

// startLoop opens the loop, if it is not open: there are no phases without one, and there is one in a run.
func (a *avenorEncoder) startLoop(dst []byte, e event.Event, b event.LoopStarted) []byte {
	if a.loop != noLoop {
		if e.Body != nil {
			a.drop(e, "there is one loop in a run")
		}
		return dst
	}
	a.loop, a.phases, a.most = inLoop, b.Loop, b.MaxIterations
	return a.line(dst, e.Header, "avenor.loop.start", avenorLoopStart{max(b.MaxIterations, 0), max(b.Pre, 0), max(b.Loop, 0), max(b.Post, 0)})
}

func (a *avenorEncoder) startPhase(dst []byte, h event.Header, b event.PhaseStarted) []byte {
	switch {
	case b.Part == "" && b.Iteration > 0:
		b.Part = "loop"
	case b.Part == "":
		b.Part = "pre"
	}
	if b.Part == "loop" {
		if n := max(b.Iteration, a.iteration, 1); n != a.iteration {
			a.iteration, a.passed = n, 0
		}
		b.Iteration = a.iteration
	} else {
		b.Iteration = 0
	}
	a.phase, a.retries, a.stop = &b, 0, ""
	clear(a.ended)
	clear(a.erred)
	clear(a.announced)
	return a.line(dst, h, "avenor.phase.start", avenorPhaseStart{b.Phase, b.Iteration, b.Part})
}

// endPhase closes the open phase, under the name it was opened with.
func (a *avenorEncoder) endPhase(dst []byte, h event.Header, b event.PhaseEnded) []byte {
	p := a.phase
	if p == nil {
		return dst
	}
	a.phase = nil
	clear(a.announced)
	l := avenorPhaseEnd{Phase: p.Phase, Iteration: p.Iteration, StopReason: first(b.Stop, a.stop, "error")}
	if p.Part == "loop" && !b.Inferred && isDone(l.StopReason) {
		a.passed++
	}
	switch b.Marker {
	case "abort":
		l.AbortMarker, l.AbortMarkerLabel = true, b.Label
	case "exit":
		l.ExitMarker, l.ExitMarkerLabel = true, b.Label
	}
	return a.line(dst, h, "avenor.phase.end", l)
}

func (a *avenorEncoder) endLoop(dst []byte, h event.Header, b event.LoopEnded) []byte {
	dst = a.settle(dst, h)
	dst = a.endPhase(dst, h, event.PhaseEnded{Inferred: true})
	reason := b.Reason
	switch {
	case slices.Contains(avenorExits, reason):
	case isCancelled(a.stop):
		reason = "cancelled"
	case a.stop == "timeout":
		reason = "timeout"
	case reason == "" && isDone(a.stop) && !b.Inferred:
		reason = "end_turn"
	default:
		reason = "phase_failure"
	}
	a.loop, a.over = loopOver, true
	return a.line(dst, h, "avenor.loop.end", avenorLoopEnd{reason, max(b.Iterations, 0), b.Label})
}

// avenorExits are the reasons why a loop ends.
var avenorExits = []string{"end_turn", "abort", "exit", "max_iterations", "phase_failure", "timeout", "cancelled"}
