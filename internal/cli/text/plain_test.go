// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	. "github.com/onsi/gomega"
)

// Text from the cluster cannot control the terminal.
func TestNothingControlsTheTerminal(t *testing.T) {
	g := NewWithT(t)
	const evil = "a\x1b[2J\x1b]0;title\x07\u009b1A\u202eb\rc"
	table := text.Table{Columns: []text.Column{{Name: "NAME"}, {Name: "MESSAGE"}}}
	table.Add("x", evil)
	var out strings.Builder
	text.Print(&out, evil, "two\nlines")
	for _, shown := range append(table.Lines(0), out.String(), text.Labeled("Message:", 10, evil, 40), text.Clip(evil, 5), strings.Join(text.Wrap(evil, 0, 0), "\n"), text.Plain(evil)) {
		g.Expect(strings.ContainsFunc(strings.ReplaceAll(shown, "\n", ""), sanitize.Harmful)).To(BeFalse(), "%q", shown)
	}
	g.Expect(out.String()).To(HaveSuffix("two\nlines\n"))
}
