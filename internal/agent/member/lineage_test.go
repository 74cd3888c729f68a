// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	. "github.com/onsi/gomega"
)

// lineageOf returns what the members of a cluster read.
func lineageOf(initial, recorded string, r *Recovery) Shared {
	return Shared{Bootstrap: map[string]any{"initial-cluster": initial, "initial-cluster-token": "uid"}, ClusterID: recorded, Recovery: r}
}

func TestIDsThatFollow(t *testing.T) {
	g := NewWithT(t)
	const plain, secure = "m-0=http://m-0:2380", "m-0=https://m-0:2380"
	one, tls, three := lineageOf(plain, "cafe", nil), lineageOf(secure, "cafe", nil), lineageOf("m-0=http://m-0:2380,m-1=http://m-1:2380", "cafe", nil)
	g.Expect(one.RestoreToken()).To(Equal("uid-after-cafe"))
	g.Expect(one.SuccessorIDs()).To(Equal([]string{ClusterID("uid-after-cafe", plain), ClusterID("uid-after-cafe", secure)}))
	g.Expect(tls.SuccessorIDs()).To(Equal([]string{ClusterID("uid-after-cafe", secure), ClusterID("uid-after-cafe", plain)}))
	g.Expect(three.SuccessorIDs()).To(Equal(one.SuccessorIDs()), "of the first member, which was alone")
	first := lineageOf(plain, "", nil)
	g.Expect(first.RestoreToken()).To(Equal("uid"), "the first start")
	g.Expect(first.SuccessorIDs()).To(BeEmpty())
	g.Expect(first.RecoveredIDs()).To(BeEmpty())
	g.Expect(first.RecoveredID("", "cafe")).To(BeEmpty())

	r := &Recovery{Task: "task", Member: "m-1", Source: RecoverFromBackup, PreviousClusterID: "cafe"}
	recovering := lineageOf("m-0=http://m-0:2380,m-1=http://m-1:2380", "cafe", r)
	made, later := ClusterID("uid-task", "m-1=http://m-1:2380"), ClusterID("uid-task", "m-1=https://m-1:2380")
	g.Expect(recovering.RestoreToken()).To(Equal("uid-task"))
	g.Expect(recovering.RecoveredIDs()).To(Equal([]string{made, later}))
	g.Expect(recovering.RecoveredID("cafe", "", "beef")).To(Equal(made), "it is made now")
	g.Expect(recovering.RecoveredID("cafe", "", later)).To(Equal(later), "it was made before the peer URLs changed")
	g.Expect(recovering.RecoveredID(later, "", made)).To(Equal(later), "what is recorded comes first")
}

// To an only member, a recovery is over once its cluster, or one that follows from it, is recorded.
func TestSettled(t *testing.T) {
	const one, two = "m-0=http://m-0:2380", "m-0=http://m-0:2380,m-1=http://m-1:2380"
	for _, tc := range []struct {
		name, initial, recorded string
		over                    bool
	}{
		{"the previous cluster is recorded", one, "cafe", false},
		{"an earlier cluster is recorded", one, "ace", false},
		{"nothing is recorded", one, "", false},
		{"the new cluster is recorded", one, newID, true},
		{"the new cluster of several is recorded", two, newID, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			r := &Recovery{Task: "task", Member: "m-0", Source: RecoverFromBackup, PreviousClusterID: "cafe", EarlierClusterIDs: []string{"ace"}, Revision: 42}
			s := lineageOf(tc.initial, tc.recorded, r).Settled()
			g.Expect(s.Recovery == nil).To(Equal(tc.over))
			if tc.over {
				g.Expect(s.RestoreToken()).To(Equal("uid-after-" + newID))
			}
		})
	}
}

// A backup has to reach the revision of the final snapshot also after the recovery is over.
func TestRevisionOutlastsTheRecovery(t *testing.T) {
	g := NewWithT(t)
	r := Recovery{Task: "task", Member: "etcd-main-0", Source: RecoverFromBackup, PreviousClusterID: "cafe", Revision: 42}
	encoded, err := r.Encode()
	g.Expect(err).NotTo(HaveOccurred())
	s, err := ParseShared(map[string]string{KeyBootstrap: "initial-cluster: etcd-main-0=http://a:2380", KeyClusterID: newID, KeyRecovery: encoded})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Settled().Recovery).To(BeNil())
	g.Expect(s.Settled().Revision).To(Equal(int64(42)))
}
