package event

import "github.com/sluice-dev/sluice/internal/wire"

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
	kind   Kind
	zero   Body
	decode func(raw []byte) (Body, error)
}

type table struct {
	list []entry
	find map[string]int // kind → place in list
}

func of[T Body](zero T) entry {
	return entry{zero.Kind(), zero, func(raw []byte) (Body, error) {
		var b T
		err := wire.Unmarshal(raw, &b)
		return b, err
	}}
}

func index(list ...entry) table {
	t := table{list, make(map[string]int, len(list))}
	for i, e := range list {
		t.find[string(e.kind)] = i
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

// decode reads a body of the given kind. A kind that nobody knows is kept as it stands.
func decode(k Kind, raw []byte) (Body, error) {
	if i, ok := kinds.find[string(k)]; ok {
		return kinds.list[i].decode(raw)
	}
	if !wire.Valid(raw) {
		return nil, &wire.SyntaxError{Reason: "body is not JSON"}
	}
	return Unknown{Name: k, Raw: append(Raw(nil), raw...)}, nil
}

// name returns the kind that b spells, without allocating for known ones.
func name(b []byte) Kind {
	if i, ok := kinds.find[string(b)]; ok {
		return kinds.list[i].kind
	}
	return Kind(b)
}
