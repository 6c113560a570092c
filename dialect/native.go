package dialect

import (
	"sync"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// native is our own: events as they stand in a journal. It has a word for everything.
var native = Dialect{
	Name:    "native",
	Doc:     "our own events, header first and body last: seq, at, session, agent, call, of, kind, body",
	encoder: func(o Options) Encoder { return &nativeEncoder{opt: o} },
	decoder: func(b bulk) Decoder { return &nativeDecoder{bulk: b} },
	shapes:  sync.OnceValue(nativeShapes),
	checker: func() checker { return &nativeChecker{} },
	rules:   nativeRules,
	score:   nativeScore,
}

func nativeScore(n wire.Node) int {
	switch {
	case n.Get("kind").Kind() != wire.String || n.Get("body").Kind() != wire.Object:
		return 0
	case n.Get("seq").Kind() != wire.Number:
		return 2
	}
	return 4
}

// nativeEncoder writes events as they are. Without origins there are no foreign lines, and what is left is numbered anew.
type nativeEncoder struct {
	opt Options
	seq uint64
}

func (n *nativeEncoder) Encode(dst []byte, e event.Event) []byte {
	if n.opt.NoOrigin {
		if e.Stamp().Kind == "foreign" {
			return dst
		}
		n.seq++
		e.Seq, e.Of = n.seq, 0
	}
	return append(event.Append(dst, e), '\n')
}
