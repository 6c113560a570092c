package provider_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/internal/provider"
)

func askVertex(t *testing.T, env map[string]string) error {
	t.Helper()
	m := openModel(t, provider.Options{Model: "vertex/claude-x", Env: func(name string) string { return env[name] }})
	_, err := collect(t, t.Context(), m, provider.Request{History: prompt("go")})
	return err
}

// The token is fetched once, when the first request is sent, and not again.
func TestVertexToken(t *testing.T) {
	server, sent := serve(t, `{advance: request, loop: true, steps: [{text: a}]}`)
	fetched := 0
	var form string
	google := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched++
		form = r.FormValue("grant_type")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": theKey, "token_type": "Bearer", "expires_in": 3600})
	}))
	defer google.Close()
	env := map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": serviceAccount(t, google.URL), "CLOUD_ML_REGION": "us-east5", "ANTHROPIC_VERTEX_BASE_URL": server + "/v1"}
	m := openModel(t, provider.Options{Model: "vertex/claude-x", Env: func(name string) string { return env[name] }})
	if fetched != 0 {
		t.Error("a token was fetched before it was needed")
	}
	for range 3 {
		if _, err := collect(t, t.Context(), m, provider.Request{History: prompt("go")}); err != nil {
			t.Fatal(err)
		}
	}
	if fetched != 1 || form != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		t.Errorf("%d tokens by %s", fetched, form)
	}
	r := sent.all()[0]
	if want := "/v1/projects/p-of-the-file/locations/us-east5/publishers/anthropic/models/claude-x:streamRawPredict"; r.Path != want || r.Header.Get("Authorization") != "Bearer "+theKey {
		t.Errorf("%s, %v", r.Path, r.Header)
	}
}

// Where credentials may be.
func TestVertexCredentials(t *testing.T) {
	server, _ := serve(t, `{advance: request, loop: true, steps: [{text: a}]}`)
	google := http.NewServeMux()
	google.HandleFunc("GET /computeMetadata/v1/instance/service-accounts/default/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") == "Google" {
			_, _ = w.Write([]byte(`{"access_token":"` + theKey + `","expires_in":3599,"token_type":"Bearer"}`))
		}
	})
	google.HandleFunc("POST /refused", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"Account not found"}`))
	})
	google.HandleFunc("POST /broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	machine := httptest.NewServer(google)
	defer machine.Close()
	dir := t.TempDir()
	account, err := os.ReadFile(serviceAccount(t, server+"/token"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "application_default_credentials.json", string(account))
	federated := func(at string) string { // as a CI system has it: its own token is traded for Google's
		return `{"type":"external_account","audience":"//iam.googleapis.com/p","subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"` + at +
			`","credential_source":{"file":"` + write(t, dir, "ci", "a-token") + `"}}`
	}
	for name, tt := range map[string]struct {
		env   map[string]string
		class string
		says  string
	}{
		"a service account":       {env: map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": serviceAccount(t, server+"/token")}},
		"gcloud's file":           {env: map[string]string{"CLOUDSDK_CONFIG": dir}},
		"a machine":               {env: map[string]string{"GCE_METADATA_HOST": strings.TrimPrefix(machine.URL, "http://")}},
		"a token that is refused": {env: map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": write(t, dir, "r", federated(machine.URL+"/refused"))}, class: provider.Auth, says: "Account not found"},
		"Google is down":          {env: map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": serviceAccount(t, machine.URL+"/broken")}, class: provider.Overloaded, says: "Google gave no token"},
		"an account gone":         {env: map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": serviceAccount(t, machine.URL+"/refused")}, class: provider.Auth, says: "Account not found"},
		"nobody there":            {env: map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": serviceAccount(t, "http://127.0.0.1:1/x")}, class: provider.Connection, says: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.env["VERTEX_PROJECT_ID"], tt.env["ANTHROPIC_VERTEX_BASE_URL"] = "p", server
			err := askVertex(t, tt.env)
			var e *provider.Error
			switch {
			case tt.class == "" && err != nil:
				t.Error(err)
			case tt.class != "" && (!errors.As(err, &e) || e.Class != tt.class || !strings.Contains(e.Message, tt.says)):
				t.Errorf("%+v", err)
			}
		})
	}
	for name, text := range map[string]string{"not JSON": "hello", "no type": "{}", "no such type": `{"type":"other"}`} {
		file := write(t, dir, name, text)
		_, err := provider.Open(provider.Options{Model: "vertex/x", Env: func(v string) string {
			return map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": file, "VERTEX_PROJECT_ID": "p"}[v]
		}})
		var e *provider.Error
		if !errors.As(err, &e) || e.Class != provider.NoKey || !strings.Contains(e.Message, "credentials for vertex") {
			t.Errorf("%s: %+v", name, err)
		}
	}
}
