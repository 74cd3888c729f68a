// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

func TestOtherLearner(t *testing.T) {
	voter := &etcdserverpb.Member{ID: 1, Name: "main-0", PeerURLs: []string{"http://main-0:2380"}}
	learner := func(name string) *etcdserverpb.Member {
		return &etcdserverpb.Member{ID: 0xab, Name: name, PeerURLs: []string{"http://main-1:2380"}, IsLearner: true}
	}
	for name, c := range map[string]struct {
		members []*etcdserverpb.Member
		peerURL string
		want    string
	}{
		"no member answers":               {nil, "http://main-2:2380", ""},
		"voters only":                     {[]*etcdserverpb.Member{voter}, "http://main-2:2380", ""},
		"another one catches up":          {[]*etcdserverpb.Member{voter, learner("main-1")}, "http://main-2:2380", "main-1"},
		"another one has not started yet": {[]*etcdserverpb.Member{voter, learner("")}, "http://main-2:2380", "ab"},
		"it is the learner itself":        {[]*etcdserverpb.Member{voter, learner("")}, "http://main-1:2380", ""},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(otherLearner(c.members, c.peerURL)).To(Equal(c.want))
		})
	}
}

// A member is known by its own peer URL or, where the spec overrides that one, by its name. What joins advertises all its URLs.
func TestListedAs(t *testing.T) {
	id := member.Identity{Name: "main-1", PeerURL: "http://main-1:2380"}
	for name, c := range map[string]struct {
		members []*etcdserverpb.Member
		id      uint64
		initial string
	}{
		"its own URL first":    {[]*etcdserverpb.Member{{ID: 1, Name: "main-1", PeerURLs: []string{"http://x:1"}}, {ID: 2, PeerURLs: []string{"http://main-1:2380", "http://10.0.0.1:2380"}}}, 2, "main-1=http://x:1,main-1=http://main-1:2380,main-1=http://10.0.0.1:2380"},
		"its own URL second":   {[]*etcdserverpb.Member{{ID: 2, Name: "main-1", PeerURLs: []string{"http://10.0.0.1:2380", "http://main-1:2380"}}}, 2, "main-1=http://10.0.0.1:2380,main-1=http://main-1:2380"},
		"only another URL":     {[]*etcdserverpb.Member{{ID: 0xab, PeerURLs: []string{"http://x:1"}}, {ID: 2, Name: "main-1", PeerURLs: []string{"http://10.0.0.1:2380"}}}, 2, "ab=http://x:1,main-1=http://10.0.0.1:2380"},
		"none of its own name": {[]*etcdserverpb.Member{{ID: 1, Name: "main-0", PeerURLs: []string{"http://x:1"}}}, 0, "main-0=http://x:1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(listedAs(id, c.members).GetID()).To(Equal(c.id))
			g.Expect(initialCluster(id, c.members)).To(Equal(c.initial))
		})
	}
}
