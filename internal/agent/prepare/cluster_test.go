// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"testing"

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
