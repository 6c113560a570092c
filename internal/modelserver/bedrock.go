package modelserver

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"net/http"
	"strings"
)

// bedrock is Anthropic's Messages API on Amazon Bedrock: the model is in the path, requests are signed, and a stream is in
// binary frames.
type bedrock struct {
	model  string
	stream bool
}

// bedrockAt returns the format of a path, /model/NAME/invoke or /model/NAME/invoke-with-response-stream. The name may hold
// slashes.
func bedrockAt(path string) (bedrock, bool) {
	rest, ok := strings.CutPrefix(path, "/model/")
	if !ok {
		return bedrock{}, false
	}
	if model, ok := strings.CutSuffix(rest, "/invoke"); ok && model != "" {
		return bedrock{model: model}, true
	}
	model, ok := strings.CutSuffix(rest, "/invoke-with-response-stream")
	return bedrock{model: model, stream: true}, ok && model != ""
}

func (bedrock) name() string { return "bedrock" }

// admit demands a signature, or a key where the server has one.
func (bedrock) admit(r *request) error {
	if token := r.bearer(); token != "" {
		if key := r.server.options.Key; key != "" && token != key {
			return refusal{status: http.StatusForbidden, message: "the bearer token is not valid"}
		}
		return nil
	}
	return checkSignature(r)
}

func (b bedrock) read(r *request) (ask, error) {
	var fields map[string]json.RawMessage
	if err := r.decode(&fields); err != nil {
		return ask{}, err
	}
	for _, name := range []string{"model", "stream"} {
		if fields[name] != nil {
			return ask{}, refused("extraneous key [%s] is not permitted", name)
		}
	}
	if fields["anthropic_version"] == nil {
		return ask{}, refused("anthropic_version: field required")
	}
	var q anthropicRequest
	if err := r.decode(&q); err != nil {
		return ask{}, err
	}
	q.Model, q.Stream = b.model, b.stream
	return q.ask(r, func(v *anthropicVoice) voice {
		v.event = func(_ string, data []byte) {
			v.stage.write(frame(
				[]pair{{":event-type", "chunk"}, {":content-type", "application/json"}, {":message-type", "event"}},
				encode(map[string]string{"bytes": base64.StdEncoding.EncodeToString(data)}),
			))
		}
		return bedrockVoice{v}
	})
}

func (bedrock) refuse(r refusal) (http.Header, []byte) {
	word := r.kind
	if word == "" {
		word = kindOf(r.status).aws
	}
	return http.Header{"X-Amzn-Errortype": {word}}, encode(map[string]string{"message": r.message})
}

// bedrockVoice is Anthropic's voice in Amazon's frames.
type bedrockVoice struct{ *anthropicVoice }

func (bedrockVoice) mime() string { return "application/vnd.amazon.eventstream" }

func (v bedrockVoice) fail(kind, message string) {
	word := kind
	if !strings.HasSuffix(word, "Exception") {
		word = kindNamed(kind).aws
	}
	word = strings.ToLower(word[:1]) + word[1:]
	v.stage.write(frame(
		[]pair{{":exception-type", word}, {":content-type", "application/json"}, {":message-type", "exception"}},
		encode(map[string]string{"message": message}),
	))
}

// garble sends a frame whose sum is wrong.
func (v bedrockVoice) garble() {
	f := frame([]pair{{":message-type", "event"}}, []byte("{}"))
	f[len(f)-1] ^= 0xff
	v.stage.write(f)
}

type pair struct{ name, value string }

// frame makes a message of Amazon's event stream encoding: lengths and their sum, headers, payload, and the sum of all.
func frame(headers []pair, payload []byte) []byte {
	var h []byte
	for _, p := range headers {
		h = append(h, byte(len(p.name)))
		h = append(h, p.name...)
		h = append(h, 7) // a string follows
		h = binary.BigEndian.AppendUint16(h, uint16(len(p.value)))
		h = append(h, p.value...)
	}
	const around = 16 // two lengths, two sums
	b := make([]byte, 0, around+len(h)+len(payload))
	b = binary.BigEndian.AppendUint32(b, uint32(around+len(h)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(b, h...)
	b = append(b, payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}
