// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// source gives values as long as there are bytes, and zeros after them.
type source struct{ data []byte }

func (s *source) byte() byte {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b
}

// number is small as a rule, so that answers have something in common, and any number otherwise.
func (s *source) number() uint64 {
	b := s.byte()
	if b < 0xf0 {
		return uint64(b % 8)
	}
	var raw [8]byte
	for i := range raw {
		raw[i] = s.byte()
	}
	return binary.LittleEndian.Uint64(raw[:])
}

func (s *source) text() string {
	n := int(s.byte()) % 24
	if n == 0 {
		return fmt.Sprintf("m-%d", s.byte()%8)
	}
	text := make([]byte, 0, n)
	for range n {
		text = append(text, s.byte())
	}
	return string(text)
}

func (s *source) texts() (all []string) {
	for range s.byte() % 3 {
		all = append(all, s.text())
	}
	return all
}

func (s *source) status() etcdclient.Status {
	return etcdclient.Status{
		ClusterID: s.number(), MemberID: s.number(), Leader: s.number(), Term: s.number(), CommittedIndex: s.number(), AppliedIndex: s.number(),
		Learner: s.byte()%4 == 1, Version: s.text(), StorageVersion: s.text(), DowngradeTo: s.text(),
	}
}

// ordinal is what the API server says of a pod.
func (s *source) ordinal(i int) cluster.Ordinal {
	name := fmt.Sprintf("m-%d", i)
	o := cluster.Ordinal{Name: name, Member: name, Role: v1alpha1.RoleUnknown}
	o.Class = []v1alpha1.PodClass{v1alpha1.ClassUnready, v1alpha1.ClassMissing, v1alpha1.ClassTerminating, v1alpha1.ClassDead, v1alpha1.ClassStarting}[s.byte()%5]
	if o.Class != v1alpha1.ClassMissing {
		o.Pod = &cluster.Pod{Ready: s.byte()%2 == 0, Endpoint: "http://" + s.text()}
	}
	return o
}

// input is any answers of a cluster of up to 7.
func (s *source) input() input {
	f := input{answers: map[int]etcdclient.Status{}, foreign: map[uint64]etcdclient.Status{}}
	for i := range s.byte() % 8 {
		o := s.ordinal(int(i))
		if f.ordinals = append(f.ordinals, o); o.Pod != nil && s.byte()%4 > 0 {
			f.answers[int(i)] = s.status()
		}
	}
	for range s.byte() % 12 {
		f.members = append(f.members, etcdclient.Member{ID: s.number(), Name: s.text(), Learner: s.byte()%4 == 1, ClientURLs: s.texts(), PeerURLs: s.texts()})
	}
	for id := range foreignVoters(&f) {
		if s.byte()%2 == 0 {
			f.foreign[id] = s.status()
		}
	}
	return f
}

// Whatever members answer, whatever lists they give, a Snapshot is made of it which claims no more than was answered, and which
// can be shown.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{3, 0, 0, 0, 0, 1, 7, 1, 1, 1, 1, 1, 0, 0, 0, 0})
	random := uint64(1)
	for n := range 24 {
		seed := make([]byte, 40*(n+1))
		for i := range seed {
			random = random*6364136223846793005 + 1442695040888963407
			seed[i] = byte(random >> 56)
		}
		seed[0] = byte(n)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		seen := (&source{data}).input()
		if foreign := foreignVoters(&seen); len(foreign) > maxForeign {
			t.Errorf("%d foreign voters are asked", len(foreign))
		}
		_ = bestInformed(seen.answers, seen.clusterID())
		given := slices.Clone(seen.ordinals)
		s := build(seen)
		for i, o := range s.Ordinals {
			status, answered := seen.answers[i]
			switch {
			case o.Answers && !answered:
				t.Errorf("%s answers, and did not", o.Name)
			case o.Serving && (status.Leader == 0 || status.Leader != s.Cluster.Leader || status.ClusterID != s.Cluster.ID || status.Term != s.Cluster.Term):
				t.Errorf("%s serves with %+v, in a cluster with %+v", o.Name, status, s.Cluster)
			case o.Class == v1alpha1.ClassParticipating && (!o.Serving || !o.Pod.Ready || status.Learner):
				t.Errorf("%s participates: %+v", o.Name, o)
			case given[i].Class == v1alpha1.ClassTerminating && o.Class != v1alpha1.ClassTerminating, given[i].Class == v1alpha1.ClassMissing && o.Class != v1alpha1.ClassMissing:
				t.Errorf("%s was %s, and is %s", o.Name, given[i].Class, o.Class)
			}
			shown(t, o.Versions.Etcd, o.Versions.Storage, o.Versions.DowngradeTo, o.Describe())
		}
		checkVoters(t, seen, s)
		_, _ = s.Unreachable()
		_, _ = s.PodsBehind()
		_ = s.NotParticipating(-1) + s.NotServing(0)
	})
}

// checkVoters checks that each voter is counted once: a quorum that is made of one member counted twice is none.
func checkVoters(t *testing.T, seen input, s *cluster.Snapshot) {
	t.Helper()
	counted, ordinals := map[uint64]bool{}, map[int]bool{}
	for _, v := range s.Cluster.Voters {
		shown(t, v.Name)
		if !v.Serving {
			continue
		}
		if counted[v.ID] {
			t.Errorf("voter %x serves twice: %+v", v.ID, s.Cluster.Voters)
		}
		if v.Ordinal >= 0 && ordinals[v.Ordinal] {
			t.Errorf("ordinal %d serves as two voters: %+v", v.Ordinal, s.Cluster.Voters)
		}
		counted[v.ID] = true
		if v.Ordinal >= 0 {
			ordinals[v.Ordinal] = true
		}
	}
	if n := s.ServingVoters(); n > len(seen.answers)+len(seen.foreign) {
		t.Errorf("%d voters serve, of %d members that answered", n, len(seen.answers)+len(seen.foreign))
	}
}

func shown(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !utf8.ValidString(text) || slices.ContainsFunc([]rune(text), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%q cannot be shown", text)
		}
	}
}

// Whatever a lease says and whenever, no role is believed at first sight, nor a minute after it was last seen to be renewed.
func FuzzLease(f *testing.F) {
	f.Add("1:Leader", int64(0), int64(10), uint16(30))
	f.Add("1:2:Member", int64(-1<<62), int64(1<<62), uint16(61))
	f.Add("", int64(0), int64(0), uint16(0))
	f.Add(":Leader:", int64(1), int64(1), uint16(1))
	f.Fuzz(func(t *testing.T, holder string, first, second int64, after uint16) {
		var r renewals
		lease := func(at int64) *coordinationv1.Lease {
			return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{UID: types.UID("u")}, Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To(holder), RenewTime: &metav1.MicroTime{Time: time.Unix(first, at)},
			}}
		}
		now := time.Unix(1e9, 0)
		if role := r.leaseRole(lease(first), now); role != v1alpha1.RoleUnknown {
			t.Errorf("%s at first sight", role)
		}
		seen := r.leaseRole(lease(second), now.Add(time.Second))
		if first == second && seen != v1alpha1.RoleUnknown {
			t.Errorf("%s, and it was not renewed", seen)
		}
		later := time.Second + time.Duration(after)*time.Second
		if role := r.leaseRole(lease(second), now.Add(later)); after > 60 && role != v1alpha1.RoleUnknown || role != v1alpha1.RoleUnknown && role != seen {
			t.Errorf("%s %s after the renewal", role, later)
		}
	})
}
