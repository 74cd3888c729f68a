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
		want    Restored
		settled bool // by a full snapshot of the cluster b2
	}{
		{"recovered b2", Restored{ClusterID: "b2"}, true},
		{"recovered b2\n", Restored{ClusterID: "b2"}, true},
		{"recovered a1", Restored{ClusterID: "a1"}, false},
		{"recovered", Restored{}, false},
		{"restored", Restored{FromBackup: true}, false},
		{"restored b2", Restored{FromBackup: true, ClusterID: "b2"}, false},
		{"", Restored{FromBackup: true}, false},
		{"recov", Restored{FromBackup: true}, false},
	} {
		g := NewWithT(t)
		r := ParseRestored(tc.text)
		g.Expect(r).To(Equal(tc.want), tc.text)
		g.Expect(r.Settled("b2")).To(Equal(tc.settled), tc.text)
		g.Expect(r.Settled("")).To(BeFalse(), tc.text)
		g.Expect(ParseRestored(r.String())).To(Equal(r), tc.text)
	}
}
