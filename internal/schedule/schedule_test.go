// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestParse(t *testing.T) {
	g := NewWithT(t)
	for text, says := range map[string]string{
		"0 0 * * *": "", "0 0 29 2 *": "", "*/5 * * * *": "", "0 0 31 1,2 *": "", "@daily": "",
		"0 0 31 2 *": "never comes", "0 0 30 2 *": "never comes", "0 0 31 4,6,9,11 *": "never comes",
		"": "empty", "5-3 * * * *": "beyond", "a b c d e": "parse",
	} {
		_, err := Parse(text)
		if says == "" {
			g.Expect(err).NotTo(HaveOccurred(), text)
			continue
		}
		g.Expect(err).To(MatchError(ContainSubstring(says)), text)
	}
}

// Every accepted schedule has a next time.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0 0 31 2 *", "0 0 29 2 *", "@every 1s", "TZ=UTC 0 0 * * *", "* * * * *"} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, text string) { _, _ = Parse(text) })
}
