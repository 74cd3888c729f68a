// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"strings"
	"testing"
	"time"
)

func TestTableFits(t *testing.T) {
	table := &Table{Columns: []Column{{Name: "NAME"}, {Name: "LESS", Rank: 2}, {Name: "MORE", Rank: 1}, {Name: "AGE"}}}
	table.Add("a", "bbbb", "cccc", "1s")
	table.Add("äää", "b", "c", "")
	for width, want := range map[int]string{
		0:  "NAME  LESS  MORE  AGE|a     bbbb  cccc  1s|äää   b     c",
		21: "NAME  LESS  MORE  AGE|a     bbbb  cccc  1s|äää   b     c",
		20: "NAME  MORE  AGE|a     cccc  1s|äää   c",
		10: "NAME  AGE|a     1s|äää",
		3:  "NAME  AGE|a     1s|äää",
	} {
		if got := strings.Join(table.Lines(width), "|"); got != want {
			t.Errorf("width %d: %q, want %q", width, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text          string
		indent, width int
		want          string
	}{
		{"", 0, 0, ""},
		{"one  two\nthree", 2, 0, "one two three"},
		{"aaaa bbbb cccc dddd eeee", 2, 24, "aaaa bbbb cccc dddd|  eeee"},
		{strings.Repeat("x", 30) + " y", 0, 20, strings.Repeat("x", 30) + "|y"},
	} {
		if got := strings.Join(Wrap(c.text, c.indent, c.width), "|"); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestClip(t *testing.T) {
	for width, want := range map[int]string{0: "äöü", 3: "äöü", 2: "ä…", 1: "…"} {
		if got := Clip("äöü", width); got != want {
			t.Errorf("%d: %q", width, got)
		}
	}
}

func TestSince(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		at   time.Time
		want string
	}{{time.Time{}, "<unknown>"}, {now, "0s"}, {now.Add(time.Minute), "0s"}, {now.Add(-3 * time.Minute), "3m"}} {
		if got := Since(c.at, now); got != c.want {
			t.Errorf("%v: %q", c.at, got)
		}
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0B", 999: "999B", 1000: "1.0KiB", 20480: "20KiB", 10188: "9.9KiB", 1023 << 10: "1.0MiB", 25 << 20: "25MiB", 8 << 30: "8.0GiB", 1 << 60: "1048576TiB",
	} {
		if got := Size(bytes); got != want {
			t.Errorf("%d: %s, not %s", bytes, got, want)
		}
	}
}
