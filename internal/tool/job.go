package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/proc"
)

// jobs are the commands in the background. They end with the run, since its group of processes does.
type jobs struct {
	mu   sync.Mutex
	list []*job
}

// A job is one of them. All that it says goes to a file; what nobody has read yet is kept as well, the newest of it.
type job struct {
	name    string
	process *proc.Process
	clean   io.WriteCloser // writes to the job

	mu     sync.Mutex
	keep   int
	unread []byte
	lost   int64 // bytes that nobody read in time
	spill  spill
}

func (j *job) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.spill.full() {
		j.spill.write(p) // without a file there is still what is kept
	}
	j.unread = append(j.unread, p...)
	if over := len(j.unread) - j.keep; over > j.keep {
		j.unread = append(j.unread[:0], j.unread[over:]...)
		j.lost += int64(over)
	}
	return len(p), nil
}

// news is what was said since the last time.
func (j *job) news() string {
	if ended(j.process) {
		_ = j.clean.Close() // a job takes everything
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	n := wholeRunes(j.unread)
	if ended(j.process) {
		n = len(j.unread)
		j.spill.close()
	}
	text := strings.ToValidUTF8(string(j.unread[:n]), "\uFFFD")
	j.unread = append([]byte(nil), j.unread[n:]...)
	if j.lost > 0 {
		text = note(j.lost, 0, j.spill.path) + text
		j.lost = 0
	}
	return text
}

func ended(p *proc.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// begin starts a command that nobody waits for.
func (t bash) begin(command string) Result {
	j := &job{keep: t.o.Keep, spill: spill{dir: t.o.Spill, limit: t.o.MaxSpill}}
	if err := j.spill.open(); err != nil {
		return Result{Error: fmt.Sprintf("the file for its output cannot be made: %v", err)}
	}
	j.clean = t.o.Clean(j)
	t.jobs.mu.Lock()
	defer t.jobs.mu.Unlock()
	var err error
	if j.process, err = t.start(command, j.clean); err != nil {
		j.spill.close()
		return Result{Error: err.Error()}
	}
	j.name = fmt.Sprintf("job-%d", len(t.jobs.list)+1)
	t.jobs.list = append(t.jobs.list, j)
	return Result{
		Output:   fmt.Sprintf("%s runs in the background; what it says goes to %s\n", j.name, j.spill.path),
		Metadata: metadata(map[string]string{"job": j.name, "spill": j.spill.path}),
	}
}

func (l *jobs) find(name string) (*job, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, j := range l.list {
		if j.name == name {
			return j, nil
		}
		names = append(names, j.name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no job %q: nothing was started in the background", name)
	}
	return nil, fmt.Errorf("there is no job %q; there are %s", name, strings.Join(names, ", "))
}

// bashOutput looks after commands in the background.
type bashOutput struct{ jobs *jobs }

const longestWait = time.Minute

func (bashOutput) Spec() Spec {
	return Spec{
		Name:  "bash_output",
		Class: event.ClassInfo,
		Description: fmt.Sprintf("Shows what a command in the background has said since the last time, and whether it still runs. With wait it waits so "+
			"many milliseconds (at most %d) for the command to end. With kill it ends the command.", longestWait.Milliseconds()),
		Schema: event.Raw(`{"type":"object","properties":{` +
			`"job":{"type":"string","description":"The name that bash gave it: job-1."},` +
			`"wait":{"type":"integer","minimum":0,"description":"Milliseconds to wait for its end."},` +
			`"kill":{"type":"boolean","description":"End it."}},` +
			`"required":["job"]}`),
	}
}

func (t bashOutput) Plan(input event.Raw) (Plan, error) {
	var a struct {
		Job  string `json:"job"`
		Wait int64  `json:"wait"`
		Kill bool   `json:"kill"`
	}
	if err := decode(input, &a, "job"); err != nil {
		return Plan{}, err
	}
	if a.Wait < 0 {
		return Plan{}, errors.New("wait is in milliseconds, from 0 up")
	}
	wait := time.Duration(min(a.Wait, longestWait.Milliseconds())) * time.Millisecond
	return Plan{Title: a.Job, Run: func(ctx context.Context, _ func(string)) Result {
		j, err := t.jobs.find(a.Job)
		if err != nil {
			return Result{Error: err.Error()}
		}
		if a.Kill {
			end(j.process)
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-j.process.Done():
		case <-timer.C:
		case <-ctx.Done():
			return Result{Error: "cancelled"}
		}
		return j.report()
	}}, nil
}

func (j *job) report() Result {
	state := "it still runs"
	r := Result{}
	if ended(j.process) {
		e := j.process.Wait()
		state = "it has ended: " + e.String()
		if e.Code >= 0 {
			r.Exit = &e.Code
		}
	}
	news := j.news()
	if news == "" {
		news = "(nothing new)\n"
	} else if !strings.HasSuffix(news, "\n") {
		news += "\n"
	}
	r.Output = fmt.Sprintf("%s[%s: %s]\n", news, j.name, state)
	return r
}
