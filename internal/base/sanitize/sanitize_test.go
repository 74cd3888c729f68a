// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package sanitize

import (
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
)

func TestText(t *testing.T) {
	for name, c := range map[string]struct {
		in    string
		limit int
		want  string
	}{
		"plain":                    {"applying Service a: no", 100, "applying Service a: no"},
		"not cut at its limit":     {"abc", 3, "abc"},
		"cut":                      {"abcdefgh", 6, "abc…"},
		"cut between runes":        {"aéééé", 6, "aé…"},
		"no limit":                 {strings.Repeat("x", 9000), 0, strings.Repeat("x", 9000)},
		"no room for an ellipsis":  {"abcdef", 2, ""},
		"a terminal's escape":      {"a\x1b[2Jb", 100, "a [2Jb"},
		"an escape of eight bits":  {"a\u009b2Jb", 100, "a 2Jb"},
		"lines":                    {"a\r\nb\tc\u2028d", 100, "a  b c d"},
		"a bidirectional override": {"a\u202eb", 100, "a b"},
		"not UTF-8":                {"a\xffb", 100, "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Text(c.in, c.limit)).To(Equal(c.want)) })
	}
}

// For any input, the output fits, is UTF-8 and harmless.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "a", "\x1b]0;title\x07", "\xf0\x9f", strings.Repeat("é", 40), "a\u202eb\u2066"} {
		f.Add(seed, 10)
	}
	f.Fuzz(func(t *testing.T, in string, limit int) {
		limit %= 1 << 12
		out := Text(in, limit)
		if limit > 0 && len(out) > limit {
			t.Errorf("%d bytes, but only %d are allowed: %q", len(out), limit, out)
		}
		if !utf8.ValidString(out) || strings.ContainsFunc(out, Harmful) {
			t.Errorf("not plain: %q", out)
		}
	})
}
