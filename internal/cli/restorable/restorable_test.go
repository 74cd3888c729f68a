// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restorable

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
)

// What was cut off is left out, and what deltas lead through is a target to the second.
func TestLines(t *testing.T) {
	g := NewWithT(t)
	text := `[{"from":{"revision":90,"time":"2026-11-23T01:00:00Z"},"to":{"revision":4711,"time":"2026-11-24T03:00:00Z"},"fine":true},` +
		`{"from":{"revision":50,"time":"2026-11-20T01:00:00Z"},"to":{"revision":50,"time":"2026-11-20T01:00:00Z"},"fine":false},` +
		`{"from":{"revision":20,"time":"2026-11-19T01:00:00Z"},"to":{"revision":30,"time":"2026-11-19T02:00:00Z"},"fine":true},{"from":{"revi`
	g.Expect(strings.Join(lines(backup.ReadIntervals(text), ""), "\n")).To(Equal(strings.TrimSpace(`
FROM                  REVISION  TO                    REVISION  TARGETS
2026-11-23T01:00:00Z  90        2026-11-24T03:00:00Z  4711      every revision and second, and what was written since
2026-11-20T01:00:00Z  50        2026-11-20T01:00:00Z  50        this full snapshot
2026-11-19T01:00:00Z  20        2026-11-19T02:00:00Z  30        every revision and second`)))
	g.Expect(strings.Join(lines(backup.ReadIntervals("[]"), "1 of 1 snapshots,\nfrom X"), "|")).To(Equal("The backup leads to no state that can be restored.||1 of 1 snapshots, from X."))
	for _, broken := range []string{"", "[", "{", "7", `["x"]`} {
		g.Expect(backup.ReadIntervals(broken)).To(BeEmpty(), broken)
	}
}
