// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	"k8s.io/apimachinery/pkg/types"
)

// threeServing makes a world of three voters that serve, led by main-0, at which the judge has looked for a minute.
func threeServing(t *testing.T) (*World, []*members.Member) {
	t.Helper()
	w := newWorld(t)
	var founders []members.Peer
	for i := range 3 {
		name := fmt.Sprintf("main-%d", i)
		founders = append(founders, members.Peer{ID: uint64(i + 1), Name: name, PeerURL: "http://" + name + ".main-peer.ns.svc:2380", Started: true})
	}
	var all []*members.Member
	for i, p := range founders {
		d := &members.Disk{}
		d.Bootstrap("a", p.ID, founders)
		m := w.Etcd.Start(p.Name, d)
		m.Leader = founders[0].ID
		w.runs[m] = &pod{world: w, name: p.Name, node: w.nodes[i], disk: d, member: m}
		all = append(all, m)
	}
	w.judges[0].members()
	<-time.After(time.Minute)
	w.judges[0].members()
	return w, all
}

// An operator may act for as long as sight on what it has seen, from the moment in which a member stops serving: also before the judge, which looks once
// in a while, has seen that. A time without a leader counts.
func TestMembersThatHaveJustStoppedServing(t *testing.T) {
	const removesVoter, removesPod = "op removes main-2, which serves, while main-1 does not", "op removes pod main-2, which leaves 1 of 3 voters"
	looks := func(w *World) { w.judges[0].members() }
	for name, test := range map[string]struct {
		// happens comes before main-2 is removed.
		happens func(w *World, all []*members.Member)
		broken  bool
	}{
		"all serve":                 {func(*World, []*members.Member) {}, false},
		"main-1 has just stopped":   {func(_ *World, all []*members.Member) { all[1].Leader = 0 }, false},
		"the judge has just looked": {func(w *World, all []*members.Member) { all[1].Leader = 0; looks(w) }, false},
		"nearly for as long as it is excused": {func(w *World, all []*members.Member) {
			all[1].Leader = 0
			looks(w)
			<-time.After(sight - time.Millisecond)
			looks(w)
		}, false},
		"for as long": {func(w *World, all []*members.Member) {
			all[1].Leader = 0
			looks(w)
			<-time.After(sight)
			looks(w)
		}, true},
		"main-0 was frozen for a second": {func(w *World, all []*members.Member) {
			all[0].Frozen = true
			looks(w)
			<-time.After(time.Second)
			looks(w)
			all[1].Leader, all[0].Frozen = 0, false
		}, false},
		"main-0 was frozen for as long": {func(w *World, all []*members.Member) {
			all[0].Frozen = true
			looks(w)
			<-time.After(sight)
			looks(w)
			all[1].Leader, all[0].Frozen = 0, false
		}, true},
		"and the judge has looked since": {func(w *World, all []*members.Member) {
			all[0].Frozen = true
			looks(w)
			<-time.After(sight)
			looks(w)
			all[1].Leader, all[0].Frozen = 0, false
			looks(w)
		}, true},
		"main-0 was frozen for as long, and all serve again": {func(w *World, all []*members.Member) {
			all[0].Frozen = true
			looks(w)
			<-time.After(sight)
			looks(w)
			all[0].Frozen = false
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, all := threeServing(t)
				test.happens(w, all)
				o := &operator{world: w, name: "op", actor: &loop.Actor{}}
				request := aimed{who: "op/task", asked: w.Now(), Request: apiserver.Request{Verb: "delete", Kind: "Pod", Key: types.NamespacedName{Namespace: Namespace, Name: "main-2"}, Writes: true}}
				for want, says := range map[string]string{
					removesVoter: w.judges[0].changes(o, listChange{id: 3}),
					removesPod:   w.judges[0].removal(o, request),
				} {
					if (says != "") != test.broken || !strings.Contains(want, says) {
						t.Errorf("says %q, and broken is %t: %s", says, test.broken, want)
					}
				}
				if len(w.Broken) > 0 {
					t.Error(w.Broken)
				}
				w.Close()
			})
		})
	}
}
