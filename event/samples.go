package event

import "time"

// Samples returns at least one event of every kind, with every field of its body said in one of them, and at the end one of
// a kind that nobody knows: whoever reads events must bear it. They are for the tests of encoders and folds, and for the
// documents; they are not one run.
func Samples() []Event {
	at := time.Date(2026, 8, 22, 10, 11, 12, 345e6, time.UTC)
	start, end := at.Add(-time.Second), at
	usage := Usage{Input: new(int64(1024)), Output: new(int64(412)), Reasoning: new(int64(100)), CacheRead: new(int64(8800)), CacheWrite: new(int64(1024))}
	cost := Cost{Total: new(0.017232), Input: new(0.003072), Output: new(0.00768), CacheRead: new(0.00264), CacheWrite: new(0.00384)}
	rule := Rule{Permission: "bash", Pattern: "git *", Action: "allow"}
	tool := ToolEnd{
		Name: "bash", Title: "git status", Output: "nothing to commit", Error: "it exited with 1", Exit: new(1), Type: "text",
		Metadata: Raw(`{"cwd":"/src"}`), Update: Raw(`"tool_call_update"`), Start: start, End: end, Truncated: true, Inferred: true,
	}
	answer := GateAnswer{
		Request: "q1", Tool: "bash", Permission: "bash", Patterns: []string{"git status"}, Input: Raw(`{"command":"git status"}`),
		Rule: &rule, Option: "allow", Scope: "once", Reason: "it only looks", By: ByClient, Inferred: true,
	}
	reply := ReplyEnd{Prompt: "m1", Stop: "end_turn", Usage: usage, Cost: cost, Inferred: true}
	run := RunEnd{
		Outcome: Failed, Reason: "rate limit exceeded", Class: "rate_limit", Code: "429", Detail: "3 retries", Duration: new(int64(12345)), Usage: usage, Cost: cost,
		Denials: 1, Changes: &Changes{Base: "4f2a91c", Files: []string{"main.go"}, Untracked: []string{"new.go"}, Added: 12, Removed: 3},
		Killed: []string{"sleep 600"}, Inferred: true,
	}
	done := run
	done.Outcome, done.Reason, done.Class, done.Code, done.Detail, done.Killed, done.Inferred = Done, "", "", "", "", nil, false
	late := run
	late.Outcome, late.Reason = Done, "it answered after all"
	cancelled := run
	cancelled.Outcome, cancelled.Reason, cancelled.Class, cancelled.Code = Cancelled, "interrupted", "connection", "130"

	top := Header{At: at, Session: "ses_7f3"}
	call := Header{At: at, Session: "ses_7f3", Call: "c9"}
	child := Header{At: at, Session: "ses_8a1", Agent: "task-1"}
	list := []Event{
		{top, RunStarted{
			Format: Format, Program: "sluice", Version: "0.1.0", Cwd: "/src", Provider: "anthropic", Model: "claude-sonnet-4", Profile: "default", Mode: "auto_edit",
			Rules: []Rule{rule}, Backend: "sluice", DangerouslyLoad: new(false), Run: "run_1", Label: "nightly", Resumed: true, Ephemeral: true,
			Capabilities: &Capabilities{ToolApproval: true, Thinking: true, MCP: true}, Phases: true, Inferred: true,
		}},
		{top, SessionStarted{Backend: "claude", Cwd: "/src", Model: "claude-sonnet-4", DangerouslyLoad: new(true), Resumed: true}},
		{top, Catalog{
			Tools:  []CatalogTool{{Name: "bash", Source: "builtin"}, {Name: "github_search", Source: "mcp", Server: "github"}},
			Skills: []CatalogSkill{{Name: "commit", Version: new("1.4.0")}, {Name: "review"}},
		}},
		{top, Prompt{ID: "m1", Text: "fix the test", Files: []string{"shot.png"}, Attached: []Attachment{{Path: "shot.png", Type: "image/png", Text: "t", Data: "iVBORw=="}}, Source: "argument", Update: Raw(`"user_message_chunk"`), Inferred: true}},
		{top, TurnStarted{Number: 1, Inferred: true}},
		{top, ThoughtDelta{ID: "b1", Text: "Let me ", Update: Raw(`"agent_thought_chunk"`)}},
		{top, Thought{ID: "b1", Text: "Let me look.", Start: start, End: end, Signature: "c2ln", Partial: true, Inferred: true}},
		{top, TextDelta{ID: "b2", Text: "I run ", Update: Raw(`"agent_message_chunk"`)}},
		{top, Text{ID: "b2", Text: "I run the tests.", Start: start, End: end, Partial: true, Inferred: true}},
		{call, ToolCalled{
			Name: "bash", Title: "git status", Class: ClassExec, Description: "run git status", Input: Raw(`{"command":"git status"}`),
			Update: Raw(`"tool_call"`), Inferred: true,
		}},
		{top, TurnEnded{
			Number: 1, Provider: "anthropic", Model: "claude-sonnet-4", Profile: "default", Finish: FinishToolCalls, Said: "tool_use", Usage: usage, Cost: cost,
			Context: Context{Used: 10848, Limit: 200000}, Inferred: true,
		}},
		{call, GateAsked{
			Request: "q1", Tool: "bash", Permission: "bash", Patterns: []string{"git status"}, Question: "Run git status?",
			Options: []Option{{"allow", "allow", "Yes"}, {"reject", "reject", "No"}}, Input: Raw(`{"command":"git status"}`), Deadline: at.Add(time.Minute), Inferred: true,
		}},
		{call, GateAllowed(answer)},
		{call, GateDenied(answer)},
		{call, ToolStarted{Name: "bash"}},
		{call, ToolOutput{Text: "nothing to "}},
		{call, ToolDone(tool)},
		{call, ToolFailed(tool)},
		{call, ToolDenied(tool)},
		{call, ToolCancelled(tool)},
		{top, SkillFound{Name: "commit", Description: "write good commits", Version: "1.4.0", Location: "/src/.sluice/skills/commit/SKILL.md"}},
		{top, SkillLoaded{Name: "commit", Location: "/src/.sluice/skills/commit/SKILL.md"}},
		{top, SkillRead{Name: "commit", File: "/src/.sluice/skills/commit/template.md"}},
		{child, AgentStarted{Parent: "ses_7f3", Title: "look around", Role: "reviewer", Prompt: "find the entry point", Depth: 1, Inferred: true}},
		{child, AgentEnded{Parent: "ses_7f3", Error: "it gave up", Inferred: true}},
		{top, Compacted{Reason: "context nearly full", Summary: "we fixed one test", Before: new(int64(180000)), After: new(int64(9000)), Usage: Usage{Input: new(int64(9)), Output: new(int64(8)), Reasoning: new(int64(7)), CacheRead: new(int64(6)), CacheWrite: new(int64(5))}, Cost: Cost{Total: new(0.5), Input: new(0.1), Output: new(0.2), CacheRead: new(0.1), CacheWrite: new(0.1)}}},
		{top, Retry{Attempt: 1, Limit: 4, Wait: 2000, Class: "rate_limit", Status: 429, Message: "rate limit exceeded"}},
		{top, Error{
			Code: "provider_error", Class: "rate_limit", Name: "APIError", Message: "rate limit exceeded", Retryable: new(true), Source: "backend", Prompt: "m1",
			Type: "degenerate_reasoning_stream", Stop: "degenerate_reasoning_stream", Model: "gpt-oss-120b", Data: Raw(`{"message":"rate limit exceeded"}`), Diagnostics: Raw(`{"hex_total":0}`),
		}},
		{top, Notice{Text: "no price is known for this model", Prompt: "m1"}},
		{top, Diag{Text: "(node:1) warning", Source: "stderr"}},
		{top, ReplyDone(reply)},
		{top, ReplyFailed(reply)},
		{top, ReplyCancelled(reply)},
		{top, Status{Phase: "working", Label: "reading files", Source: "avenor"}},
		{top, LoopStarted{MaxIterations: 5, Pre: 1, Loop: 2, Post: 1, Inferred: true}},
		{top, PhaseStarted{Phase: "review", Iteration: 1, Part: "loop", Inferred: true}},
		{top, PhaseRetry{Attempt: 1, Limit: 3}},
		{top, PhaseEnded{Phase: "review", Iteration: 1, Stop: "end_turn", Marker: "exit", Label: "tests green", Inferred: true}},
		{top, LoopEnded{Reason: "exit", Iterations: 1, Label: "tests green", Inferred: true}},
		{top, Plan{Fields: Raw(`{"entries":[{"content":"fix the test","status":"pending"}]}`)}},
		{top, ChannelReady{Server: "sluice-channel-1", Source: "channel"}},
		{top, ChannelQueued{Control: "ctl_1", Type: "continue", Delivery: "channel", Length: 12}},
		{top, ChannelSubmitted{Delivery: "pty", Length: 12}},
		{top, Report{State: "working", Payload: Raw(`{"step":2}`), Source: "channel"}},
		{top, Answer{To: "run_0", Payload: Raw(`{"text":"yes"}`), Source: "channel"}},
		{top, Finished{Status: "done", Summary: "fixed", Files: []string{"main.go"}, Payload: Raw(`{"n":1}`), Source: "channel"}},
		{top, Custom{Name: "deploy.started", Fields: Raw(`{"stage":"canary","n":12345678901234567890}`)}},
		{top, RunDone(done)},
		{top, RunDone(late)},
		{top, RunFailed(run)},
		{top, RunCancelled(cancelled)},
		{Header{}, Foreign{Dialect: "grok", Line: `{"type":"step_start"`, Torn: true}},
		{Header{}, Foreign{Dialect: "grok", Base64: "/w=="}},
		{top, Unknown{Name: "from.tomorrow", Raw: Raw(`{"x":1}`)}},
	}
	for i := range list {
		list[i] = list[i].Stamp()
		list[i].Seq = uint64(i + 1)
	}
	return list
}
