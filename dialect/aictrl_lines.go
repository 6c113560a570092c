package dialect

import (
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file has the lines of aictrl as they are written. What is read from others is in aictrl_in.go.

// aictrlHead stands in front of every line.
type aictrlHead struct {
	Type      string `json:"type"`
	Timestamp int64  `json:"timestamp"`
	SessionID string `json:"sessionID"`
}

type aictrlStart struct {
	aictrlHead
	SchemaVersion string       `json:"schemaVersion"`
	Model         string       `json:"model"`
	Agent         string       `json:"agent"`
	Permissions   []event.Rule `json:"permissions"`
}

type aictrlCatalog struct {
	aictrlHead
	Tools  []event.CatalogTool `json:"tools"`
	Skills []aictrlVersion     `json:"skills"`
}

type aictrlVersion struct {
	Name    string  `json:"name"`
	Version *string `json:"version"`
}

// aictrlBlock is a text, a thought, a call or the edge of a step.
type aictrlBlock struct {
	aictrlHead
	Part        aictrlPart `json:"part"`
	SequenceNum int        `json:"sequenceNum,omitempty"`
}

type aictrlPart struct {
	Type      string       `json:"type"`
	Text      *string      `json:"text,omitempty"`
	Tool      *string      `json:"tool,omitempty"`
	CallID    string       `json:"callID,omitempty"` // not in the document, which has no other way to name a call
	SessionID *string      `json:"sessionID,omitempty"`
	State     *aictrlState `json:"state,omitempty"`
	Time      *aictrlTime  `json:"time,omitempty"`
}

type aictrlState struct {
	Status   string      `json:"status"`
	Input    event.Raw   `json:"input"`
	Metadata wire.JSON   `json:"metadata"`
	Error    string      `json:"error,omitempty"`
	Title    string      `json:"title,omitempty"` // not in the document, as Time
	Time     *aictrlTime `json:"time,omitempty"`
}

type aictrlTime struct {
	Start *int64 `json:"start,omitempty"`
	End   *int64 `json:"end,omitempty"`
}

type aictrlMessage struct {
	aictrlHead
	ModelID    string         `json:"modelID"`
	ProviderID string         `json:"providerID"`
	Agent      string         `json:"agent"`
	Cost       aictrlCost     `json:"cost"`
	Tokens     aictrlTokens   `json:"tokens"`
	Context    *aictrlContext `json:"context"`
	Finish     string         `json:"finish"`
}

type aictrlCost struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	Cache  struct {
		Read  float64 `json:"read"`
		Write float64 `json:"write"`
	} `json:"cache"`
	Total *float64 `json:"total,omitempty"` // not in the document: where only the sum is known
}

type aictrlTokens struct {
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"`
	Cache     struct {
		Read  int64 `json:"read"`
		Write int64 `json:"write"`
	} `json:"cache"`
}

type aictrlContext struct {
	Used  int64   `json:"used"`
	Limit int64   `json:"limit"`
	Ratio float64 `json:"ratio"`
}

type aictrlPermission struct {
	aictrlHead
	CallID     string    `json:"callID,omitempty"`
	Tool       string    `json:"tool"`
	Permission string    `json:"permission"`
	Patterns   []string  `json:"patterns"`
	Input      event.Raw `json:"input"`
}

type aictrlSkill struct {
	aictrlHead
	Name        string  `json:"name"`
	Description *string `json:"description,omitempty"` // only when it is found
	Location    string  `json:"location"`
}

type aictrlResource struct {
	aictrlHead
	SkillName string `json:"skillName"`
	FilePath  string `json:"filePath"`
}

type aictrlAgent struct {
	aictrlHead
	SubagentSessionID string  `json:"subagentSessionID"`
	ParentSessionID   string  `json:"parentSessionID"`
	Title             *string `json:"title,omitempty"` // only at its start
}

type aictrlError struct {
	aictrlHead
	Error struct {
		Name string    `json:"name"`
		Data event.Raw `json:"data"`
	} `json:"error"`
	SourceSessionID string `json:"sourceSessionID"`
}

type aictrlFailure struct {
	aictrlHead
	Reason  string `json:"reason"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

type aictrlEnd struct {
	aictrlHead
	DurationMs int64   `json:"durationMs"`
	Error      *string `json:"error"`
}
