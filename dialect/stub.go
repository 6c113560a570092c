package dialect

import (
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

var native = Dialect{Name: "native", Doc: "x", encoder: func(o Options) Encoder { return &tmpEnc{o: o} }, decoder: func(bulk bool) Decoder { return &tmpDec{} },
	shapes: func() *shapes { return &shapes{key: "kind"} }, checker: func() checker { return tmpCheck{} }, score: func(n wire.Node) int { return 0 }}

type tmpEnc struct {
	o   Options
	seq uint64
}

func (x *tmpEnc) Encode(dst []byte, e event.Event) []byte {
	if x.o.NoOrigin {
		if e.Kind == "foreign" {
			return dst
		}
		x.seq++
		e.Seq, e.Of = x.seq, 0
	}
	return append(event.Append(dst, e), '\n')
}

type tmpDec struct{ p event.Parser }

func (x *tmpDec) Decode(line []byte, emit func(event.Event)) {
	l, err := x.p.Parse(line)
	if err != nil {
		return
	}
	e, _ := l.Event()
	emit(e)
}
func (x *tmpDec) Ended() bool                  { return false }
func (x *tmpDec) Close(emit func(event.Event)) {}

type tmpCheck struct{}

func (tmpCheck) line(*check, string, wire.Node) {}
func (tmpCheck) close(*check)                   {}
