// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestDecide(t *testing.T) {
	for _, tc := range []struct {
		name      string
		data      Data
		clusterID string
		others    Answer
		want      Action
		why       string // part of it
	}{
		{"data, fresh cluster", DataPresent, "", AnswerNone, Start, "has its data"},
		{"data, known cluster without quorum", DataPresent, "cafe", AnswerNone, Start, "has its data"},
		{"data, known cluster", DataPresent, "cafe", AnswerStarted, Start, "has its data"},

		{"half the data", DataDamaged, "", AnswerNone, Refuse, "damaged"},
		{"half the data, known cluster", DataDamaged, "cafe", AnswerStarted, Refuse, "damaged"},

		{"first start of the first members", DataNone, "", AnswerNone, Bootstrap, "no recorded cluster"},
		{"first start, the others already serve", DataNone, "", AnswerNeverStarted, Join, "never seen it run"},
		{"first start, late", DataNone, "cafe", AnswerNeverStarted, Join, "never seen it run"},

		{"data lost", DataNone, "cafe", AnswerStarted, Refuse, "etcdctl member remove"},
		{"data lost before the ID was recorded", DataNone, "", AnswerStarted, Refuse, "etcdctl member remove"},
		{"data lost, and the quorum too", DataNone, "cafe", AnswerNone, Refuse, "second cluster"},

		{"removed from the cluster", DataNone, "cafe", AnswerNotListed, Refuse, "etcdctl member add etcd-main-1 --peer-urls=http://etcd-main-1:2380"},
		{"removed before the ID was recorded", DataNone, "", AnswerNotListed, Refuse, "etcdctl member add"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			got := Decide(Facts{
				Member: "etcd-main-1", PeerURL: "http://etcd-main-1:2380", DataDir: DataDir,
				Data: tc.data, ClusterID: tc.clusterID, Others: tc.others,
			})
			g.Expect(got.Action).To(Equal(tc.want))
			g.Expect(got.Why).To(ContainSubstring(tc.why))
		})
	}
}

// Whatever the facts are: no member bootstraps where there is data, a recorded cluster or one that answers,
// and every refusal names the member.
func TestDecideNeverBootstrapsBesideACluster(t *testing.T) {
	g := NewWithT(t)
	for _, data := range []Data{DataNone, DataPresent, DataDamaged} {
		for _, id := range []string{"", "cafe"} {
			for _, others := range []Answer{AnswerNone, AnswerNeverStarted, AnswerStarted, AnswerNotListed} {
				d := Decide(Facts{Member: "etcd-main-1", Data: data, ClusterID: id, Others: others})
				if data != DataNone || id != "" || others != AnswerNone {
					g.Expect(d.Action).NotTo(Equal(Bootstrap))
				}
				if d.Action == Refuse {
					g.Expect(strings.Contains(d.Why, "member etcd-main-1")).To(BeTrue(), d.Why)
				}
			}
		}
	}
}
