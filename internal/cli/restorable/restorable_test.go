// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restorable

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
)

// said is what the command prints by the annotations of the Lease.
func said(separator, restorable, undecryptable, failed string) string {
	return strings.Join(lines(map[string]string{
		v1alpha1.AnnotationRestorable: restorable, v1alpha1.AnnotationUndecryptable: undecryptable, v1alpha1.AnnotationBackupError: failed,
	}), separator)
}

// What was cut off is left out, and what deltas lead through is a target to the second. What was written since the newest snapshots counts, unless the
// leader has found that it cannot be restored.
func TestLines(t *testing.T) {
	g := NewWithT(t)
	text := `[{"from":{"revision":90,"time":"2026-11-23T01:00:00Z"},"to":{"revision":4711,"time":"2026-11-24T03:00:00Z"},"fine":true},` +
		`{"from":{"revision":50,"time":"2026-11-20T01:00:00Z"},"to":{"revision":50,"time":"2026-11-20T01:00:00Z"},"fine":false},` +
		`{"from":{"revision":20,"time":"2026-11-19T01:00:00Z"},"to":{"revision":30,"time":"2026-11-19T02:00:00Z"},"fine":true},{"from":{"revi`
	g.Expect(said("\n", text, "", "")).To(Equal(strings.TrimSpace(`
FROM                  REVISION  TO                    REVISION  TARGETS
2026-11-23T01:00:00Z  90        2026-11-24T03:00:00Z  4711      every revision and second, and what was written since
2026-11-20T01:00:00Z  50        2026-11-20T01:00:00Z  50        this full snapshot
2026-11-19T01:00:00Z  20        2026-11-19T02:00:00Z  30        every revision and second`)))
	g.Expect(said("|", "[]", "1 of 1 snapshots,\nfrom X", "")).To(Equal("The backup leads to no state that can be restored.||1 of 1 snapshots, from X."))
	first, _, _ := strings.Cut(text, ",{")
	g.Expect(said("|", first, "", "revisions 5 to 7\nare missing")).To(HaveSuffix("  4711      every revision and second||The last snapshot failed, or could not be restored: revisions 5 to 7 are missing."))
	for _, broken := range []string{"", "[", "{", "7", `["x"]`} {
		g.Expect(backup.ReadIntervals(broken)).To(BeEmpty(), broken)
	}
}
