//go:build unix

package standin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
)

// Terminal is a program that looks like claude on a terminal, as far as we look: it draws its screens, reads keys, and writes
// a transcript. What it does is in the variable STAGE, word by word; a word may have an argument after a colon, with underlines
// for blanks:
//
//	trust        asks about the folder first
//	never        never becomes ready
//	dies         ends before it is ready
//	deaf:2       takes only the second Enter
//	say:TEXT     says something, and is done
//	bash:CMD     calls Bash and asks; a yes makes the file that CMD names after "touch "
//	late:CMD     the same, but the transcript has the call only a moment after the screen
//	quote        says something that looks like a question
//	side         a sub-agent says that it is done
//	fault        its model cannot be reached
//	cut          its answer is cut by the limit
//	hang         works, and pays no attention to any key
//	work         works until somebody presses Escape
//	exit         ends without a word
//
// A bar divides the replies.
func Terminal() {
	s := &scene{args: os.Args[1:], keys: bufio.NewReader(os.Stdin)}
	if _, err := term.MakeRaw(0); err != nil {
		panic(err)
	}
	fmt.Print("\x1b[?2004h")
	s.play(strings.Split(os.Getenv("STAGE"), "|"))
}

type scene struct {
	args  []string
	keys  *bufio.Reader
	file  *os.File
	n     int
	side  *side
	typed chan byte // keys, where they are not the only way
	note  string    // at the bottom of the screen

	unordered bool   // the prompt is written down too late
	kept      []byte // until then
}

const wide = "────────────────────────────────────────────────────────────"

func (s *scene) draw(lines ...string) {
	fmt.Print("\x1b[2J\x1b[H" + strings.Join(lines, "\r\n"))
}

func (s *scene) box(typed, foot string) {
	s.draw("● earlier text", "", wide, "❯ "+typed, wide, "  "+foot+s.note)
}

func (s *scene) flag(name string) string {
	if i := slices.Index(s.args, name); i >= 0 && i+1 < len(s.args) {
		return s.args[i+1]
	}
	return ""
}

// write adds a record to the transcript, in a folder whose name nobody could guess.
func (s *scene) write(record obj) {
	if s.file == nil {
		dir := filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), "projects", "-odd-name")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			panic(err)
		}
		var err error
		name := s.flag("--session-id") + s.flag("--resume") + ".jsonl"
		if s.file, err = os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			panic(err)
		}
	}
	record["timestamp"] = time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	line, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	line = append(line, '\n')
	if s.unordered && record["type"] == "user" {
		s.kept = line
		return
	}
	s.file.Write(append(line, s.kept...))
	s.unordered, s.kept = false, nil
}

func (s *scene) says(stop string, blocks ...obj) {
	s.n++
	for _, b := range blocks {
		s.write(obj{"type": "assistant", "isSidechain": false, "message": obj{
			"id": fmt.Sprintf("msg_%d", s.n), "model": "m", "content": []any{b}, "stop_reason": stop,
			"usage": obj{"input_tokens": 10, "output_tokens": 5},
		}})
	}
}

func (s *scene) user(content ...any) {
	s.write(obj{"type": "user", "message": obj{"role": "user", "content": content}})
}

func textBlock(t string) obj { return obj{"type": "text", "text": t} }

// key reads one key.
func (s *scene) key() byte {
	b, err := s.keys.ReadByte()
	if err != nil {
		os.Exit(0)
	}
	return b
}

var pasted = regexp.MustCompile(`(?s)\x1b\[200~(.*?)\x1b\[201~`)

// prompt reads what is pasted, until Enter.
func (s *scene) prompt(deaf int) string {
	var all strings.Builder
	for {
		var b byte
		if s.side == nil {
			b = s.key()
		} else {
			if s.typed == nil {
				s.typed = make(chan byte)
				go func() {
					for {
						s.typed <- s.key()
					}
				}()
			}
			select {
			case b = <-s.typed:
			case text := <-s.side.pushed:
				return text
			}
		}
		if b != '\r' {
			all.WriteByte(b)
			if t := pasted.FindStringSubmatch(all.String()); t != nil {
				s.box(strings.ReplaceAll(t[1], "\n", "\r\n  "), "ctrl+g to edit")
			}
			continue
		}
		if deaf--; deaf > 0 {
			continue
		}
		if t := pasted.FindStringSubmatch(all.String()); t != nil {
			return t[1]
		}
		return all.String()
	}
}

func (s *scene) play(replies []string) {
	for _, reply := range replies {
		words := strings.Fields(reply)
		deaf := 1
		for len(words) > 0 && s.opens(words[0], &deaf) {
			words = words[1:]
		}
		s.box("", "? for shortcuts")
		said := s.prompt(deaf)
		s.box("", "esc to interrupt")
		s.user(textBlock(said))
		for _, w := range words {
			s.act(w)
		}
		s.write(obj{"type": "system", "subtype": "turn_duration"})
	}
	s.idle()
}

// idle waits to be told something, for ever.
func (s *scene) idle() {
	s.box("", "? for shortcuts")
	for {
		s.key()
	}
}

// opens does what comes before the prompt.
func (s *scene) opens(word string, deaf *int) bool {
	verb, arg, _ := strings.Cut(word, ":")
	switch verb {
	case "trust":
		s.draw(wide, " Accessing workspace:", "", " Quick safety check: do you trust it?", "", " ❯ 1. Yes, I trust this folder", "   2. No, exit", "", " Enter to confirm · Esc to cancel")
		if s.key() != '\r' {
			os.Exit(3)
		}
	case "never":
		s.draw("Welcome", "Please log in")
		for {
			s.key()
		}
	case "dies":
		fmt.Print("error: there is no such agent\r\n")
		os.Exit(1)
	case "deaf":
		fmt.Sscan(arg, deaf)
	case "unordered": // the prompt is written down after the first word of the answer
		s.unordered = true
	case "mcp":
		s.connect()
	case "none":
		s.note = "   Channels are not currently available"
	case "dev":
		s.draw(wide, " Loading development channels", "", " Channels can send prompts to this session. Continue?", "", " ❯ 1. Yes, for local development", "   2. No, exit", "", " Enter to confirm · Esc to cancel")
		if s.key() != '\r' {
			os.Exit(3)
		}
	default:
		return false
	}
	return true
}

func (s *scene) act(word string) {
	verb, arg, _ := strings.Cut(word, ":")
	arg = strings.ReplaceAll(arg, "_", " ")
	switch verb {
	case "say":
		s.says("end_turn", textBlock(arg))
	case "quote":
		s.draw("● It asked:", "   Do you want to proceed?", "   ❯ 1. Yes", "     2. No", "", "   Esc to cancel", "", wide, "❯ ", wide, "  esc to interrupt")
		s.says("end_turn", textBlock("It asked."))
	case "bash", "late":
		s.bash(arg, verb == "late")
	case "side":
		s.write(obj{"type": "assistant", "isSidechain": true, "message": obj{"id": "x", "content": []any{textBlock("side")}, "stop_reason": "end_turn"}})
	case "fault":
		s.write(obj{"type": "assistant", "isApiErrorMessage": true, "apiErrorStatus": 529, "message": obj{"id": "x", "content": []any{textBlock("API Error: overloaded")}}})
	case "cut":
		s.says("max_tokens", textBlock("It begins"))
	case "hang":
		s.says("tool_use", textBlock("Working."))
		for {
			s.key()
		}
	case "work":
		s.says("tool_use", textBlock("Working."))
		for s.key() != 0x1b {
		}
		s.user(textBlock("[Request interrupted by user]"))
	case "job": // claude calls a command that was interrupted rejected
		s.says("tool_use", textBlock("Working."), obj{"type": "tool_use", "id": "job", "name": "Bash", "input": obj{"command": "make"}})
		for s.key() != 0x1b {
		}
		result := obj{"type": "tool_result", "tool_use_id": "job", "is_error": true, "content": "The user doesn't want to proceed"}
		s.write(obj{"type": "user", "toolUseResult": "User rejected tool use", "message": obj{"content": []any{result}}})
		s.user(textBlock("[Request interrupted by user for tool use]"))
	case "exit":
		os.Exit(0)
	default:
		s.channelAct(verb, arg)
	}
}

// bash calls the tool, asks, and does it.
func (s *scene) bash(command string, late bool) {
	id := fmt.Sprintf("toolu_%d", s.n+1)
	call := func() {
		s.says("tool_use", obj{"type": "tool_use", "id": id, "name": "Bash", "input": obj{"command": command}})
	}
	if !late {
		call()
	}
	s.draw("● Bash("+command+")", wide, " Bash command", "", "   "+command, "", " Do you want to proceed?", " ❯ 1. Yes", "   2. Yes, and don't ask again for touch", "   3. No", "", " Esc to cancel · Tab to amend")
	if late {
		time.Sleep(300 * time.Millisecond)
		call()
	}
	result := obj{"type": "tool_result", "tool_use_id": id, "content": "done"}
	switch s.key() {
	case '1', '2':
		s.box("", "esc to interrupt")
		if err := os.WriteFile(strings.TrimPrefix(command, "touch "), nil, 0o600); err != nil {
			panic(err)
		}
		s.user(result)
	default: // it stops, and waits to be told what to do instead
		result["is_error"], result["content"] = true, "no"
		s.write(obj{"type": "user", "toolUseResult": "User rejected tool use", "message": obj{"content": []any{result}}})
		s.user(textBlock("[Request interrupted by user for tool use]"))
		s.idle()
	}
}
