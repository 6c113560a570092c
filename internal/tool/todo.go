package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

// A Todo is one thing to be done.
type Todo struct {
	Content string `json:"content"`
	Status  string `json:"status"` // pending, in_progress, completed or cancelled
}

var statuses = []string{"pending", "in_progress", "completed", "cancelled"}

// todo keeps the model's list of what there is to do.
type todo struct {
	mu   sync.Mutex
	list []Todo
}

const maxTodos = 200

func (*todo) Spec() Spec {
	return Spec{
		Name:  "todo",
		Top:   true,
		Class: event.ClassInfo,
		Description: "Keeps your list of what there is to do, for work of several steps. Each call gives the whole list and replaces the one before. " +
			"At most one item should be in_progress.",
		Schema: event.Raw(`{"type":"object","properties":{` +
			`"todos":{"type":"array","description":"The whole list.","items":{"type":"object","properties":{` +
			`"content":{"type":"string","description":"What is to be done."},` +
			`"status":{"type":"string","enum":["pending","in_progress","completed","cancelled"]}},` +
			`"required":["content","status"]}}},` +
			`"required":["todos"]}`),
	}
}

func (t *todo) Plan(input event.Raw) (Plan, error) {
	var a struct {
		Todos []Todo `json:"todos"`
	}
	if err := decode(input, &a, "todos"); err != nil {
		return Plan{}, err
	}
	if len(a.Todos) > maxTodos {
		return Plan{}, fmt.Errorf("todos has %d items: at most %d", len(a.Todos), maxTodos)
	}
	done := 0
	for i, item := range a.Todos {
		switch {
		case strings.TrimSpace(item.Content) == "":
			return Plan{}, fmt.Errorf("todos[%d].content is empty", i)
		case !slices.Contains(statuses, item.Status):
			return Plan{}, fmt.Errorf("todos[%d].status is %q: use %s", i, item.Status, strings.Join(statuses, ", "))
		case item.Status == "completed":
			done++
		}
	}
	title := fmt.Sprintf("%d of %d done", done, len(a.Todos))
	return Plan{
		Title:  title,
		Access: []gate.Access{{Permission: "todo", Target: "*", Class: event.ClassInfo}},
		Run: func(context.Context, func(string)) Result {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.list = slices.Clone(a.Todos)
			return Result{Output: t.text(), Metadata: metadata(a)}
		},
	}, nil
}

// text shows the list.
func (t *todo) text() string {
	if len(t.list) == 0 {
		return "(the list is empty)\n"
	}
	marks := map[string]string{"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}
	var b strings.Builder
	for _, item := range t.list {
		fmt.Fprintf(&b, "%s %s\n", marks[item.Status], item.Content)
	}
	return b.String()
}
