package provider

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/sluice-dev/sluice/internal/wire"
)

// This file carries the Messages API over Amazon Bedrock: the model stands in the address, requests are signed, and events
// come in AWS's own frames.

const bedrockVersion = "bedrock-2023-05-31"

func newBedrock(t target) (Model, error) {
	c, err := findAWS(t)
	if err != nil {
		return nil, err
	}
	base := cmp.Or(t.BaseURL, "https://bedrock-runtime."+c.region+".amazonaws.com")
	at, err := url.Parse(base + "/model/" + url.QueryEscape(t.Model) + "/invoke-with-response-stream")
	if err != nil {
		return nil, fmt.Errorf("the base URL of bedrock: %w", err)
	}
	signer := v4.NewSigner()
	return &messagesModel{
		target:  t,
		version: bedrockVersion,
		post: func(ctx context.Context, x *exchange, body []byte) (*http.Response, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(body))
			if err != nil {
				return nil, err
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/vnd.amazon.eventstream")
			for name, value := range t.Headers {
				r.Header.Set(name, value)
			}
			if t.Key != "" {
				r.Header.Set("Authorization", "Bearer "+t.Key)
				return t.Client.Do(r)
			}
			keys, err := c.keys(ctx)
			if err != nil {
				return nil, err
			}
			x.secrets = append(x.secrets, keys.SecretAccessKey, keys.SessionToken)
			sum := sha256.Sum256(body)
			if err := signer.SignHTTP(ctx, keys, r, hex.EncodeToString(sum[:]), "bedrock", c.region, time.Now()); err != nil {
				return nil, err
			}
			return t.Client.Do(r)
		},
		frames: func(x *exchange, res *http.Response) (frames, error) {
			if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "application/vnd.amazon.eventstream" {
				return x.events(res) // a proxy may translate them
			}
			return &awsFrames{x: x, r: bufio.NewReaderSize(x.body(res), 32<<10), decoder: eventstream.NewDecoder()}, nil
		},
	}, nil
}

// awsFrames reads events from AWS's frames.
type awsFrames struct {
	x       *exchange
	r       *bufio.Reader
	decoder *eventstream.Decoder
	payload []byte
	data    []byte
}

func (f *awsFrames) frame() ([]byte, error) {
	for {
		if _, err := f.r.Peek(1); err != nil {
			return nil, err
		}
		m, err := f.decoder.Decode(f.r, f.payload[:0])
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), f.x.broken != nil && errors.Is(err, f.x.broken):
			return nil, err
		default:
			return nil, nonsense(err)
		}
		if cap(m.Payload) > cap(f.payload) {
			f.payload = m.Payload
		}
		switch word(m, ":message-type") {
		case "event":
			if word(m, ":event-type") != "chunk" {
				continue
			}
			return f.chunk(m.Payload)
		case "exception":
			_, message := errorBody(m.Payload)
			return nil, streamError(word(m, ":exception-type"), message)
		case "error":
			return nil, streamError(word(m, ":error-code"), word(m, ":error-message"))
		}
	}
}

// chunk takes the event out of a chunk.
func (f *awsFrames) chunk(payload []byte) ([]byte, error) {
	var c struct {
		Bytes string `json:"bytes"`
	}
	err := wire.Unmarshal(payload, &c)
	if err == nil {
		f.data, err = base64.StdEncoding.AppendDecode(f.data[:0], []byte(c.Bytes))
	}
	if err != nil {
		return nil, nonsense(err)
	}
	return f.data, nil
}

// word is a header of a frame.
func word(m eventstream.Message, name string) string {
	if v := m.Headers.Get(name); v != nil {
		return v.String()
	}
	return ""
}
