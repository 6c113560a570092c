// Package modelserver is the scripted model behind real wire formats: an HTTP server that the vendors' own clients can talk
// to, and that says what a script says.
//
//	request ──format.read──▶ ask{Seen} ──script.Player──▶ Turn ──play──▶ voice ──▶ stage ──▶ bytes
//
// A format is one vendor's wire format, one file each: how a request is read, how an answer is said and how a refusal looks.
// What an answer goes through — deltas, delays, faults — is written once, in play.go, and no format knows it.
//
// The server reads requests as the real ones do where an agent could go wrong: a history that a vendor would refuse is
// refused here too, with status 400 and the reason.
package modelserver

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-dev/sluice/internal/script"
)

// Options say who may ask. The zero value lets everybody ask who has what the wire format itself demands.
type Options struct {
	Key       string         // demanded where the wire format has a key; empty: any will do
	AccessKey string         // of Bedrock's signature; empty: AWS_ACCESS_KEY_ID
	SecretKey string         // likewise; empty: AWS_SECRET_ACCESS_KEY
	Record    func(Recorded) // called with every request before it is answered, from many goroutines; nil: not
	Log       func(Entry)    // called with every request after it was answered, likewise; nil: not
}

// Recorded is a request as it came.
type Recorded struct {
	At     time.Time
	Method string
	Path   string // with its query
	Header http.Header
	Body   []byte
}

// An Entry is what became of a request.
type Entry struct {
	Method  string
	Path    string
	Format  string // its wire format; empty: none
	Status  int    // 0: nothing was answered
	Answer  int    // which answer of its conversation it was; 0: none was given
	Fault   string // of the script; empty: none
	Refused string // why the server itself refused; empty: it did not
	Took    time.Duration
}

// A Server answers requests of every wire format.
type Server struct {
	options Options
	player  *script.Player
	model   string // that it is listed as
	most    int64  // bytes of a request
	count   atomic.Int64
	token   string // that the token endpoint gives
	threads threads
}

// New returns a server that plays a script which [script.Script.Check] finds nothing wrong with.
func New(s *script.Script, o Options) *Server {
	if o.AccessKey == "" {
		o.AccessKey = os.Getenv("AWS_ACCESS_KEY_ID")
	}
	if o.SecretKey == "" {
		o.SecretKey = os.Getenv("AWS_SECRET_ACCESS_KEY")
	}
	name := s.Model
	if name == "" {
		name = "scripted"
	}
	return &Server{options: o, player: script.NewPlayer(s), model: name, most: 256 << 20, token: "ya29." + rand.Text()}
}

// A format is a wire format.
type format interface {
	name() string
	// admit says whether a request has the key that is demanded.
	admit(r *request) error
	// read makes sense of a request.
	read(r *request) (ask, error)
	// refuse returns an error's body in the format's own form, and the headers that go with it.
	refuse(r refusal) (http.Header, []byte)
}

// A request is one, with its body read.
type request struct {
	*http.Request
	body   []byte
	number int64 // of the server
	server *Server
}

// An ask is a request that was understood.
type ask struct {
	seen   script.Seen
	stream bool
	voice  func(script.Turn, *stage) voice
	whole  []byte // the answer, if it needs no script
}

// A refusal is why there is no answer.
type refusal struct {
	status  int
	kind    string // the format's word; empty: what goes with the status
	message string
	header  map[string]string
}

func (r refusal) Error() string { return r.message }

// refused is a request that a vendor would refuse.
func refused(format string, args ...any) error {
	return refusal{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

// ServeHTTP answers a request. It ends early when the client goes away.
func (s *Server) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	began := time.Now()
	e := Entry{Method: hr.Method, Path: hr.URL.Path}
	st := &stage{w: w, ctx: hr.Context()}
	defer func() {
		e.Status, e.Took = st.status, time.Since(began)
		if s.options.Log != nil {
			s.options.Log(e)
		}
		if st.cut {
			panic(http.ErrAbortHandler) // the connection breaks here, with nothing said about it
		}
	}()
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, s.most))
	if s.options.Record != nil {
		s.options.Record(Recorded{At: began, Method: hr.Method, Path: hr.URL.RequestURI(), Header: hr.Header.Clone(), Body: body})
	}
	f := s.route(hr)
	if f == nil {
		st.answer(http.StatusNotFound, nil, encode(map[string]any{"error": map[string]string{
			"type": "not_found_error", "message": "no wire format has " + hr.Method + " " + hr.URL.Path,
		}}))
		e.Refused = "no such path"
		return
	}
	e.Format = f.name()
	r := &request{Request: hr, body: body, number: s.count.Add(1), server: s}
	w.Header().Set("Request-Id", r.id("req_"))
	w.Header().Set("X-Request-Id", r.id("req_"))
	if err == nil {
		err = f.admit(r)
	} else {
		err = tooLarge(err)
	}
	var a ask
	if err == nil {
		a, err = f.read(r)
	}
	if err != nil {
		e.Refused = err.Error()
		st.refuse(f, err)
		return
	}
	if a.whole != nil {
		st.answer(http.StatusOK, nil, a.whole)
		return
	}
	t := s.player.Next(a.seen)
	e.Answer = t.Number
	if t.Fault != nil {
		e.Fault = describe(*t.Fault)
	}
	play(st, f, t, a)
}

func tooLarge(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refusal{status: http.StatusRequestEntityTooLarge, message: "the request is too large"}
	}
	return refusal{status: http.StatusBadRequest, message: "the request could not be read"}
}

// route returns the format of a path, or nil.
func (s *Server) route(r *http.Request) format {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if r.Method == http.MethodGet {
		if path == "/v1/models" || path == "/models" {
			return listing{}
		}
		return nil
	}
	if r.Method != http.MethodPost {
		return nil
	}
	switch path {
	case "/v1/messages":
		return anthropic{}
	case "/v1/messages/count_tokens":
		return anthropic{counting: true}
	case "/v1/chat/completions", "/chat/completions":
		return chat{}
	case "/v1/responses", "/responses":
		return responses{}
	case "/token":
		return tokens{}
	}
	if f, ok := geminiAt(path); ok {
		return f
	}
	if f, ok := vertexAt(path); ok {
		return f
	}
	if f, ok := bedrockAt(path); ok {
		return f
	}
	return nil
}

// describe says in a word what a fault is.
func describe(f script.Fault) string {
	switch {
	case f.Status != 0:
		return fmt.Sprintf("status %d", f.Status)
	case f.Cut != "":
		return "cut " + f.Cut
	case f.Hang != "":
		return "hang " + f.Hang
	case f.Malformed:
		return "malformed"
	case f.WrongJSON:
		return "wrong_json"
	case f.InStream != "":
		return "in_stream " + f.InStream
	}
	return "trickle"
}

// encode writes JSON as the vendors do: on one line, with < and > as they are.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("modelserver: " + err.Error()) // all that is encoded here was made here
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// id makes a name for an answer that no other of this server has.
func (r *request) id(prefix string) string { return fmt.Sprintf("%s%06d", prefix, r.number) }

// decode reads a request's JSON. Fields that nobody reads may be anything.
func (r *request) decode(v any) error {
	if err := json.Unmarshal(r.body, v); err != nil {
		return refused("the request body is not valid JSON: %v", err)
	}
	return nil
}
