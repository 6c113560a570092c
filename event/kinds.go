package event

import (
	"sync"

	"github.com/sluice-dev/sluice/internal/wire"
)

// kinds lists every kind. To add one: declare the struct and its two methods, name it here, and add a sample to samples.go.
var kinds = index(
	of(RunStarted{}), of(SessionStarted{}), of(Catalog{}), of(Prompt{}),
	of(TurnStarted{}), of(TurnEnded{}), of(TextDelta{}), of(Text{}), of(ThoughtDelta{}), of(Thought{}),
	of(ToolCalled{}), of(GateAsked{}), of(GateAllowed{}), of(GateDenied{}), of(ToolStarted{}), of(ToolOutput{}),
	of(ToolDone{}), of(ToolFailed{}), of(ToolDenied{}), of(ToolCancelled{}),
	of(SkillFound{}), of(SkillLoaded{}), of(SkillRead{}), of(AgentStarted{}), of(AgentEnded{}),
	of(Compacted{}), of(Retry{}), of(Error{}), of(Notice{}), of(Diag{}),
	of(ReplyDone{}), of(ReplyFailed{}), of(ReplyCancelled{}), of(Status{}),
	of(LoopStarted{}), of(LoopEnded{}), of(PhaseStarted{}), of(PhaseEnded{}), of(PhaseRetry{}),
	of(Plan{}), of(ChannelReady{}), of(ChannelQueued{}), of(ChannelSubmitted{}), of(Report{}), of(Answer{}), of(Finished{}),
	of(Custom{}), of(RunDone{}), of(RunFailed{}), of(RunCancelled{}), of(Foreign{}),
)

// entry is what the table knows of a kind.
type entry struct {
	kind  Kind
	label string // as it stands in a header before its body
	zero  Body
	read  readFunc
	part  func(fields []string) readFunc // reads those only, each body into the place of the one before
}

type readFunc func(raw []byte) (Body, error)

type table struct {
	list  []entry
	slots [256]uint8 // one more than a place in list
}

// slot is where a name is looked for first; the next slots have those that would share it.
func slot[T Kind | []byte](name T) uint8 {
	n := len(name)
	if n == 0 {
		return 0
	}
	return uint8(n)*29 ^ name[0]*3 ^ name[n/2]*17 ^ name[n-1]*5
}

// find returns the place of a kind in the list, -1 if nobody knows it. Each line of a journal asks it: a map takes longer.
func find[T Kind | []byte](t *table, name T) int {
	for at := slot(name); t.slots[at] != 0; at++ {
		if i := int(t.slots[at]) - 1; string(t.list[i].kind) == string(name) {
			return i
		}
	}
	return -1
}

func of[T Body](zero T) entry {
	whole := sync.OnceValue(wire.NewCodec[T])
	return entry{
		kind: zero.Kind(), label: `"kind":"` + string(zero.Kind()) + `","body":`, zero: zero,
		read: func(raw []byte) (Body, error) { return whole().Read(raw) },
		part: func(fields []string) readFunc {
			r, cell := wire.NewPart[T](fields), wire.NewCell[Body, T]()
			return func(raw []byte) (Body, error) {
				cell.Value = zero
				err := r.Read(raw, &cell.Value)
				return cell.As(), err
			}
		},
	}
}

func index(list ...entry) table {
	t := table{list: list}
	for i, e := range list {
		at := slot(e.kind)
		for t.slots[at] != 0 {
			at++
		}
		t.slots[at] = uint8(i + 1)
	}
	return t
}

// Kinds returns an empty body of every kind, in the order of the table.
func Kinds() []Body {
	bodies := make([]Body, len(kinds.list))
	for i, e := range kinds.list {
		bodies[i] = e.zero
	}
	return bodies
}

// readerOf returns what reads bodies of a kind. Those of a kind that nobody knows are kept as they stand.
func readerOf(k Kind) readFunc {
	if i := find(&kinds, k); i >= 0 {
		return kinds.list[i].read
	}
	return func(raw []byte) (Body, error) {
		if !wire.Valid(raw) {
			return nil, &wire.SyntaxError{Reason: "body is not JSON"}
		}
		return Unknown{Name: k, Raw: append(Raw(nil), raw...)}, nil
	}
}

// decode reads a body of the given kind.
func decode(k Kind, raw []byte) (Body, error) { return readerOf(k)(raw) }

// name returns the kind that b spells, without allocating for known ones, and one more than its place in the table.
func name(b []byte) (Kind, uint8) {
	if i := find(&kinds, b); i >= 0 {
		return kinds.list[i].kind, uint8(i + 1)
	}
	return Kind(b), 0
}
