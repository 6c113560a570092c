package cli

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/git"
)

// A worktree is what git knows of the workspace. It is looked at just before the first call that may change something: a run
// that changes nothing does not pay for it.
type worktree struct {
	once  sync.Once
	state *git.State
}

func (t *worktree) before(ctx context.Context, dir string) {
	t.once.Do(func() { t.state, _ = git.Snapshot(ctx, dir) })
}

// after says what changed since, also when the run itself was stopped.
func (t *worktree) after() *event.Changes {
	t.once.Do(func() {}) // nobody looks any more
	if t.state == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, _ := t.state.Changes(ctx)
	return c
}
