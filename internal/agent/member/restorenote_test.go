// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	. "github.com/onsi/gomega"
)

// A full snapshot of another member counts only for a cluster whose ID is new since the recovery.
func TestRestored(t *testing.T) {
	for _, tc := range []struct {
		text    string
		want    RestoreNote
		settled bool // by a full snapshot of the cluster b2
	}{
		{"recovered b2", RestoreNote{ClusterID: "b2"}, true},
		{"recovered b2\n", RestoreNote{ClusterID: "b2"}, true},
		{"recovered a1", RestoreNote{ClusterID: "a1"}, false},
		{"recovered", RestoreNote{}, false},
		{"restored", RestoreNote{FromBackup: true}, false},
		{"restored b2", RestoreNote{FromBackup: true, ClusterID: "b2"}, false},
		{"", RestoreNote{FromBackup: true}, false},
		{"recov", RestoreNote{FromBackup: true}, false},
	} {
		g := NewWithT(t)
		r := ParseRestoreNote(tc.text)
		g.Expect(r).To(Equal(tc.want), tc.text)
		g.Expect(r.Settled("b2")).To(Equal(tc.settled), tc.text)
		g.Expect(r.Settled("")).To(BeFalse(), tc.text)
		g.Expect(ParseRestoreNote(r.String())).To(Equal(r), tc.text)
	}
}
