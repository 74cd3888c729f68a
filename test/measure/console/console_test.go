// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestStepsAndLines(t *testing.T) {
	var out bytes.Buffer
	c := &Console{out: &out}
	c.Heading("Part %d", 1)
	err := c.Step("freezing", func(note func(string)) (string, error) {
		note("waits")
		c.Line("  something happens")
		return "unready", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	failure := errors.New("no")
	if err := c.Step("thawing", func(func(string)) (string, error) { return "", failure }); !errors.Is(err, failure) {
		t.Errorf("error is %v", err)
	}
	want := "\nPart 1\n  something happens\n  freezing                 unready (0.0s)\n  thawing                  failed (0.0s)\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestALineReplacesTheLineRedrawnInPlace(t *testing.T) {
	var out bytes.Buffer
	c := &Console{out: &out, terminal: true}
	c.say(strings.Repeat("x", 200))
	c.say("y")
	c.Line("z")
	c.Line("z")
	want := strings.Repeat("x", lineWidth-1) + "…\r\x1b[Ky\r\x1b[Kz\nz\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{120 * time.Millisecond: "0.1s", 9 * time.Second: "9.0s", 75 * time.Second: "75s"} {
		if got := took(d); got != want {
			t.Errorf("%s is shown as %s, want %s", d, got, want)
		}
	}
}
