package dialect

func avenorShapes() *shapes {
	chunk := []field{must("content", isMap).of(must("text", isString)), must("messageId", isString), anything("session_update").optional()}
	phase, iteration := must("phase", isString), count("iteration")
	ts := count("ts")
	channel := must("source", isString).like("channel")
	length := count("prompt_length")
	return &shapes{
		key:  "event",
		time: "ts",
		base: []field{may("session_id", isString), may("run_id", isString), may("run_label", isString), count("ts").optional()},
		lines: []shape{
			{name: "agent.message_chunk", doc: "a piece of the answer", fields: chunk},
			{name: "agent.thought_chunk", doc: "a piece of reasoning", fields: chunk},
			{name: "user.message_chunk", doc: "what the user said", fields: []field{
				must("content", isMap).of(must("text", isString)).optional(), may("messageId", isString), anything("session_update").optional(),
			}},
			{name: "tool.call", doc: "a call begins", fields: []field{
				must("toolCallId", isString), may("title", isString), may("kind", isString), must("status", isString).in("pending"),
				may("rawInput", isMap|isString), anything("session_update").optional(),
			}},
			{name: "tool.call_update", doc: "a call ends", fields: []field{
				must("toolCallId", isString), must("kind", isString), must("status", isString).in("completed", "failed"), anything("session_update").optional(),
			}},
			{name: "session.plan", doc: "the backend's plan"},
			{name: "permission.request", doc: "somebody must decide", fields: []field{
				must("request_id", isString), may("tool", isString), may("question", isString),
				may("options", isArray).list(must("", isMap).of(must("optionId", isString), must("kind", isString).like("allow", "reject"), may("name", isString))),
			}},
			{name: "permission.response", doc: "it is decided", fields: []field{
				must("request_id", isString), must("option_id", isString), must("kind", isString).in("allow", "reject"),
				must("source", isString).in("avenor", "control", "file"), ts,
			}},
			{name: "avenor.loop.start", doc: "a loop begins", fields: []field{count("max_iterations"), count("pre_phase_count"), count("loop_phase_count"), ts}},
			{name: "avenor.phase.start", doc: "a phase begins", fields: []field{phase, iteration, must("kind", isString).like("pre", "loop"), ts}},
			{name: "avenor.phase.end", doc: "a phase is over", fields: []field{
				phase, iteration, must("stop_reason", isString), ts,
				may("abort_marker", isBool), may("abort_marker_label", isString), may("exit_marker", isBool), may("exit_marker_label", isString),
			}},
			{name: "avenor.loop.end", doc: "the loop is over", fields: []field{
				must("exit_reason", isString).in(avenorExits...), count("iterations_completed"), may("exit_label", isString), ts,
			}},
			{name: "session.start", doc: "a session begins", fields: []field{may("backend", isString), may("dir", isString), may("dangerously_load", isBool)}},
			{name: "agent.channel_ready", doc: "the channel is open", fields: []field{must("run_id", isString), must("server_name", isString), channel}},
			{name: "agent.prompt_queued", doc: "a prompt waits to be fetched", fields: []field{
				must("control_id", isString), must("message_type", isString).like("continue"), must("delivery", isString).like("channel"), length,
			}},
			{name: "agent.prompt_submitted", doc: "a prompt was typed", fields: []field{must("delivery", isString).in("tmux", "pty"), length}},
			{name: "agent.report", doc: "the guest reports", fields: []field{must("state", isString), anything("payload"), channel}},
			{name: "agent.reply", doc: "the guest answers", fields: []field{must("to", isString), anything("payload"), channel}},
			{name: "agent.finish", doc: "the guest says that it is done", fields: []field{
				must("status", isString), must("summary", isString), must("files_changed", isArray).list(must("", isString)), anything("payload").optional(), channel,
			}},
			{name: "avenor.retry", doc: "a phase is tried again", fields: []field{count("attempt"), count("max_retries"), ts}},
			{name: "avenor.error", doc: "something went wrong", fields: []field{
				must("source", isString).like("permission", "cancel", "backend", "loop"), must("message", isString),
				may("kind", isString).like(degenerate), may("stop_reason", isString), may("model", isString),
				may("diagnostics", isMap).of(
					may("abort_signal", isString), count("observed_total").optional(), count("hex_total").optional(), count("hex_in_window").optional(),
					count("window_size").optional(), count("consecutive_hex").optional(), count("progress_in_window").optional(),
				),
			}},
			{name: "agent.status", doc: "what the agent is at", fields: []field{
				must("phase", isString).in(avenorPhases...), must("source", isString).like("avenor", "agent", "transcript", "tmux", "pty"), may("label", isString), ts,
			}},
			{name: "session.end", doc: "the session is over", fields: []field{
				must("stop_reason", isString).like("end_turn", "max_tokens", "stop_sequence", "tool_use", "timeout", "cancelled", "cancelled_forced", degenerate),
				may("usage", isMap).of(count("input_tokens"), count("output_tokens"), count("total_tokens"), count("cached_read_tokens").optional()),
			}},
		},
	}
}

// anything is a field with any value.
func anything(name string) field { return field{name: name, types: isAny, need: true, signed: true} }

// degenerate is the kind and the stop reason of a session that was ended because its thoughts had become noise.
const degenerate = "degenerate_reasoning_stream"
