package cli

import (
	"sync"

	"github.com/sluice-dev/sluice/event"
)

// A porch is where servers wait with what they have to say until the catalogue is told: that follows the first line at once.
type porch struct {
	mu   sync.Mutex
	open bool
	held []event.Body
}

// tell emits what a server says, now or when the porch is opened.
func (p *porch) tell(src *event.Source, b event.Body) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		p.held = append(p.held, b)
		return
	}
	src.Emit(event.Event{Body: b})
}

// enter emits what was held back.
func (p *porch) enter(src *event.Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = true
	for _, b := range p.held {
		src.Emit(event.Event{Body: b})
	}
	p.held = nil
}
