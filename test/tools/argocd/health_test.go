// Package argocd runs the health check of the examples in the interpreter that
// Argo CD runs it in.
package argocd

import (
	"os"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"
)

func script(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../examples/argocd-health.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Data map[string]string }
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	return config.Data["resource.customizations.health.greyrelease.example.com_GreyRelease"]
}

// value turns what YAML decodes to into what Argo CD hands to a script.
func value(state *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, item := range v {
			table.RawSetString(key, value(state, item))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range v {
			table.Append(value(state, item))
		}
		return table
	case string:
		return lua.LString(v)
	case float64:
		return lua.LNumber(v)
	case bool:
		return lua.LBool(v)
	}
	return lua.LNil
}

func health(t *testing.T, object string) (status, message string) {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(object), &fields); err != nil {
		t.Fatal(err)
	}
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", value(state, fields))
	if err := state.DoString(script(t)); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	answer, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("%s: want a table, got %v", object, state.Get(-1))
	}
	return answer.RawGetString("status").String(), answer.RawGetString("message").String()
}

func TestHealth(t *testing.T) {
	for _, tt := range []struct{ why, object, status, message string }{
		{"before the first sync", `{metadata: {generation: 1}}`, "Progressing", "waiting for the first status"},
		{"a status that was wiped", `{metadata: {generation: 1}, status: {}}`, "Progressing", "waiting for the first status"},
		{"an edit that was not looked at yet", `{metadata: {generation: 2}, status: {observedGeneration: 1, message: old, conditions: [{type: Ready, status: "True"}]}}`, "Progressing", "old"},
		{"a batch is going out", `{metadata: {generation: 2}, status: {observedGeneration: 2, message: batch 2/5, conditions: [{type: Ready, status: "False"}, {type: Reconciling, status: "True"}, {type: Stalled, status: "False"}, {type: Paused, status: "False"}]}}`, "Progressing", "batch 2/5"},
		{"waiting for an approval", `{metadata: {generation: 2}, status: {observedGeneration: 2, message: approve, conditions: [{type: Ready, status: "False"}, {type: Reconciling, status: "True"}, {type: Paused, status: "True"}]}}`, "Suspended", "approve"},
		{"out and available", `{metadata: {generation: 2}, status: {observedGeneration: 2, message: out, conditions: [{type: Ready, status: "True"}, {type: Reconciling, status: "False"}]}}`, "Healthy", "out"},
		{"out, with pods missing since", `{metadata: {generation: 2}, status: {observedGeneration: 2, phase: Healthy, conditions: [{type: Ready, status: "False"}, {type: Reconciling, status: "False"}]}}`, "Progressing", "Healthy"},
		{"rolled back", `{metadata: {generation: 2}, status: {observedGeneration: 2, message: back, conditions: [{type: Ready, status: "False"}, {type: Stalled, status: "True"}, {type: RolledBack, status: "True"}]}}`, "Degraded", "back"},
	} {
		status, message := health(t, tt.object)
		if tt.status != status || tt.message != message {
			t.Errorf("%s: want %s %q, got %s %q", tt.why, tt.status, tt.message, status, message)
		}
	}
}
