package dialect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

// A denial names its tool and not its call, and the real program puts it in three places: it must find its call in each.
func TestEnsoDenialsFindTheirCalls(t *testing.T) {
	const deny, done = `{"tool":"bash","type":"permission_auto_deny"}`, `{"type":"assistant_done"}`
	const end = `{"denied":true,"name":"bash","type":"tool_call_end"}`
	start := func(id string) string { return `{"type":"tool_call_start","id":"` + id + `","name":"bash","args":{}}` }
	ended := func(id, more string) string {
		return `{"type":"tool_call_end","id":"` + id + `","name":"bash","result":"","error":null` + more + `}`
	}
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"no start, no id":         {[]string{done, deny, end}, "gate.denied call-1, tool.denied call-1"},
		"before assistant_done":   {[]string{deny, done, end}, "gate.denied call-1, tool.denied call-1"},
		"after the end":           {[]string{done, end, deny, done}, "tool.denied call-1, gate.denied "},
		"before the start":        {[]string{done, deny, start("a"), ended("a", `,"denied":true`)}, "gate.denied a, tool.denied a"},
		"after the start":         {[]string{done, start("a"), deny, ended("a", `,"denied":true`)}, "gate.denied a, tool.denied a"},
		"while another one runs":  {[]string{start("a"), deny, start("b"), ended("b", `,"denied":true`), ended("a", "")}, "gate.denied b, tool.denied b"},
		"of one of two that runs": {[]string{start("a"), start("b"), deny, ended("a", ""), ended("b", `,"denied":true`)}, "gate.denied b, tool.denied b"},
		"and nothing after it":    {[]string{done, deny}, "gate.denied call-1, tool.denied call-1"},
	} {
		var got []string
		for _, e := range decodeAll(t, []byte(strings.Join(c.lines, "\n")), &enso, StreamOptions{NoOrigin: true}) {
			if e.Kind == "gate.denied" || e.Kind == "tool.denied" {
				got = append(got, string(e.Kind)+" "+e.Call)
			}
		}
		if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Lines of sub-agents can be told from their parent's, also where the stream does not say whose they are.
func TestEnsoLinesHaveTheirAgents(t *testing.T) {
	for _, s := range samples(t, &enso, "recorded") {
		if s.name != "subagent_nested.ndjson" {
			continue
		}
		var texts []string
		for _, e := range decodeAll(t, s.data, &enso, StreamOptions{NoOrigin: true}) {
			if b, ok := e.Body.(event.Text); ok {
				texts = append(texts, e.Agent+": "+b.Text)
			}
		}
		want := []string{
			"21713c7f: l1", "21713c7f/f957869f: l2", "21713c7f/f957869f/55d54805: l3", "21713c7f/f957869f/55d54805: l3 done",
			"21713c7f/f957869f: l2 done", "21713c7f: l1 done", "9a32299d: l1", "9a32299d/93727ae5: l2", "9a32299d/93727ae5/ff749f18: l3",
			"9a32299d/93727ae5/ff749f18: l3 done", "9a32299d/93727ae5: l2 done", "9a32299d: l1 done", ": f",
		}
		if diff := cmp.Diff(want, texts); diff != "" {
			t.Error(diff)
		}
	}
}

func TestEnsoCutsPromptsBetweenCharacters(t *testing.T) {
	long := strings.Repeat("é", 81)
	if got, want := ensoCut(long), strings.Repeat("é", 80)+"…"; got != want || ensoCut(got) != got || ensoCut(long[:160]) != long[:160] {
		t.Errorf("got %q", got)
	}
}
