package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/agent"
	"github.com/sluice-dev/sluice/internal/proc"
	"github.com/sluice-dev/sluice/internal/tool"
)

// checks are what a run must pass before it is done: it finished, but did it do what was asked? A run that fails one is not
// verified.
type checks struct {
	schemaFile   string
	requireTools []string
	verify       string
	expectChange bool

	mu     sync.Mutex
	called []string // tools that were called and worked
}

// saw takes note of a call that ended.
func (c *checks) saw(call agent.Call, end event.ToolEnd) {
	if end.Error != "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.called, call.Tool) {
		c.called = append(c.called, call.Tool)
	}
}

// available says which required tool is not even there.
func (c *checks) available(specs []tool.Spec) error {
	for _, name := range c.requireTools {
		if !slices.ContainsFunc(specs, func(s tool.Spec) bool { return s.Name == name }) {
			return fmt.Errorf("the tool %q is required, and there is none of that name", name)
		}
	}
	return nil
}

// answer returns what says whether a final answer fits the schema; nil if there is none.
func (c *checks) answer() (func(string) error, error) {
	if c.schemaFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(c.schemaFile)
	if err != nil {
		return nil, hinted{err, "--output-schema names a file with a JSON Schema"}
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &schema); err != nil {
		return nil, hinted{fmt.Errorf("%s: %w", c.schemaFile, err), "--output-schema names a file with a JSON Schema"}
	}
	resolved, err := schema.Resolve(nil) // references to other files or the network are errors
	if err != nil {
		return nil, hinted{fmt.Errorf("%s: %w", c.schemaFile, err), "--output-schema names a file with a JSON Schema"}
	}
	return func(text string) error {
		var value any
		if err := json.Unmarshal([]byte(unfenced(text)), &value); err != nil {
			return errors.New("the answer is not JSON, and a schema was given: " + oneLine(err.Error()))
		}
		if err := resolved.Validate(value); err != nil {
			return errors.New("the answer does not fit its schema: " + oneLine(err.Error()))
		}
		return nil
	}, nil
}

// unfenced takes a fence off an answer that is one fenced block: models cannot help it.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	if body, ok := strings.CutPrefix(text, "```"); ok {
		if body, ok = strings.CutSuffix(body, "```"); ok && !strings.Contains(body, "```") {
			if _, rest, ok := strings.Cut(body, "\n"); ok {
				return rest
			}
		}
	}
	return text
}

// after holds a run that is done to what was asked of it.
func (c *checks) after(ctx context.Context, r *runner) error {
	c.mu.Lock()
	called := slices.Clone(c.called)
	c.mu.Unlock()
	for _, name := range c.requireTools {
		if !slices.Contains(called, name) {
			return fmt.Errorf("the tool %q was never called with success, and is required", name)
		}
	}
	if c.expectChange {
		if ch := r.tree.after(); ch == nil || len(ch.Files)+len(ch.Untracked) == 0 {
			return errors.New("nothing changed in the work tree, and a change was expected")
		}
	}
	if c.verify != "" {
		return c.run(ctx, r)
	}
	return nil
}

// run runs the command that verifies.
func (c *checks) run(ctx context.Context, r *runner) error {
	var out tail
	begun := time.Now()
	p, err := r.group.Start(proc.Cmd{
		Args: r.gear.walled([]string{"bash", "-c", c.verify}), Dir: r.workspace, Env: tool.Environment(os.Environ()), Stdout: &out, Stderr: &out,
	})
	if err != nil {
		return fmt.Errorf("--verify: %w", err)
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
	}
	exit := p.Wait()
	fields, _ := json.Marshal(map[string]any{"command": c.verify, "exit": exit.Code, "ms": time.Since(begun).Milliseconds(), "output": out.String()})
	r.line.src.Emit(event.Event{Body: event.Custom{Name: "verify", Fields: fields}})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case exit.Code != 0 || exit.Err != nil:
		return fmt.Errorf("--verify failed: %s: %s", c.verify, exit)
	}
	return nil
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if most := 8 << 10; len(t.buf) > 2*most {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-most:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.buf), "\uFFFD")
}
