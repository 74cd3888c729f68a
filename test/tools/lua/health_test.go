// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package lua tests the health checks for Argo CD in docs/gitops.md, in a Lua interpreter of the kind that Argo CD has.
package lua

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

const root = "../../.."

// The statuses are those that the operator writes: its own tests keep the files.
var health = map[string]map[string]string{
	"internal/etcd/status/testdata": {
		"nothing to do": "Healthy", "a newer spec": "Progressing", "a suspended spec": "Progressing", "a rollout is pending": "Progressing",
		"a rollout is stalled": "Degraded", "a rollout was stalled": "Healthy", "another task stalls": "Healthy", "a member is down": "Progressing",
		"a stage keeps failing": "Degraded", "scale-in is refused": "Degraded", "the quorum is lost": "Degraded", "hibernated": "Healthy",
	},
	"internal/base/conditions/testdata": {
		"seen": "Progressing", "queued": "Progressing", "suspended": "Suspended", "running": "Progressing", "held": "Progressing",
		"stalled": "Degraded", "goes on": "Progressing", "succeeded": "Healthy", "recreated": "Healthy", "failed": "Degraded",
		"rejected": "Degraded", "late error": "Degraded",
	},
}

func TestHealth(t *testing.T) {
	for dir, cases := range health {
		check := script(t, map[bool]string{true: "Etcd", false: "EtcdOperatorTask"}[strings.Contains(dir, "etcd/status")])
		files, err := filepath.Glob(filepath.Join(root, dir, "kstatus-*.json"))
		if err != nil || len(files) != len(cases) {
			t.Errorf("%s: %d files, %v", dir, len(files), err)
		}
		for name, want := range cases {
			data, err := os.ReadFile(filepath.Join(root, dir, "kstatus-"+strings.ReplaceAll(name, " ", "-")+".json"))
			if err != nil {
				t.Error(err)
				continue
			}
			var object map[string]any
			if err := json.Unmarshal(data, &object); err != nil {
				t.Fatal(err)
			}
			if got, message := run(t, check, object); got != want {
				t.Errorf("%s: %s (%s), want %s", name, got, message, want)
			}
		}
		for _, object := range []map[string]any{{}, {"status": map[string]any{"observedGeneration": -1.0}, "metadata": map[string]any{"generation": 1.0}}} {
			if got, _ := run(t, check, object); got != "Progressing" {
				t.Errorf("%s: an object that the operator has not seen is %s", dir, got)
			}
		}
	}
}

// script returns the health check of a kind from the page.
func script(t *testing.T, kind string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/gitops.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)resource\.customizations\.health\.druid\.gardener\.cloud_` + kind + `: \|\n(.*?)(\n  resource|\n` + "```" + `)`).FindSubmatch(page)
	if found == nil {
		t.Fatalf("docs/gitops.md has no health check of %s", kind)
	}
	return string(found[1])
}

// run runs a health check as Argo CD does: with the object in the global obj, and what it returns.
func run(t *testing.T, check string, object map[string]any) (status, message string) {
	t.Helper()
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(check); err != nil {
		t.Fatal(err)
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the check returns %s", state.Get(-1).Type())
	}
	return result.RawGetString("status").String(), result.RawGetString("message").String()
}

// value returns a decoded JSON value in Lua.
func value(state *lua.LState, from any) lua.LValue {
	switch v := from.(type) {
	case string:
		return lua.LString(v)
	case float64:
		return lua.LNumber(v)
	case bool:
		return lua.LBool(v)
	case []any:
		table := state.NewTable()
		for _, item := range v {
			table.Append(value(state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, item := range v {
			table.RawSetString(key, value(state, item))
		}
		return table
	}
	return lua.LNil
}
