package provider_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/internal/provider"
)

// askBedrock asks for one answer in an environment.
func askBedrock(t *testing.T, model string, env map[string]string) error {
	t.Helper()
	m := openModel(t, provider.Options{Model: "bedrock/" + model, Env: func(name string) string { return env[name] }})
	_, err := collect(t, t.Context(), m, provider.Request{History: prompt("go")})
	return err
}

// keysOf is an environment with keys that the server takes.
func keysOf(server string, pairs ...string) map[string]string {
	env := map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "not-a-secret", "AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": server,
		"AWS_EC2_METADATA_DISABLED": "true",
	}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return env
}

// The server checks what was signed, so that a name that needs escaping must be signed as it is sent.
func TestBedrockSignature(t *testing.T) {
	server, sent := serve(t, `{advance: request, loop: true, steps: [{text: a}]}`)
	for _, model := range []string{
		"anthropic.claude-3-haiku-20240307-v1:0", "us.anthropic.claude-opus-4-6-v1",
		"arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3",
	} {
		if err := askBedrock(t, model, keysOf(server)); err != nil {
			t.Errorf("%s: %v", model, err)
		}
	}
	if err := askBedrock(t, "x", keysOf(server, "AWS_SESSION_TOKEN", "a-session")); err != nil {
		t.Error(err)
	}
	all := sent.all()
	if h := all[len(all)-1].Header; h.Get("X-Amz-Security-Token") != "a-session" || !strings.Contains(h.Get("Authorization"), "/eu-west-1/bedrock/aws4_request") {
		t.Errorf("%v", h)
	}
	err := askBedrock(t, "x", keysOf(server, "AWS_SECRET_ACCESS_KEY", "another-secret"))
	var e *provider.Error
	if !errors.As(err, &e) || e.Class != provider.Auth || e.Code != "InvalidSignatureException" || e.Retryable() {
		t.Errorf("%+v", err)
	}
}

func TestBedrockBearer(t *testing.T) {
	server, sent := serve(t, `{advance: request, loop: true, steps: [{text: a}]}`)
	if err := askBedrock(t, "x", keysOf(server, "AWS_BEARER_TOKEN_BEDROCK", theKey)); err != nil {
		t.Error(err)
	}
	if h := sent.all()[0].Header; h.Get("Authorization") != "Bearer "+theKey {
		t.Errorf("%v", h)
	}
	var e *provider.Error
	if err := askBedrock(t, "x", keysOf(server, "AWS_BEARER_TOKEN_BEDROCK", "wrong")); !errors.As(err, &e) || e.Class != provider.Auth {
		t.Errorf("%+v", err)
	}
}

// write puts a file into a directory and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Where keys may be.
func TestBedrockCredentials(t *testing.T) {
	server, _ := serve(t, `{advance: request, loop: true, steps: [{text: a}]}`)
	const shape = `{"Version":1,"Code":"Success","AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"not-a-secret","Token":"t","Expiration":"2099-01-01T00:00:00Z"}`
	aws := http.NewServeMux() // what AWS has on its machines
	aws.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") != "" {
			_, _ = w.Write([]byte("imds-token"))
		}
	})
	aws.HandleFunc("GET /latest/meta-data/iam/security-credentials/{role...}", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "imds-token":
			w.WriteHeader(http.StatusUnauthorized)
		case r.PathValue("role") == "":
			_, _ = w.Write([]byte("my-role\n"))
		case r.PathValue("role") == "my-role":
			_, _ = w.Write([]byte(shape))
		}
	})
	aws.HandleFunc("GET /container", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "pod-token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(shape))
	})
	aws.HandleFunc("POST /sts", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("RoleArn") != "arn:role" || r.FormValue("WebIdentityToken") != "web-token" || r.FormValue("RoleSessionName") == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(`<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>` +
			`<AccessKeyId>AKIDEXAMPLE</AccessKeyId><SecretAccessKey>not-a-secret</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>` +
			`</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`))
	})
	machine := httptest.NewServer(aws)
	t.Cleanup(machine.Close)

	home := t.TempDir()
	keys := "aws_access_key_id = AKIDEXAMPLE\naws_secret_access_key=not-a-secret\n"
	write(t, home, ".aws/credentials", "# mine\n[default]\n"+keys+"\n[other]\naws_access_key_id = no\n")
	write(t, home, ".aws/config", "[default]\nregion = eu-west-1\n[profile  work]\n"+keys+"region = us-east-1 # near\ns3 =\n  region = nowhere\n[profile tool]\ncredential_process = cat '"+
		write(t, home, "keys.json", shape)+"'\n[profile bad]\ncredential_process = echo no such luck >&2; exit 3\n[profile sso]\nsso_session = x\n[profile other]\noutput = json\n")
	bin := t.TempDir()
	fake := write(t, bin, "aws", "#!/bin/sh\n[ \"$*\" = 'configure export-credentials --format process --profile sso' ] && cat '"+filepath.Join(home, "keys.json")+"'\n")
	if err := os.Chmod(fake, 0o755); err != nil {
		t.Fatal(err)
	}

	none := func(pairs ...string) map[string]string {
		return keysOf(server, append([]string{"AWS_ACCESS_KEY_ID", "", "AWS_SECRET_ACCESS_KEY", ""}, pairs...)...)
	}
	for name, tt := range map[string]struct {
		env  map[string]string
		path string // PATH
		says string // of the error
	}{
		"the file of keys":       {env: none("HOME", home)},
		"its region":             {env: none("HOME", home, "AWS_REGION", "")},
		"a profile":              {env: none("HOME", home, "AWS_PROFILE", "work", "AWS_REGION", "")},
		"files by name":          {env: none("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(home, ".aws/credentials"))},
		"a program":              {env: none("HOME", home, "AWS_PROFILE", "tool")},
		"a program that fails":   {env: none("HOME", home, "AWS_PROFILE", "bad"), says: `the AWS profile "bad" gave no credentials: exit status 3: no such luck`},
		"single sign-on":         {env: none("HOME", home, "AWS_PROFILE", "sso"), path: bin + ":/usr/bin:/bin"},
		"no command for it":      {env: none("HOME", home, "AWS_PROFILE", "sso"), path: home, says: "needs the aws command"},
		"a pod":                  {env: none("AWS_WEB_IDENTITY_TOKEN_FILE", write(t, home, "web", "web-token\n"), "AWS_ROLE_ARN", "arn:role", "AWS_ENDPOINT_URL_STS", machine.URL+"/sts")},
		"a pod that may not":     {env: none("AWS_WEB_IDENTITY_TOKEN_FILE", filepath.Join(home, "web"), "AWS_ROLE_ARN", "arn:other", "AWS_ENDPOINT_URL_STS", machine.URL+"/sts"), says: "403"},
		"a container":            {env: none("AWS_CONTAINER_CREDENTIALS_FULL_URI", machine.URL+"/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod-token")},
		"its token in a file":    {env: none("AWS_CONTAINER_CREDENTIALS_FULL_URI", machine.URL+"/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", write(t, home, "pod", "pod-token\n"))},
		"a container, no token":  {env: none("AWS_CONTAINER_CREDENTIALS_FULL_URI", machine.URL+"/container"), says: "403"},
		"a machine":              {env: none("AWS_EC2_METADATA_DISABLED", "", "AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.URL+"/")},
		"variables before files": {env: keysOf(server, "HOME", home, "AWS_PROFILE", "bad")},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.path != "" {
				t.Setenv("PATH", tt.path)
			}
			err := askBedrock(t, "x", tt.env)
			var e *provider.Error
			switch {
			case tt.says == "" && err != nil:
				t.Error(err)
			case tt.says != "" && (!errors.As(err, &e) || e.Class != provider.Auth || !strings.Contains(e.Message, tt.says)):
				t.Errorf("%+v", err)
			}
		})
	}
}

// A machine that does not answer is not waited for.
func TestBedrockDoesNotWait(t *testing.T) {
	done := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	defer silent.Close()
	defer close(done)
	env := map[string]string{"AWS_REGION": "r", "AWS_EC2_METADATA_SERVICE_ENDPOINT": silent.URL, "GCE_METADATA_HOST": strings.TrimPrefix(silent.URL, "http://"), "VERTEX_PROJECT_ID": "p"}
	for _, model := range []string{"bedrock/x", "vertex/x"} {
		began := time.Now()
		_, err := provider.Open(provider.Options{Model: model, Env: func(name string) string { return env[name] }})
		var e *provider.Error
		if !errors.As(err, &e) || e.Class != provider.NoKey {
			t.Errorf("%s: %+v", model, err)
		}
		if took := time.Since(began); took > 60*time.Second {
			t.Errorf("%s: it took %v", model, took)
		}
	}
}
