package provider

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// arithmetic answers a prompt that is a sum: "What is 2 + 2?", "3*(4-1)".
func arithmetic(prompt string) (string, bool) {
	s := strings.ToLower(strings.TrimSpace(prompt))
	for _, word := range []string{"please", "what is", "what's", "how much is", "calculate", "compute"} {
		s = strings.TrimSpace(strings.TrimPrefix(s, word))
	}
	s = strings.TrimSpace(strings.TrimRight(s, " ?=.!\n"))
	const longest = 200 // it is read by recursion
	if len(s) > longest || !strings.ContainsAny(s, "0123456789") || !strings.ContainsAny(s, "+-*/×÷") {
		return "", false
	}
	p := summer{strings.NewReplacer("×", "*", "÷", "/", " ", "").Replace(s)}
	v, ok := p.sum()
	switch {
	case !ok || p.rest != "":
		return "", false
	case math.IsInf(v, 0) || math.IsNaN(v):
		return fmt.Sprintf("%s has no result.", s), true
	}
	return fmt.Sprintf("%s = %s", s, strconv.FormatFloat(v, 'g', 15, 64)), true
}

// A summer reads a sum from the left.
type summer struct{ rest string }

func (p *summer) take(operators string) byte {
	if p.rest == "" || !strings.Contains(operators, p.rest[:1]) {
		return 0
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	return c
}

func (p *summer) sum() (float64, bool) {
	v, ok := p.product()
	for ok {
		c := p.take("+-")
		if c == 0 {
			break
		}
		var w float64
		w, ok = p.product()
		if c == '-' {
			w = -w
		}
		v += w
	}
	return v, ok
}

func (p *summer) product() (float64, bool) {
	v, ok := p.value()
	for ok {
		c := p.take("*/")
		if c == 0 {
			break
		}
		var w float64
		w, ok = p.value()
		if c == '/' {
			v /= w
		} else {
			v *= w
		}
	}
	return v, ok
}

func (p *summer) value() (float64, bool) {
	if p.take("-") != 0 {
		v, ok := p.value()
		return -v, ok
	}
	if p.take("(") != 0 {
		v, ok := p.sum()
		return v, ok && p.take(")") != 0
	}
	n := len(p.rest) - len(strings.TrimLeft(p.rest, "0123456789."))
	v, err := strconv.ParseFloat(p.rest[:n], 64)
	p.rest = p.rest[n:]
	return v, err == nil
}
