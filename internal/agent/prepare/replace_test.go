// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	clocktesting "k8s.io/utils/clock/testing"
)

// memberList is the member list of a running cluster. It notes changes in the order of their arrival.
type memberList struct {
	clientv3.Cluster
	// refuses is why it takes no change, and silent why it gives no list.
	refuses, silent error
	seen            func(change string)
	// id of the cluster, listed is what a linearizable read returns, and added what is listed once a learner was added.
	id            uint64
	listed, added []*etcdserverpb.Member
}

func (l memberList) MemberList(_ context.Context, options ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	if len(options) > 0 {
		return nil, errors.New("the read is not linearizable")
	}
	return &clientv3.MemberListResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: l.id}, Members: l.listed}, l.silent
}

func (l memberList) MemberRemove(_ context.Context, id uint64) (*clientv3.MemberRemoveResponse, error) {
	l.seen(fmt.Sprintf("remove %x", id))
	return &clientv3.MemberRemoveResponse{}, l.refuses
}

func (l memberList) MemberAddAsLearner(_ context.Context, urls []string) (*clientv3.MemberAddResponse, error) {
	l.seen("add " + strings.Join(urls, ","))
	return &clientv3.MemberAddResponse{Members: l.added}, l.refuses
}

// A member that is still listed keeps its data: the other members may count on it. etcd takes one learner at a time.
func TestReplace(t *testing.T) {
	const url = "http://main-1:2380"
	listed := knowledge{answer: member.AnswerStarted, memberID: 0xab, members: []*etcdserverpb.Member{{ID: 0xab, PeerURLs: []string{url}}}}
	withLearner := listed
	withLearner.members = append(withLearner.members[:1:1], &etcdserverpb.Member{ID: 0xcd, Name: "main-2", PeerURLs: []string{"http://main-2:2380"}, IsLearner: true})
	notListed := knowledge{answer: member.AnswerNotListed}
	for name, tc := range map[string]struct {
		known   knowledge
		refuses error
		// changes of the member list, and whether the data was in place then.
		changes []string
		kept    bool
		says    string
	}{
		"a member that is listed":             {listed, nil, []string{"remove ab, with data", "add http://main-1:2380, without"}, false, ""},
		"one that etcd does not let go":       {listed, errors.New("unhealthy cluster"), []string{"remove ab, with data"}, true, "removing member ab: unhealthy cluster"},
		"one that is not listed":              {notListed, nil, []string{"add http://main-1:2380, without"}, false, ""},
		"one that is not added":               {notListed, errors.New("too many learners"), []string{"add http://main-1:2380, without"}, false, "adding learner http://main-1:2380: too many learners"},
		"while another member is the learner": {withLearner, nil, []string{"remove ab, with data"}, false, "member main-1 waits until main-2 is promoted"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			data := filepath.Join(t.TempDir(), "data")
			g.Expect(os.MkdirAll(filepath.Join(data, "member"), 0o700)).To(Succeed())
			var changes []string
			list := memberList{refuses: tc.refuses, seen: func(change string) {
				if _, err := os.Stat(data); err == nil {
					changes = append(changes, change+", with data")
				} else {
					changes = append(changes, change+", without")
				}
			}}
			p := &preparation{
				Options: Options{Clock: clocktesting.NewFakeClock(time.Unix(1, 0))},
				id:      member.Identity{Name: "main-1", PeerURL: url}, others: &others{etcd: &clientv3.Client{Cluster: list}},
			}
			_, err := p.replace(t.Context(), member.Input{DataDir: data}, tc.known)
			g.Expect(changes).To(Equal(tc.changes))
			if tc.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(tc.says)))
			}
			if tc.kept {
				g.Expect(data).To(BeADirectory())
			} else {
				g.Expect(data + member.ReplacedSuffix + "1").To(BeADirectory())
			}
		})
	}
}
