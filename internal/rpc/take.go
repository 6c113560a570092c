package rpc

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/sluice-dev/sluice/internal/wire"
)

// take handles one line.
func (c *Conn) take(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	var (
		m     message
		wrong *wire.TypeError
	)
	err := wire.Unmarshal(line, &m)
	switch {
	case err != nil && !errors.As(err, &wrong):
		c.stray(line, nil, Errorf(CodeParse, "this is not JSON: %v", err))
	case bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")):
		c.stray(line, nil, Errorf(CodeInvalid, "batches are not taken: send one message a line"))
	case !validID(m.ID):
		c.stray(line, nil, Errorf(CodeInvalid, "an id is a string or a number"))
	case m.Version != version && !c.o.Lenient:
		c.stray(line, m.ID, Errorf(CodeInvalid, `"jsonrpc":"2.0" is missing`))
	case m.Method != "" && err == nil:
		c.request(&Request{Method: m.Method, Params: present(m.Params), ID: m.ID, Conn: c})
	case m.Method == "" && m.ID != nil && c.answer(m, err):
	case m.Result != nil || m.Error != nil: // an answer that nobody waits for
		if c.o.Stray != nil {
			c.o.Stray(line)
		}
	case err != nil:
		c.stray(line, m.ID, Errorf(CodeInvalid, "this is no message: %v", err))
	default:
		c.stray(line, m.ID, Errorf(CodeInvalid, "a request names its method"))
	}
}

// present is nil for what is null.
func present(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

func validID(id json.RawMessage) bool {
	return id == nil || string(id) == "null" || id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9'
}

func (c *Conn) request(r *Request) {
	if c.o.Handle == nil {
		_ = r.Fail(Errorf(CodeMethod, "there is no method %q", r.Method)) // closed: nobody wants to know
		return
	}
	c.o.Handle(r)
}

// answer gives an answer to the call that waits for it, if one does. One that could not be read is an error.
func (c *Conn) answer(m message, err error) bool {
	if err != nil {
		m.Error = Errorf(CodeInvalid, "the answer cannot be read: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	waits, ok := c.waiting[string(m.ID)]
	if ok {
		delete(c.waiting, string(m.ID))
		waits <- m
	}
	return ok
}

// stray handles a line that is no message.
func (c *Conn) stray(line []byte, id json.RawMessage, why *Error) {
	if c.o.Stray != nil {
		c.o.Stray(line)
		return
	}
	if id == nil {
		id = json.RawMessage("null")
	}
	_ = c.send(c.ctx, message{ID: id, Error: why}) // closed: nobody wants to know
}

// tooLong handles a line of which only the beginning was kept. If that has the id, whoever waits for it need not wait.
func (c *Conn) tooLong(head []byte) {
	why := Errorf(CodeInvalid, "the line is longer than %d bytes", c.o.MaxLine)
	of := id(head)
	if of != nil && c.answer(message{ID: of}, why) {
		return
	}
	c.stray(head, of, why)
}

// id finds the id in the beginning of a message, nil if it is not there.
func id(head []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(head))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for {
		key, err := d.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return nil
		}
		if key == "id" {
			if value = wire.AppendRaw(nil, value); !validID(value) {
				return nil
			}
			return value
		}
	}
}
