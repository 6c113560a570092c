package rpc

import "github.com/sluice-dev/sluice/internal/wire"

// A Message is one line, for those who read and write the lines of a connection themselves, as somebody must who keeps each of
// them: a request, a notification (no ID) or an answer (no Method).
type Message = message

// Parse reads a line. A missing "jsonrpc" is forgiven.
func Parse(line []byte) (Message, error) {
	var m Message
	if err := wire.Unmarshal(line, &m); err != nil {
		return m, err
	}
	if m.Method == "" && m.Result == nil && m.Error == nil || !validID(m.ID) {
		return m, Errorf(CodeInvalid, "this is no message")
	}
	m.Params = present(m.Params)
	return m, nil
}

// Line is the message as a line, without its newline.
func (m message) Line() []byte {
	m.Version = version
	return wire.Append(nil, m)
}
