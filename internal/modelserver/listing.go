package modelserver

import "net/http"

// listing is the list of models, in a form that both Anthropic's and OpenAI's clients read.
type listing struct{}

func (listing) name() string { return "models" }

func (listing) admit(r *request) error {
	if r.Header.Get("X-Api-Key") != "" {
		return anthropic{}.admit(r)
	}
	return admitBearer(r)
}

func (listing) read(r *request) (ask, error) {
	type model struct {
		ID          string `json:"id"`
		Object      string `json:"object"`
		Type        string `json:"type"`
		DisplayName string `json:"display_name"`
		Created     int64  `json:"created"`
		CreatedAt   string `json:"created_at"`
		OwnedBy     string `json:"owned_by"`
	}
	m := model{ID: r.server.model, Object: "model", Type: "model", DisplayName: r.server.model, CreatedAt: "1970-01-01T00:00:00Z", OwnedBy: "script"}
	return ask{whole: encode(struct {
		Object  string  `json:"object"`
		Data    []model `json:"data"`
		HasMore bool    `json:"has_more"`
		FirstID string  `json:"first_id"`
		LastID  string  `json:"last_id"`
	}{"list", []model{m}, false, m.ID, m.ID})}, nil
}

func (listing) refuse(r refusal) (http.Header, []byte) { return nil, openAIRefusal(r) }
