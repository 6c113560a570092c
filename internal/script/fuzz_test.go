package script

import "testing"

// Whatever a file says, it is refused with a sentence or can be played to its end.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"steps: [{text: hi}]", "chunk: 3\nsteps:\n  - calls: [{tool: bash, input: {command: ls}}, {tool: x, raw: 'not json'}]\n    repeat: 3\n  - text: done\n",
		"conversations: [{when: {prompt: '('}, steps: [{text: a}]}]", "steps: [{text: a, fault: {cut: text, times: 1}}]", "steps: {}", "a: &a [*a]", "\t", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error that says nothing")
			}
			return
		}
		p := NewPlayer(s)
		for n := range min(s.Answers()+1, 20) {
			turn := p.Next(Seen{Answers: n})
			for _, part := range turn.Parts {
				var all string
				for d := range Deltas(part.Text, turn.Chunk) {
					all += d
				}
				if all != part.Text {
					t.Errorf("deltas say %q, the part %q", all, part.Text)
				}
			}
		}
	})
}
