// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package taskconfig

import (
	"errors"
	"strings"
	"testing"
)

type sample struct {
	Name  string   `json:"name,omitempty"`
	Count int      `json:"count,omitempty"`
	List  []string `json:"list,omitempty"`
}

func (*sample) Default() {}

func (s *sample) Validate() error {
	if s.Count > 10 {
		return errors.New("count is more than 10")
	}
	return nil
}

func TestDecode(t *testing.T) {
	for config, want := range map[string]string{
		"":                            "",
		"# only a comment":            "",
		"{}":                          "",
		"null":                        "",
		"name: a\ncount: 1":           "",
		`{"name": "a", "count": 1}`:   "",
		"name: a\nname: b":            `"name"`,
		`{"name": "a", "name": "b"}`:  `"name"`,
		"count: 11":                   "spec.config: count is more than 10",
		"title: a":                    `unknown field "title"`,
		"Name: a":                     `unknown field "Name"`,
		"count: many":                 "count",
		"count: 1.5":                  "count",
		"list: &l [a]\nother: *l":     "aliases and anchors",
		"name: &n a":                  "aliases and anchors",
		"name: a\n---\nname: b":       "more than one document",
		"[1, 2]":                      "spec.config",
		"just words":                  "spec.config",
		"\tname: a":                   "not valid YAML",
		"name: [":                     "not valid YAML",
		"name: \x00":                  "not valid YAML",
		strings.Repeat("[", 20_000):   "spec.config",
		strings.Repeat("{a: ", 9_999): "spec.config",
	} {
		_, err := Decode[sample](config)
		short := config[:min(len(config), 40)]
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", short, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", short, err, want)
		}
	}
}

// Decoding any config ends without a panic.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"", "name: a", `{"count": 1}`, "a: &x [*x]", "!!binary x", "? - a\n: b", "<<: {name: a}", "%YAML 1.1\n---\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, config string) {
		_, _ = Decode[sample](config)
	})
}
