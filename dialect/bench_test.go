package dialect

import (
	"bytes"
	"testing"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// The stages of reading a stream, over the recorded and clean streams of each dialect.
func BenchmarkRead(b *testing.B) {
	for _, d := range dialects {
		var data []byte
		for _, s := range append(samples(b, d, "recorded"), samples(b, d, "clean")...) {
			data = append(data, s.data...)
		}
		lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
		run := func(name string, f func(line []byte)) {
			b.Run(d.Name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					for _, line := range lines {
						f(line)
					}
				}
			})
		}
		var doc wire.Doc
		run("parse", func(line []byte) { _ = doc.Parse(line) })
		dec := d.decoder(noBulk)
		run("decode", func(line []byte) { dec.Decode(line, func(event.Event) {}) })
		s := NewStream(d, StreamOptions{Lean: true})
		run("stream", func(line []byte) { s.Line(line, false, func(event.Event) {}) })
		l := NewLinter(d, func(Diagnostic) {})
		run("lint", func(line []byte) { l.Line(line, false) })
	}
}
