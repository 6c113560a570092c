package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/git"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// phase runs a phase to its end, trying again where that may help.
func (r *run) phase(ctx context.Context, job Job) (outcome.Verdict, words) {
	p := job.Phase
	r.emit("", event.PhaseStarted{Phase: p.Name, Iteration: job.Iteration, Part: job.Part})
	job.Session = r.session
	if job.Resumes = p.Resume && r.session != ""; job.Resumes {
		job.spans = slices.Clone(r.spans)
	} else {
		job.Session, r.spans = r.Session(), nil
	}
	if p.Timeout > 0 {
		var release context.CancelFunc
		ctx, release = context.WithTimeoutCause(ctx, p.Timeout, &outcome.Cause{Outcome: event.Timeout, Reason: fmt.Sprintf("phase %s took longer than %s", p.Name, p.Timeout)})
		defer release()
	}
	limit := r.Retries
	if p.Retries != nil {
		limit = *p.Retries
	}
	text, err := p.prompt.with(r.data(ctx, job))
	v, said := outcome.Verdict{Outcome: event.Misuse, Stop: "error", Class: "config"}, words{}
	if err != nil {
		v.Reason = "its prompt: " + err.Error()
		r.stillborn(job, p.Prompt, v)
		limit = 0
	}
	for err == nil {
		after := r.Source.Last()
		v, said = r.attempt(ctx, job, text)
		if v.Outcome == event.Done {
			r.spans = append(r.spans, span{after, r.Source.Last()})
		}
		if job.Attempt == limit || !retryable(v) || said.marker.Word == "abort" {
			break
		}
		job.Attempt++
		r.emit(job.Session, event.PhaseRetry{Attempt: job.Attempt, Limit: limit})
		if !r.pause(ctx, job.Attempt) {
			v = outcome.Ended(ctx)
			r.stillborn(job, text, v)
			break
		}
	}
	r.session, r.last = job.Session, said.last
	end := event.PhaseEnded{Phase: p.Name, Iteration: job.Iteration, Stop: v.Stop}
	if w := said.marker.Word; w == "exit" || w == "abort" {
		end.Marker, end.Label = w, said.marker.Label
	}
	r.emit("", end)
	return v, said
}

// retryable says whether the same once more may end otherwise: not what was refused, asked wrongly, or went nowhere.
func retryable(v outcome.Verdict) bool {
	switch {
	case v.Outcome == event.Unavailable:
		return true
	case v.Outcome != event.Failed || v.Stop != "error" && v.Stop != "":
		return false
	case len(v.Code) == 3 && v.Code[0] == '4':
		return false
	}
	return v.Class != "auth" && v.Class != "config" && v.Class != "overflow"
}

// pause waits before a retry, and keeps what comes meanwhile for it. It says whether there is to be one.
func (r *run) pause(ctx context.Context, n int) bool {
	wait := 30 * time.Second
	if n < 5 {
		wait = time.Second << n
	}
	if r.Wait != nil {
		wait = r.Wait(n)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	for inbox := r.Inbox; ; {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
			return true
		case c, ok := <-inbox:
			if !ok {
				inbox = nil
			}
			r.early = append(r.early, c...)
		}
	}
}

// stillborn tells of a reply that no worker is there to begin or to end.
func (r *run) stillborn(job Job, prompt string, v outcome.Verdict) {
	r.emit(job.Session, event.Prompt{Text: prompt, Source: "phase"})
	if v.Outcome == event.Cancelled {
		r.emit(job.Session, event.ReplyCancelled{Stop: v.Stop})
		return
	}
	r.emit(job.Session, v.Problem("", job.Phase.Model))
	r.emit(job.Session, event.ReplyFailed{Stop: v.Stop})
}

// attempt lets a worker answer the prompt.
func (r *run) attempt(ctx context.Context, job Job, text string) (outcome.Verdict, words) {
	ctx, release := Watch(ctx, r.Source)
	defer release()
	w, err := r.Open(ctx, job)
	if err != nil {
		v := outcome.Verdict{Outcome: event.Misuse, Stop: "error", Class: "config", Reason: err.Error()}
		if c, ok := errors.AsType[*outcome.Cause](err); ok {
			v.Outcome, v.Class, v.Code = c.Outcome, "", c.Code
		}
		if ctx.Err() != nil {
			v = outcome.Ended(ctx)
		}
		r.stillborn(job, text, v)
		return v, words{}
	}
	h := newEar()
	defer r.Source.Watch(h.hear)()
	defer r.Source.Heed(h.answered)()
	a := &attempt{run: r, job: job, ear: h}
	a.add(event.Message{Text: text, Source: "phase"})
	a.add(r.early...)
	r.early = nil
	v := a.serve(ctx, w)
	said, _, _ := h.heard()
	if missing := r.missing(job.Phase.Requires); v.Outcome == event.Done && len(missing) > 0 && said.marker.Word != "abort" {
		v.Outcome, v.Stop, v.Reason = event.Failed, "incomplete_output", "it did not write "+strings.Join(missing, ", ")
		why := v.Problem("", job.Phase.Model)
		why.Source = "loop"
		r.emit("", why) // the session has ended, and well
	}
	h.mu.Lock()
	r.sum.Usage, r.sum.Cost = r.sum.Usage.Add(h.usage), r.sum.Cost.Add(h.cost)
	h.mu.Unlock()
	if r.sum.Denials += v.Denials; r.sum.Denied == "" {
		r.sum.Denied = v.Denied
	}
	return v, said
}

// An attempt is a worker at work on a phase.
type attempt struct {
	*run
	job    Job
	ear    *ear
	queue  []event.Command // for the worker
	asked  int             // messages, which have a reply each
	nudges int
}

// serve passes on what is asked and commanded, and closes the inbox when everything is answered.
func (a *attempt) serve(ctx context.Context, w Worker) outcome.Verdict {
	inbox := make(chan event.Command)
	done := make(chan outcome.Verdict, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- outcome.Verdict{Outcome: event.Internal, Stop: "error", Reason: fmt.Sprintf("panic: %v", p)}
			}
		}()
		done <- w.Serve(ctx, inbox)
	}()
	outside := a.Inbox
	for {
		var to chan<- event.Command
		var next event.Command
		if len(a.queue) > 0 {
			to, next = inbox, a.queue[0]
		}
		select {
		case v := <-done:
			return v
		case to <- next:
			a.queue = a.queue[1:]
		case c, ok := <-outside:
			if !ok {
				outside = nil
				continue
			}
			a.add(c...)
		case <-a.ear.ended:
			said, replies, well := a.ear.heard()
			if replies < a.asked {
				continue
			}
			if well && said.marker.Word != "abort" && a.nudge() {
				continue
			}
			close(inbox)
			return <-done
		}
	}
}

// nudge asks for what is missing, if something is, and if that is still to be done.
func (a *attempt) nudge() bool {
	p := a.job.Phase
	most := 1
	if p.OnIncomplete.Max != nil {
		most = *p.OnIncomplete.Max
	}
	missing := a.missing(p.Requires)
	if len(missing) == 0 || a.nudges >= most {
		return false
	}
	text := p.OnIncomplete.Nudge
	if text == "" {
		text = "These files are still missing or empty: " + strings.Join(missing, ", ") + ". Write them, then say that you are done."
	}
	a.nudges++
	a.add(event.Message{Text: text, Source: "phase"})
	return true
}

// add puts something before the worker.
func (a *attempt) add(list ...event.Command) {
	for _, c := range list {
		if _, message := c.(event.Message); message {
			a.asked++
		}
		a.queue = append(a.queue, c)
	}
}

// missing are the required files that are not there, or empty.
func (r *run) missing(q Requires) (list []string) {
	if len(q.Files)+len(q.NonEmpty) == 0 {
		return nil
	}
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return slices.Concat(q.Files, q.NonEmpty)
	}
	defer root.Close()
	there := func(name string, least int64) bool {
		info, err := root.Stat(filepath.FromSlash(name))
		return err == nil && !info.IsDir() && info.Size() >= least
	}
	for _, f := range q.Files {
		if !there(f, 0) {
			list = append(list, f)
		}
	}
	for _, f := range q.NonEmpty {
		if !there(f, 1) && !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	return list
}

// data is what the phase's prompt may speak of.
func (r *run) data(ctx context.Context, job Job) Data {
	d := Data{
		RunID: r.RunID, Phase: job.Phase.Name, Iteration: job.Iteration, MaxIterations: r.cfg.MaxIterations, WorkDir: r.Dir, LastOutput: r.last,
	}
	if !r.git {
		return d
	}
	before := r.tree
	now, err := git.Snapshot(ctx, r.Dir)
	if err == nil {
		if r.tree = now; before == nil {
			before = now
		}
	}
	changes, cerr := before.Changes(ctx)
	if err = errors.Join(err, cerr); err != nil {
		r.emit(job.Session, event.Notice{Text: strings.ReplaceAll(err.Error(), "\n", "; ")})
	}
	if changes == nil {
		return d
	}
	d.PrevPhaseCommit, d.DiffStat = changes.Base, stat(*changes)
	d.ChangedFiles = slices.Concat(changes.Files, changes.Untracked)
	return d
}

// stat sums changes up as git does.
func stat(c event.Changes) string {
	n := len(c.Files) + len(c.Untracked)
	if n == 0 {
		return ""
	}
	var b strings.Builder
	for _, f := range c.Files {
		b.WriteString(" " + f + "\n")
	}
	for _, f := range c.Untracked {
		b.WriteString(" " + f + " (new)\n")
	}
	fmt.Fprintf(&b, " %s changed, %s(+), %s(-)", many(n, "file"), many(c.Added, "insertion"), many(c.Removed, "deletion"))
	return b.String()
}

func many(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
