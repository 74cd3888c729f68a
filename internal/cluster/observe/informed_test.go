// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
)

// scripted are members with fixed answers, by endpoint.
type scripted map[string]scriptedMember

type scriptedMember struct {
	etcdclient.Client
	status etcdclient.Status
	// knows are the IDs on its member list; nil if it returns none.
	knows []uint64
}

func (t scripted) Dial(endpoint string, _ *tls.Config) (etcdclient.Client, error) {
	return t[endpoint], nil
}

func (m scriptedMember) Status(context.Context) (etcdclient.Status, error) { return m.status, nil }

func (m scriptedMember) Members(context.Context) ([]etcdclient.Member, error) {
	if m.knows == nil {
		return nil, errors.New("no member list")
	}
	var list []etcdclient.Member
	for _, id := range m.knows {
		list = append(list, etcdclient.Member{ID: id})
	}
	return list, nil
}

func (scriptedMember) Close() error { return nil }

// The size of the quorum follows from the member list, so the list of the best informed member is used. One that was cut
// off may have missed additions and removals, and one of another cluster knows none of the members.
func TestMemberListIsThatOfTheBestInformed(t *testing.T) {
	at := func(leader, term, applied uint64, knows ...uint64) scriptedMember {
		return scriptedMember{status: etcdclient.Status{ClusterID: 7, Leader: leader, Term: term, AppliedIndex: applied}, knows: knows}
	}
	learner := at(1, 9, 90, 9)
	learner.status.Learner = true
	elsewhere := at(1, 9, 90, 9)
	elsewhere.status.ClusterID = 8
	for name, c := range map[string]struct {
		members []scriptedMember
		want    []uint64
	}{
		"one that knows a leader":         {[]scriptedMember{at(0, 9, 90, 9), at(1, 5, 10, 1, 2, 3), at(0, 9, 90, 9)}, []uint64{1, 2, 3}},
		"then the newest term":            {[]scriptedMember{at(1, 5, 90, 9), at(1, 5, 90, 9), at(1, 6, 10, 1, 2, 3)}, []uint64{1, 2, 3}},
		"then the longest log":            {[]scriptedMember{at(1, 5, 10, 9), at(1, 5, 12, 1, 2, 3), at(1, 5, 11, 9)}, []uint64{1, 2, 3}},
		"then the lowest ordinal":         {[]scriptedMember{at(1, 5, 10, 1, 2, 3), at(1, 5, 10, 9)}, []uint64{1, 2, 3}},
		"even without a leader":           {[]scriptedMember{at(0, 5, 10, 9), at(0, 6, 10, 1, 2, 3)}, []uint64{1, 2, 3}},
		"the next, if it returns no list": {[]scriptedMember{at(1, 5, 10, 9), at(1, 6, 10), at(1, 5, 11, 1, 2, 3)}, []uint64{1, 2, 3}},
		"not a learner":                   {[]scriptedMember{learner, at(1, 5, 10, 1, 2, 3)}, []uint64{1, 2, 3}},
		"nor a member of another cluster": {[]scriptedMember{elsewhere, at(1, 5, 10, 1, 2, 3), at(1, 5, 10, 1, 2, 3)}, []uint64{1, 2, 3}},
		"nor if no other returns a list":  {[]scriptedMember{elsewhere, at(1, 5, 10), at(1, 5, 10)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			members := scripted{}
			var f input
			for i, m := range c.members {
				name, endpoint := fmt.Sprintf("m-%d", i), fmt.Sprintf("http://10.0.0.%d:2379", i)
				members[endpoint] = m
				f.ordinals = append(f.ordinals, cluster.Ordinal{Name: name, Member: name, Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{Endpoint: endpoint, Ready: true}})
			}
			g.Expect(New(members, clock.RealClock{}).ask(t.Context(), &v1alpha1.Etcd{}, &f)).To(Succeed())
			var ids []uint64
			for _, m := range f.members {
				ids = append(ids, m.ID)
			}
			g.Expect(ids).To(Equal(c.want))
		})
	}
}

// An answer from another cluster says nothing about this one: its IDs are the same if names and URLs are.
func TestAnswersOfAnotherClusterDoNotCount(t *testing.T) {
	elsewhere := func(s etcdclient.Status) etcdclient.Status { s.ClusterID = 8; return s }
	const far = 5_000_000
	farAhead := says(0, 2, 5)
	farAhead.CommittedIndex, farAhead.AppliedIndex = far, far
	for name, stranger := range map[string]etcdclient.Status{
		"it names the same leader": elsewhere(says(0, 2, 5)),
		"it is in a newer term":    elsewhere(says(0, 1, 9)),
		"it is far ahead":          elsewhere(farAhead),
		"it has the leader's ID":   elsewhere(func() etcdclient.Status { s := farAhead; s.MemberID = 2; return s }()),
	} {
		for _, foreign := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, foreign: %v", name, foreign), func(t *testing.T) {
				g := NewWithT(t)
				// The leader, member 2 of ordinal 1, does not answer.
				answers := map[int]etcdclient.Status{2: says(2, 2, 5), 3: says(3, 2, 5)}
				f := answersOf(4, answers)
				if foreign {
					f.members = append(f.members, etcdclient.Member{ID: stranger.MemberID + 50})
					f.foreign = map[uint64]etcdclient.Status{stranger.MemberID + 50: stranger}
				} else {
					answers[0] = stranger
				}
				s := build(f)
				g.Expect(s.Cluster.Leader).To(Equal(uint64(2)))
				g.Expect(s.Cluster.Term).To(Equal(uint64(5)))
				g.Expect(s.Ordinals[0].Serving).To(BeFalse())
				g.Expect(s.Ordinals[2].Serving).To(BeTrue())
				g.Expect(s.Ordinals[2].Lag).To(BeZero())
				g.Expect(s.ServingVoters()).To(Equal(2))
			})
		}
	}
}

// Everything that a Snapshot says about a pod is confirmed. A lost node or volume does not change the pod's UID and
// resourceVersion.
func TestConfirmComparesAllOfAPod(t *testing.T) {
	made := func(change func(*cluster.Pod)) input {
		f := answersOf(3, nil)
		change(f.ordinals[1].Pod)
		return f
	}
	seen := build(made(func(*cluster.Pod) {}))
	for name, c := range map[string]struct {
		change func(*cluster.Pod)
		want   bool
	}{
		"nothing":              {func(*cluster.Pod) {}, true},
		"the node is lost":     {func(p *cluster.Pod) { p.Node.Trouble = "not ready" }, false},
		"the node is cordoned": {func(p *cluster.Pod) { p.Node.Cordoned = true }, false},
		"the volume is stuck":  {func(p *cluster.Pod) { p.VolumeTrouble = "its claim is being deleted" }, false},
	} {
		NewWithT(t).Expect(made(c.change).confirm(seen)).To(Equal(c.want), name)
	}
}
