package dialect

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

func FuzzNative(f *testing.F) { fuzz(f, &native) }
func FuzzAictrl(f *testing.F) { fuzz(f, &aictrl) }
func FuzzGrok(f *testing.F)   { fuzz(f, &grok) }
func FuzzAvenor(f *testing.F) { fuzz(f, &avenor) }
func FuzzEnso(f *testing.F)   { fuzz(f, &enso) }
func FuzzAionrs(f *testing.F) { fuzz(f, &aionrs) }
func FuzzClaude(f *testing.F) { fuzz(f, &claude) }

// fuzz reads any bytes: no panic, one end, no line lost; and what is told of it is clean in every dialect. The last is asked of
// the seeds, and of new inputs only with FUZZ_CLEAN set: no short search can promise it.
func fuzz(f *testing.F, d *Dialect) {
	for _, s := range append(samples(f, d, "clean"), samples(f, d, "recorded")...) {
		if len(s.data) < 8<<10 {
			f.Add(s.data)
		}
	}
	searching := flag.Lookup("test.fuzz").Value.String() != "" && os.Getenv("FUZZ_CLEAN") == ""
	f.Fuzz(func(t *testing.T, data []byte) {
		events := decodeAll(t, data, d, StreamOptions{})
		wantOneEnd(t, events)
		if d != &native && d.encoder != nil && len(data) > 0 {
			if got := encodeAll(events, d, Options{}); !bytes.Equal(got, data) {
				t.Fatal("the lines did not come back as they were")
			}
		}
		for _, to := range dialects {
			out := encodeAll(events, to, Options{NoOrigin: true})
			if searching || d == to && d == &native { // which says what it was told, whatever that was
				continue
			}
			if found := lintAll(out, to); len(found) > 0 {
				t.Fatalf("to %s: %+v", to.Name, found[0])
			}
		}
		lintAll(data, d)
	})
}
