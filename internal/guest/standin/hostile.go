//go:build unix

package standin

import (
	"fmt"
	"os"
	"time"
)

// hostile does what no agent should.
func (a *acpPlayer) hostile(part string) {
	switch part {
	case "twice": // two questions of one name
		for i := range 2 {
			a.asked = 7
			a.ask(obj{"toolCallId": fmt.Sprint("c", i), "kind": "execute", "rawInput": obj{"command": fmt.Sprint("make ", i)}})
		}
		a.chunk(a.outcome() + ", " + a.outcome())
		a.stop("end_turn")
	case "impatient": // done, with a question open
		a.ask(obj{"toolCallId": "c1", "kind": "execute", "rawInput": obj{"command": "make"}})
		a.stop("end_turn")
	case "closes": // what it could still say nobody would hear
		os.Stdout.Close()
		time.Sleep(time.Hour)
	case "deaf": // asks, and reads no answer
		for n := 0; ; n++ {
			a.raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"fs/read_text_file"}`+"\n", n))
		}
	case "babbles":
		for n := range 20_000 {
			a.raw(fmt.Sprintf("nothing that anybody wants to know %d\n", n))
		}
		a.stop("end_turn")
	case "word": // an error that is no object
		a.say(obj{"jsonrpc": "2.0", "id": a.prompt["id"], "error": "no"})
	case "empty": // a chunk of nothing
		a.update(obj{"sessionUpdate": "agent_message_chunk"})
		a.chunk("Hello.")
		a.stop("end_turn")
	}
}
