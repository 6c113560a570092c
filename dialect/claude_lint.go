package dialect

import (
	"strings"

	"github.com/sluice-dev/sluice/internal/wire"
)

// claudeShapes is what the lines look like. Nobody wrote that down: these are the lines of version 2.1, with the fields that a
// reader can count on. What is in a message is the business of Anthropic's API.
func claudeShapes() *shapes {
	message := must("message", isMap).of(
		may("id", isString), may("type", isString), may("role", isString).in("assistant"), may("model", isString),
		must("content", isArray|isString), may("stop_reason", isString|isNull), may("stop_sequence", isString|isNull),
		may("stop_details", isAny), may("usage", isMap), may("context_management", isAny), may("diagnostics", isAny), may("container", isAny),
	)
	said := must("message", isMap).of(must("role", isString).in("user"), must("content", isArray|isString))
	parent, times := may("parent_tool_use_id", isString|isNull), may("timestamp", isString)
	child := []field{may("agent_id", isString), may("subagent_type", isString), may("task_description", isString)}
	return &shapes{
		key:  "type",
		base: []field{may("session_id", isString), may("uuid", isString)},
		lines: []shape{
			{name: "system", doc: "the program speaks of itself: how it was started, retries, sub-agents", fields: claudeSystem()},
			{name: "assistant", doc: "a block of an answer", fields: append([]field{
				message, parent, times, may("request_id", isString), may("error", isString), may("is_api_error_message", isBool),
				may("api_error_status", isNumber|isNull), may("api_error_type", isString), may("refused_message_id", isString),
				may("thinking_duration_ms", isNumber), may("thinking_display", isString), may("tool_use_meta", isArray),
			}, child...)},
			{name: "user", doc: "what the model is told: results of calls, notes", fields: append([]field{
				said, parent, times, may("tool_use_result", isAny), may("tool_result_meta", isArray), may("isSynthetic", isBool),
				may("refused_message_id", isString),
			}, child...)},
			{name: "stream_event", doc: "an event of the model's own stream", fields: []field{
				must("event", isMap), parent, may("ttft_ms", isNumber), may("thinking_display", isString), may("api_message_id", isString),
			}},
			{name: "result", doc: "a reply is over, unless sub-agents still work", fields: []field{
				must("subtype", isString), must("is_error", isBool), may("result", isString), may("stop_reason", isString|isNull),
				may("terminal_reason", isString), may("errors", isArray), may("num_turns", isNumber), may("duration_ms", isNumber),
				may("duration_api_ms", isNumber), may("total_cost_usd", isNumber), may("usage", isMap), may("modelUsage", isMap),
				may("model_usage_since_last_result", isMap), may("permission_denials", isArray), may("result_index", isNumber),
				may("origin", isMap), may("api_error_status", isNumber|isNull), may("api_error_type", isString), may("subagent_stats", isMap),
				may("safety_stops", isNumber), may("queued_turn_count", isNumber), may("fast_mode_state", isString),
				may("fast_mode_disabled_reason", isString), may("ttft_ms", isNumber), may("ttft_stream_ms", isNumber),
				may("time_to_request_ms", isNumber), may("first_content_frame_ms", isNumber),
			}},
			{name: "control_request", doc: "a question to the client", bare: true, fields: []field{
				must("request_id", isString), must("request", isMap).of(
					must("subtype", isString), may("tool_name", isString), may("display_name", isString), may("input", isMap), may("description", isString),
					may("permission_suggestions", isArray), may("decision_reason_type", isString), may("tool_use_id", isString),
					may("blocked_path", isString|isNull), may("server_policy_ask_only", isBool),
				),
			}},
			{name: "control_response", doc: "an answer to the client", bare: true, fields: []field{
				must("response", isMap).of(
					must("subtype", isString).like("success", "error"), must("request_id", isString), may("response", isMap),
					may("pending_permission_requests", isArray), may("pending_user_dialog_requests", isArray),
				),
			}},
		},
	}
}

// claudeSystem are the fields of system lines; which of them are there, the subtype decides.
func claudeSystem() []field {
	list := []field{must("subtype", isString).like("init", "api_retry", "status", "thinking_tokens", "permission_denied", "informational", "task_started",
		"task_progress", "task_updated", "task_notification", "background_tasks_changed", "model_refusal_no_fallback", "compact_boundary")}
	for _, name := range strings.Fields(`cwd model permissionMode apiKeySource claude_code_version output_style original_cwd messaging_socket_path
		fast_mode_state fast_mode_disabled_reason view_mode task_id run_id tool_use_id description subagent_type task_type summary output_file
		last_tool_name status error content level prompt tool_name decision_reason_type message original_model refused_user_message_uuid request_id`) {
		list = append(list, may(name, isString))
	}
	for _, name := range strings.Fields("tools mcp_servers slash_commands terminal_slash_commands agents skills plugins capabilities additional_directories tasks") {
		list = append(list, may(name, isArray))
	}
	for _, name := range strings.Fields("memory_paths usage patch") {
		list = append(list, may(name, isMap))
	}
	for _, name := range strings.Fields("attempt max_retries retry_delay_ms estimated_tokens estimated_tokens_delta spawn_depth") {
		list = append(list, may(name, isNumber))
	}
	for _, name := range strings.Fields("analytics_disabled product_feedback_disabled per_turn_effort_active ultrathink_available ultrathink_typed_raises is_backgrounded") {
		list = append(list, may(name, isBool))
	}
	return append(list, may("error_status", isNumber|isNull), may("api_refusal_category", isString|isNull), may("api_refusal_explanation", isString|isNull))
}

var claudeRules = []Rule{
	{"claude/init", false, "system/init comes before the first answer and the first result"},
	{"claude/result", false, "a stream ends in a result"},
	{"claude/call-untold", false, "a result of a call is of one that was made"},
	{"claude/call-open", false, "every call of the top agent has its result before the stream ends well"},
	{"claude/session", false, "the session's id does not change"},
	{"claude/success", true, "a result of subtype success is no error: where both are said, the error counts"},
}

// claudeChecker is the grammar of replies.
type claudeChecker struct {
	init    bool
	result  bool // the last word was one
	failed  bool // and it was a bad one
	session string
	open    map[string]bool // calls
	past    recent          // calls that ended
}

func (k *claudeChecker) line(c *check, typ string, n wire.Node) {
	if s := n.Get("session_id").Text(); s != "" {
		if k.session != "" && s != k.session {
			c.report("claude/session", n.Get("session_id"), "the session was %s", clip(k.session))
		}
		k.session = s
	}
	switch typ {
	case "system":
		k.init = k.init || n.Get("subtype").Is("init")
		return
	case "assistant", "stream_event", "result":
		if !k.init {
			c.report("claude/init", n, "%s before system/init", typ)
			k.init = true // once is enough
		}
	case "control_request", "control_response":
		return
	}
	k.result = typ == "result"
	switch typ {
	case "result":
		k.failed, _ = n.Get("is_error").Bool()
		if k.failed && n.Get("subtype").Is("success") {
			c.report("claude/success", n.Get("subtype"), "is_error is true")
		}
	case "assistant":
		for _, b := range n.Get("message").Get("content").All() {
			if b.Get("type").Is("tool_use") {
				if k.open == nil {
					k.open = map[string]bool{}
				}
				k.open[b.Get("id").Text()] = true
			}
		}
	case "user":
		for _, b := range n.Get("message").Get("content").All() {
			if !b.Get("type").Is("tool_result") {
				continue
			}
			id := b.Get("tool_use_id")
			if !k.open[id.Text()] && !k.past.add(id.Text()) {
				c.report("claude/call-untold", id, "there was no call %q", clip(id.Text()))
			}
			delete(k.open, id.Text())
			k.past.add(id.Text())
		}
	}
}

func (k *claudeChecker) close(c *check) {
	switch {
	case !k.result:
		c.stream("claude/result", "the last word is no result")
	case len(k.open) > 0 && !k.failed:
		c.stream("claude/call-open", "%d calls have no result", len(k.open))
	}
}
