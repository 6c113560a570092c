package modelserver

// A kind is what each wire format calls an error of a status.
type kind struct {
	status                         int
	anthropic, openai, google, aws string
}

// kinds has the errors that the vendors have words for. Where two statuses share a word, the first is meant by it.
var kinds = []kind{
	{400, "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT", "ValidationException"},
	{401, "authentication_error", "authentication_error", "UNAUTHENTICATED", "UnrecognizedClientException"},
	{402, "billing_error", "insufficient_quota", "FAILED_PRECONDITION", "AccessDeniedException"},
	{403, "permission_error", "permission_error", "PERMISSION_DENIED", "AccessDeniedException"},
	{404, "not_found_error", "not_found_error", "NOT_FOUND", "ResourceNotFoundException"},
	{408, "timeout_error", "timeout_error", "DEADLINE_EXCEEDED", "ModelTimeoutException"},
	{409, "conflict_error", "conflict_error", "ABORTED", "ConflictException"},
	{413, "request_too_large", "invalid_request_error", "INVALID_ARGUMENT", "ValidationException"},
	{429, "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED", "ThrottlingException"},
	{500, "api_error", "server_error", "INTERNAL", "InternalServerException"},
	{529, "overloaded_error", "server_overloaded", "UNAVAILABLE", "ServiceUnavailableException"},
	{503, "overloaded_error", "server_overloaded", "UNAVAILABLE", "ServiceUnavailableException"},
	{504, "timeout_error", "timeout_error", "DEADLINE_EXCEEDED", "ModelTimeoutException"},
}

// kindOf returns the words for a status: its own, or those of its hundred.
func kindOf(status int) kind {
	like := 400
	if status >= 500 {
		like = 500
	}
	var near kind
	for _, k := range kinds {
		if k.status == status {
			return k
		}
		if k.status == like {
			near = k
		}
	}
	return near
}

// kindNamed returns the words that go with one of them, or those of a failing server.
func kindNamed(word string) kind {
	for _, k := range kinds {
		if word == k.anthropic || word == k.openai || word == k.google || word == k.aws {
			return k
		}
	}
	return kindOf(500)
}
