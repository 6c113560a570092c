package dialect

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// aictrlIn is a line as one may come: the specification's form, and what the program really writes.
type aictrlIn struct {
	Type         string       `json:"type"`
	Timestamp    wire.Num     `json:"timestamp"`
	SessionID    string       `json:"sessionID"`
	InvocationID wire.Span    `json:"invocationID"`
	Part         aictrlPartIn `json:"part"`

	Model       string    `json:"model"` // session_start
	Permissions wire.Span `json:"permissions"`
	Tools       wire.Span `json:"tools"` // tool_catalog
	Skills      wire.Span `json:"skills"`

	MessageID  string         `json:"messageID"` // message_complete
	ModelID    string         `json:"modelID"`
	ProviderID string         `json:"providerID"`
	Agent      string         `json:"agent"`
	Cost       wire.Span      `json:"cost"`
	Tokens     aictrlTokensIn `json:"tokens"`
	Context    struct {
		Used  wire.Num `json:"used"`
		Limit wire.Num `json:"limit"`
	} `json:"context"`
	Finish string `json:"finish"`
	Status string `json:"status"`

	CallID     string    `json:"callID"` // permission_*
	Tool       string    `json:"tool"`
	Permission string    `json:"permission"`
	Patterns   []string  `json:"patterns"`
	Input      wire.Span `json:"input"`

	Name        string `json:"name"` // skill_*
	Description string `json:"description"`
	Location    string `json:"location"`
	SkillName   string `json:"skillName"`
	FilePath    string `json:"filePath"`

	SubagentSessionID string `json:"subagentSessionID"`
	ParentSessionID   string `json:"parentSessionID"`
	Title             string `json:"title"`

	Error           event.Raw `json:"error"` // a string or null in session_complete, an object in error
	SourceSessionID string    `json:"sourceSessionID"`
	Reason          string    `json:"reason"`
	Code            event.Raw `json:"code"`
	Message         string    `json:"message"`
	DurationMs      wire.Num  `json:"durationMs"`
}

type aictrlPartIn struct {
	ID        wire.Passing `json:"id"`
	SessionID string       `json:"sessionID"`
	MessageID string       `json:"messageID"`
	Text      wire.Passing `json:"text"`
	Synthetic bool         `json:"synthetic"` // the program spoke in the user's place
	CallID    string       `json:"callID"`
	Tool      string       `json:"tool"`
	State     struct {
		Status   string                      `json:"status"`
		Input    wire.Span                   `json:"input"`
		Output   wire.Prose                  `json:"output"`
		Error    wire.Span                   `json:"error"`
		Title    string                      `json:"title"`
		Metadata wire.Kept[aictrlMetadataIn] `json:"metadata"`
		Time     aictrlTimeIn                `json:"time"`
	} `json:"state"`
	Time     aictrlTimeIn `json:"time"`
	Metadata struct {
		Anthropic struct {
			Signature string `json:"signature"`
		} `json:"anthropic"`
	} `json:"metadata"`
	Reason string         `json:"reason"` // step_finish
	Cost   wire.Span      `json:"cost"`
	Tokens aictrlTokensIn `json:"tokens"`
}

// aictrlMetadataIn is what has a field of its own in our events.
type aictrlMetadataIn struct {
	Exit      wire.Span  `json:"exit"`
	Output    wire.Prose `json:"output"`
	Truncated wire.Span  `json:"truncated"`
}

type aictrlTimeIn struct {
	Start wire.Num `json:"start"`
	End   wire.Num `json:"end"`
}

type aictrlTokensIn struct {
	Input     wire.Num `json:"input"`
	Output    wire.Num `json:"output"`
	Reasoning wire.Num `json:"reasoning"`
	Cache     struct {
		Read  wire.Num `json:"read"`
		Write wire.Num `json:"write"`
	} `json:"cache"`
}

func (t aictrlTokensIn) usage() event.Usage {
	if t == (aictrlTokensIn{}) {
		return event.Usage{}
	}
	n := new([5]int64) // in one piece, since there is one for each turn
	return event.Usage{
		Input: number(t.Input, &n[0]), Output: number(t.Output, &n[1]), Reasoning: number(t.Reasoning, &n[2]),
		CacheRead: number(t.Cache.Read, &n[3]), CacheWrite: number(t.Cache.Write, &n[4]),
	}
}

type aictrlCostIn struct {
	Input  wire.Num `json:"input"`
	Output wire.Num `json:"output"`
	Total  wire.Num `json:"total"`
	Cache  struct {
		Read  wire.Num `json:"read"`
		Write wire.Num `json:"write"`
	} `json:"cache"`
}

var (
	aictrlCosts  = wire.NewCodec[aictrlCostIn]()
	aictrlTotals = wire.NewCodec[wire.Num]()
)

// aictrlCostOf reads a cost: an object by the specification, one number from the program.
func aictrlCostOf(raw wire.Span) event.Cost {
	var c aictrlCostIn
	switch {
	case len(raw) == 0:
	case raw[0] == '{':
		c, _ = aictrlCosts.Read(raw)
	default:
		c.Total, _ = aictrlTotals.Read(raw)
	}
	if c == (aictrlCostIn{}) {
		return event.Cost{}
	}
	n := new([5]float64)
	return event.Cost{
		Total: money(c.Total, &n[0]), Input: money(c.Input, &n[1]), Output: money(c.Output, &n[2]),
		CacheRead: money(c.Cache.Read, &n[3]), CacheWrite: money(c.Cache.Write, &n[4]),
	}
}

// keep makes the line outlive what it was read from.
func (l *aictrlIn) keep() *aictrlIn {
	l.Cost, l.Part.Cost = slices.Clone(l.Cost), slices.Clone(l.Part.Cost)
	return l
}

// ended is what a message_complete says of its turn.
func (l *aictrlIn) ended() event.TurnEnded {
	b := event.TurnEnded{
		Provider: l.ProviderID, Model: l.ModelID, Profile: l.Agent, Usage: l.Tokens.usage(), Cost: aictrlCostOf(l.Cost),
	}
	b.Finish, b.Said = finish(l.Finish)
	if l.Status == "error" || l.Status == "aborted" {
		b.Finish = event.FinishError
	}
	if limit := tokens(l.Context.Limit); limit != nil && *limit > 0 {
		b.Context.Limit = *limit
		if used := tokens(l.Context.Used); used != nil {
			b.Context.Used = *used
		}
	}
	return b
}

// stepEnded is what a step_finish says of its turn: by the specification nothing.
func (p *aictrlPartIn) stepEnded() event.TurnEnded {
	b := event.TurnEnded{Usage: p.Tokens.usage(), Cost: aictrlCostOf(p.Cost)}
	b.Finish, b.Said = finish(p.Reason)
	return b
}

// aictrlSame says whether two messages tell the same.
func aictrlSame(a, b event.TurnEnded) bool {
	a.Number, b.Number = 0, 0
	return reflect.DeepEqual(a, b)
}

// toolEnd reads how a call ended; its output and metadata only if they are wanted.
func (p *aictrlPartIn) toolEnd(denied bool, b bulk) event.Body {
	s := &p.State
	m := &s.Metadata.Value
	end := event.ToolEnd{Name: p.Tool, Title: s.Title, Start: moment(s.Time.Start), End: moment(s.Time.End)}
	if code, err := strconv.Atoi(string(m.Exit)); err == nil {
		end.Exit = &code
	}
	end.Truncated = string(m.Truncated) == "true"
	if b.outputs() || b.inputs() && s.Status == "error" { // an output may be the error
		if end.Output = s.Output.Text(); end.Output == "" {
			end.Output = m.Output.Text()
		}
		if s.Metadata.Others > 0 {
			end.Metadata = aictrlRest(s.Metadata.Span)
		}
	}
	end.Error = s.Error.Text()
	if s.Status == "error" {
		return aictrlFailed(end, denied)
	}
	if end.Exit != nil && *end.Exit != 0 {
		return event.ToolFailed(end)
	}
	return event.ToolDone(end)
}

// aictrlRest is the metadata that is the tool's own.
func aictrlRest(metadata wire.Span) event.Raw {
	rest := members(metadata, func(key string, _ wire.Span) bool { return !aictrlOwn(key) })
	if string(rest) == "{}" {
		return nil
	}
	return tidy(wire.Span(rest))
}
