package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/internal/control"
	"github.com/sluice-dev/sluice/internal/rpc"
)

// keptRuns is how many runs that are over a supervisor still knows.
const keptRuns = 256

// spawn begins a run. It returns when the run has a journal, or could not be begun.
func (s *supervisor) spawn(_ context.Context, p control.Spawn) (control.Run, error) {
	h := newHelm(steering{park: s.park, stays: true})
	h.parent, h.turned = p.ParentID, s.turned
	if err := s.admit(h); err != nil {
		return nil, err
	}
	dir := filepath.Join(s.dir, h.id)
	var f avenorFlags
	set := f.command(IO{}).Flags()
	h.events, h.sentinel = first(p.OnEvent, filepath.Join(dir, "events.ndjson")), first(p.SentinelFile, filepath.Join(dir, "sentinel.env"))
	err := os.Mkdir(dir, 0o700)
	for name, value := range map[string]string{
		"prompt": p.Prompt, "prompt-file": p.PromptFile, "config": first(p.Config, p.LoopFile), "dir": p.Dir, "agent": p.Agent, "label": p.Label, "model": p.Model,
		"thinking": p.Thinking, "backend": p.Backend, "resume": p.SessionID, "on-event": h.events, "sentinel-file": h.sentinel, "permission-handler": p.PermissionHandler,
		"auto-approve": fmt.Sprint(p.AutoApprove), "max-retries": fmt.Sprint(p.MaxRetries),
	} {
		if value != "" && value != "0" && value != "false" {
			err = either(err, set.Set(name, value))
		}
	}
	timeout, terr := spawnTime(p.Timeout)
	if err = either(err, terr); err == nil && timeout > 0 {
		err = set.Set("timeout", timeout.String())
	}
	if err != nil {
		s.forget(h)
		s.running.Done()
		os.RemoveAll(dir)
		return nil, rpc.Errorf(rpc.CodeParams, "%v", err)
	}
	f.amend = func(o *runOptions) {
		o.inner, o.helm = true, h
		if !o.autoApprove {
			o.onAsk = forward
		}
	}
	go func() {
		defer s.running.Done()
		err := f.run(s.ctx, IO{Out: io.Discard, Err: &named{s.io.Err, h.id}, Tools: s.io.Tools}, set)
		if code := exitError(0); !errors.As(err, &code) && err != nil {
			h.leave(exitUsage, err.Error()) // it was not begun at all
		}
		s.forget(h)
	}()
	select {
	case <-h.started:
		return h, nil
	case <-h.over:
		s.forget(h) // before the answer: who asks again at once finds the room
		os.RemoveAll(dir)
		return nil, rpc.Errorf(rpc.CodeParams, "%s", first(h.reason, "the run could not be begun"))
	}
}

// spawnTime reads a time: seconds, or a duration.
func spawnTime(v any) (time.Duration, error) {
	switch v := v.(type) {
	case nil:
		return 0, nil
	case float64:
		if v >= 0 && v == float64(int64(v)) && v < 1e9 {
			return time.Duration(v) * time.Second, nil
		}
	case string:
		if d, err := time.ParseDuration(v); err == nil && d >= 0 {
			return d, nil
		}
	}
	return 0, fmt.Errorf("timeout %v: it is whole seconds, or a duration such as \"90s\"", v)
}

// admit gives a run its id, if there is room. One that only waits for a prompt makes room if need be.
func (s *supervisor) admit(h *helm) error {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return rpc.Errorf(rpc.CodeFailed, "the supervisor is about to end")
		}
		if len(s.runs) < s.most {
			s.count++
			h.id = fmt.Sprintf("rt_%d", s.count)
			s.runs = append(s.runs, h)
			s.running.Add(1)
			s.mu.Unlock()
			s.turned()
			return nil
		}
		i := slices.IndexFunc(s.runs, func(h *helm) bool { return h.idle.Load() })
		if i < 0 {
			err := rpc.Errorf(control.CodeCapacity, "%d runs go on, and there may not be more: wait for one, or cancel it", len(s.runs))
			err.Data, _ = json.Marshal(map[string]any{"source": "local", "retryable": true, "limit": s.most, "active": len(s.runs)})
			s.mu.Unlock()
			return err
		}
		parked := s.runs[i]
		s.mu.Unlock()
		parked.dismiss()
		select {
		case <-parked.over:
			s.forget(parked)
		case <-time.After(s.grace): // somebody asked it something at the last moment
		}
	}
}

// forget takes a run that is over off the list of those that go on. Of very many that are over, the oldest are not known any more.
func (s *supervisor) forget(h *helm) {
	s.mu.Lock()
	i := slices.Index(s.runs, h)
	if i < 0 {
		s.mu.Unlock()
		return
	}
	s.runs = slices.Delete(slices.Clone(s.runs), i, i+1)
	s.ended = append(s.ended, h.id)
	var old string
	if len(s.ended) > keptRuns {
		old, s.ended = s.ended[0], s.ended[1:]
	}
	s.mu.Unlock()
	if old != "" {
		s.server.Remove(old)
	}
	s.turned()
}

// turned looks whether anything is being done. As long as that is so, the supervisor stays.
func (s *supervisor) turned() {
	if s.quiet == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.runs, func(h *helm) bool { return !h.idle.Load() }) {
		s.quiet.Stop()
	} else {
		s.quiet.Reset(s.idle)
	}
}

// A named writer says whose lines they are.
type named struct {
	w    io.Writer
	name string
}

func (n *named) Write(p []byte) (int, error) {
	if _, err := fmt.Fprintf(n.w, "%s: %s", n.name, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
