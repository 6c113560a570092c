package wire

import (
	"fmt"
	"runtime"
	"testing"
)

type named struct {
	name string
	n    int
}

func (n named) String() string { return fmt.Sprint(n.name, n.n) }

type tiny struct{ p *int }

func (t tiny) String() string { return fmt.Sprint(*t.p) }

func TestCell(t *testing.T) {
	c := NewCell[fmt.Stringer, named]()
	for n := range 3 {
		c.Value = named{fmt.Sprint("name ", n, " "), n}
		runtime.GC()
		if got, want := c.As().String(), fmt.Sprint("name ", n, " ", n); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got, ok := c.As().(named); !ok || got != c.Value {
			t.Errorf("%v, want %v", got, c.Value)
		}
	}
	small := NewCell[fmt.Stringer, tiny]()
	for n := range 3 {
		small.Value.p = &n
		if got := small.As().String(); got != fmt.Sprint(n) {
			t.Errorf("%q, want %d", got, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { c.Value.n++; c.As() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
