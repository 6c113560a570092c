package modelserver

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/internal/pattern"
)

// vertex is Anthropic's Messages API on Google's Vertex AI: the model is in the path, and a token of Google's is demanded.
type vertex struct {
	model    string
	stream   bool
	counting bool
}

var vertexPath = pattern.Lazy(`^/v1/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/([^/:]+):(rawPredict|streamRawPredict)$`)

func vertexAt(path string) (vertex, bool) {
	m := vertexPath().FindStringSubmatch(path)
	if m == nil {
		return vertex{}, false
	}
	return vertex{model: m[1], stream: m[2] == "streamRawPredict", counting: m[1] == "count-tokens"}, true
}

func (vertex) name() string { return "vertex" }

func (vertex) admit(r *request) error {
	token, key := r.bearer(), r.server.options.Key
	if token == "" || key != "" && token != key && token != r.server.token {
		return refusal{status: http.StatusUnauthorized, message: "request had invalid authentication credentials: expected an OAuth 2 access token"}
	}
	return nil
}

func (x vertex) read(r *request) (ask, error) {
	var q struct {
		anthropicRequest
		Version string `json:"anthropic_version"`
	}
	if err := r.decode(&q); err != nil {
		return ask{}, err
	}
	if x.counting {
		if err := q.check(); err != nil {
			return ask{}, err
		}
		return ask{whole: encode(map[string]int{"input_tokens": r.tokens()})}, nil
	}
	if q.Version == "" {
		return ask{}, refused("anthropic_version: field required")
	}
	if q.Model != "" {
		return ask{}, refused("model: extra inputs are not permitted")
	}
	q.Model, q.Stream = x.model, x.stream
	return q.ask(r, func(v *anthropicVoice) voice { return v })
}

// refuse speaks for Google where Google's front refuses, and for the model otherwise.
func (vertex) refuse(r refusal) (http.Header, []byte) {
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests:
		return nil, encode(googleError(r))
	}
	return anthropic{}.refuse(r)
}

type googleFailure struct {
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Status  string `json:"status"`
	} `json:"error"`
}

func googleError(r refusal) (g googleFailure) {
	g.Error.Code, g.Error.Message, g.Error.Status = r.status, r.message, r.kind
	if r.kind == "" {
		g.Error.Status = kindOf(r.status).google
	}
	return g
}

// tokens is Google's token endpoint, for service accounts whose token_uri is this server. Nobody here knows the account's
// public key, so the assertion is checked for form and time only; where the server demands a key, the account's private_key_id
// must be it.
type tokens struct{}

func (tokens) name() string         { return "token" }
func (tokens) admit(*request) error { return nil }

func (tokens) refuse(r refusal) (http.Header, []byte) {
	return nil, encode(map[string]string{"error": "invalid_grant", "error_description": r.message})
}

func (tokens) read(r *request) (ask, error) {
	form, err := url.ParseQuery(string(r.body))
	if err != nil {
		return ask{}, refused("the request is not a form")
	}
	switch form.Get("grant_type") {
	case "urn:ietf:params:oauth:grant-type:jwt-bearer":
		if err := checkAssertion(form.Get("assertion"), r.server.options.Key); err != nil {
			return ask{}, err
		}
	case "refresh_token":
		if key := r.server.options.Key; form.Get("refresh_token") == "" || key != "" && form.Get("refresh_token") != key {
			return ask{}, refused("bad refresh_token")
		}
	default:
		return ask{}, refused("grant_type %q is not known here", form.Get("grant_type"))
	}
	return ask{whole: encode(struct {
		Token   string `json:"access_token"`
		Type    string `json:"token_type"`
		Expires int    `json:"expires_in"`
	}{r.server.token, "Bearer", 3599})}, nil
}

func checkAssertion(assertion, key string) error {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 || parts[2] == "" {
		return refused("the assertion is not a signed token")
	}
	var header struct {
		Algorithm string `json:"alg"`
		Key       string `json:"kid"`
	}
	var claims struct {
		Issuer  string `json:"iss"`
		Expires int64  `json:"exp"`
		Issued  int64  `json:"iat"`
	}
	for i, v := range []any{&header, &claims} {
		data, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(data, v) != nil {
			return refused("the assertion cannot be read")
		}
	}
	now := time.Now()
	switch {
	case header.Algorithm != "RS256":
		return refused("the assertion is not signed with RS256")
	case claims.Issuer == "":
		return refused("the assertion has no issuer")
	case time.Unix(claims.Expires, 0).Before(now) || time.Unix(claims.Issued, 0).After(now.Add(skew)):
		return refused("the assertion is not of this time")
	case key != "" && header.Key != key:
		return refused("the account's private_key_id is not the key of this server")
	}
	return nil
}
