package modelserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// This file checks signatures of Amazon's kind, version 4. What is signed is the request as it was on the wire: method, path,
// query, the headers that the signature names, and the sum of the body.

const (
	amazonTime = "20060102T150405Z"
	skew       = 15 * time.Minute // between the client's clock and ours
)

// A signature is what an Authorization header says.
type signature struct {
	accessKey, scope string
	headers          []string
	sum              string
}

func parseSignature(header string) (s signature, ok bool) {
	rest, ok := strings.CutPrefix(header, "AWS4-HMAC-SHA256 ")
	if !ok {
		return s, false
	}
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch name {
		case "Credential":
			s.accessKey, s.scope, _ = strings.Cut(value, "/")
		case "SignedHeaders":
			s.headers = strings.Split(value, ";")
		case "Signature":
			s.sum = value
		}
	}
	return s, s.accessKey != "" && s.sum != "" && slices.Contains(s.headers, "host")
}

// checkSignature refuses a request that was not signed with the server's credentials.
func checkSignature(r *request) error {
	deny := func(kind, format string, args ...any) error {
		return refusal{status: http.StatusForbidden, kind: kind, message: fmt.Sprintf(format, args...)}
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		return deny("MissingAuthenticationTokenException", "missing authentication token")
	}
	s, ok := parseSignature(header)
	if !ok {
		return deny("IncompleteSignatureException", "the Authorization header is not a signature of version 4")
	}
	o := r.server.options
	if o.AccessKey == "" || o.SecretKey == "" {
		return deny("AccessDeniedException", "the server has no credentials to check the signature with: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY where it runs")
	}
	if s.accessKey != o.AccessKey {
		return deny("UnrecognizedClientException", "the security token included in the request is invalid")
	}
	at, err := time.Parse(amazonTime, r.Header.Get("X-Amz-Date"))
	if err != nil {
		return deny("IncompleteSignatureException", "the X-Amz-Date header is missing or no date")
	}
	if d := time.Since(at); d > skew || d < -skew {
		return deny("InvalidSignatureException", "signature expired: %s is too far from now", r.Header.Get("X-Amz-Date"))
	}
	scope := strings.Split(s.scope, "/") // date, region, service, aws4_request
	if len(scope) != 4 || scope[0] != at.Format("20060102") || scope[3] != "aws4_request" {
		return deny("IncompleteSignatureException", "the credential's scope is not DATE/REGION/SERVICE/aws4_request")
	}
	key := []byte("AWS4" + o.SecretKey)
	for _, part := range scope {
		key = mac(key, part)
	}
	want := mac(key, strings.Join([]string{"AWS4-HMAC-SHA256", at.Format(amazonTime), s.scope, sum([]byte(canonical(r, s.headers)))}, "\n"))
	if got, err := hex.DecodeString(s.sum); err != nil || !hmac.Equal(got, want) {
		return deny("InvalidSignatureException", "the request signature we calculated does not match the signature you provided")
	}
	return nil
}

// canonical is a request in the one form that both sides can make.
func canonical(r *request, headers []string) string {
	path, query, _ := strings.Cut(r.RequestURI, "?")
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s\n", r.Method, escapePath(path), canonicalQuery(query))
	for _, name := range headers {
		fmt.Fprintf(&b, "%s:%s\n", name, headerValue(r, name))
	}
	fmt.Fprintf(&b, "\n%s\n%s", strings.Join(headers, ";"), sum(r.body))
	return b.String()
}

func headerValue(r *request, name string) string {
	switch name {
	case "host":
		return r.Host
	case "content-length":
		return fmt.Sprint(len(r.body))
	}
	var values []string
	for _, v := range r.Header.Values(name) {
		values = append(values, strings.Join(strings.Fields(v), " "))
	}
	return strings.Join(values, ",")
}

// escapePath escapes a path that is escaped already: the signature wants it twice.
func escapePath(path string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
	var b strings.Builder
	for i := range len(path) {
		if strings.IndexByte(plain, path[i]) >= 0 {
			b.WriteByte(path[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", path[i])
		}
	}
	return b.String()
}

func canonicalQuery(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return query
	}
	return strings.ReplaceAll(values.Encode(), "+", "%20")
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
