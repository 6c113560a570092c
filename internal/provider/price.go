package provider

import (
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

//go:generate go run ../../scripts/prices

// A Price is what a model costs, in US dollars for a million tokens, and how much it can read.
type Price struct {
	Input      float64
	Output     float64 // reasoning too, if it has no price of its own
	Reasoning  float64 // 0: as Output
	CacheRead  float64
	CacheWrite float64
	Window     int64  // tokens that input and output may have together; 0: not known
	Date       string // the day that the prices are of

	above int64      // a request with more input than this costs long; 0: none does
	long  [4]float64 // in the order of the fields
}

// Cost is what the usage costs. What is not known of the usage is not known of the cost, and nothing is if no rate is.
func (p Price) Cost(u event.Usage) event.Cost {
	rates := [4]float64{p.Input, p.Output, p.CacheRead, p.CacheWrite}
	if rates == ([4]float64{}) {
		return event.Cost{}
	}
	if in, _ := u.InputAll(); p.above > 0 && in > p.above {
		rates = p.long
	}
	cost := func(tokens *int64, rate float64) *float64 {
		if tokens == nil {
			return nil
		}
		return new(float64(*tokens) * rate / 1e6)
	}
	c := event.Cost{
		Input: cost(u.Input, rates[0]), CacheRead: cost(u.CacheRead, rates[2]), CacheWrite: cost(u.CacheWrite, rates[3]),
	}
	if out, known := u.OutputAll(); known {
		c.Output = cost(&out, rates[1])
		if p.Reasoning > 0 && u.Reasoning != nil {
			*c.Output += float64(*u.Reasoning) * (p.Reasoning - rates[1]) / 1e6
		}
	}
	return c
}

// Above returns the price with another one for requests that have more input than this.
func (p Price) Above(tokens int64, long Price) Price {
	p.above, p.long = tokens, [4]float64{long.Input, long.Output, long.CacheRead, long.CacheWrite}
	return p
}

// Lookup returns the price of a provider's model from the table that was generated, if it is there. A model goes by many
// names: what matches the most of one counts; then the name without its date; then, for those who serve the models of
// others, the name and the price that the maker has.
func Lookup(provider, model string) (Price, bool) {
	model = strings.ToLower(model)
	for _, name := range []string{model, undated(model)} {
		if p, ok := find(provider, name); ok {
			return p, true
		}
	}
	switch vendor, name, ok := strings.Cut(model, "/"); {
	case provider == "openai-responses":
		return Lookup("openai", model)
	case provider == "vertex":
		return Lookup("anthropic", model)
	case provider == "bedrock":
		if _, name, ok := strings.Cut(model, "anthropic."); ok {
			name, _, _ = strings.Cut(name, "-v")
			return Lookup("anthropic", name)
		}
	case provider == "openrouter" && ok:
		return Lookup(vendor, name)
	}
	return Price{}, false
}

// undated takes the date off a name: -20250929, @20250929, -2025-09-29, -latest.
func undated(name string) string {
	const day = "-2006-01-02"
	if i := len(name) - len(day); i > 0 && alike(name[i:], day) {
		return name[:i]
	}
	i := strings.LastIndexAny(name, "-@")
	if i > 0 && (alike(name[i+1:], "20060102") || name[i+1:] == "latest" || name[i+1:] == "default") {
		return name[:i]
	}
	return name
}

// alike says whether s has digits where the pattern has them, and what the pattern has elsewhere.
func alike(s, pattern string) bool {
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	if len(s) != len(pattern) {
		return false
	}
	for i := range len(s) {
		if digit(s[i]) != digit(pattern[i]) || !digit(s[i]) && s[i] != pattern[i] {
			return false
		}
	}
	return true
}

// find reads the table: nothing is built from it, as most runs look up one model.
func find(provider, name string) (Price, bool) {
	best, score := "", 0
	for line := range strings.Lines(priceTable) {
		rest, ok := strings.CutPrefix(line, provider+" ")
		if !ok {
			continue
		}
		names, rest, _ := strings.Cut(rest, " ")
		for pattern := range strings.SplitSeq(names, "|") {
			if n := match(pattern, name); n > score {
				best, score = rest, n
			}
		}
	}
	if score == 0 {
		return Price{}, false
	}
	return price(best), true
}

// match says how much of a pattern a name matches: 0 is not at all, and a pattern without a star is more than any with one.
func match(pattern, name string) int {
	inner, ok := pattern, false
	inner, before := strings.CutPrefix(inner, "*")
	inner, after := strings.CutSuffix(inner, "*")
	switch {
	case before && after:
		ok = strings.Contains(name, inner)
	case before:
		ok = strings.HasSuffix(name, inner)
	case after:
		ok = strings.HasPrefix(name, inner)
	case name == inner:
		const whole = 1 << 20
		return whole
	}
	if !ok {
		return 0
	}
	return len(inner)
}

// price reads what follows the names in a line: window, the four prices, and if there are others for long requests, from
// where on and which. Who gives no price for the cache's part of the input takes that of the input.
func price(fields string) Price {
	f := strings.Fields(fields)
	p := Price{Date: priceDate}
	p.Window, _ = strconv.ParseInt(f[0], 10, 64) // 0 if it is not known
	rates := func(f []string) (r [4]float64) {
		for i := range r {
			v, err := strconv.ParseFloat(f[i], 64)
			if r[i] = v; err != nil {
				r[i] = r[0]
			}
		}
		return r
	}
	r := rates(f[1:])
	p.Input, p.Output, p.CacheRead, p.CacheWrite = r[0], r[1], r[2], r[3]
	if len(f) > 5 {
		p.above, _ = strconv.ParseInt(f[5], 10, 64)
		p.long = rates(f[6:])
	}
	return p
}
