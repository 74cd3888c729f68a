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

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
		w.runs[m] = &pod{world: w, name: p.Name, uid: types.UID(p.Name), node: w.nodes[i], disk: d, member: m}
		all = append(all, m)
	}
	w.judges[0].members()
	<-time.After(time.Minute)
	w.judges[0].members()
	return w, all
}

// Pods go with their StatefulSet only if the Etcd goes.
func TestPodsThatGoWithTheirStatefulSet(t *testing.T) {
	for name, test := range map[string]struct {
		orphans client.DeleteOption
		first   string
		broken  bool
	}{
		"the StatefulSet":              {client.PropagationPolicy(metav1.DeletePropagationBackground), "StatefulSet", true},
		"the StatefulSet after them":   {client.PropagationPolicy(metav1.DeletePropagationForeground), "StatefulSet", true},
		"the StatefulSet without them": {client.PropagationPolicy(metav1.DeletePropagationOrphan), "StatefulSet", false},
		"the Etcd":                     {client.PropagationPolicy(metav1.DeletePropagationBackground), "Etcd", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.Create("main", v1alpha1.EtcdSpec{}, nil)
				e := w.judges[0].etcd()
				set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "main", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e, v1alpha1.GroupVersion.WithKind("Etcd"))}}}
				set.Spec.Template.Labels = map[string]string{"app": "etcd"}
				w.must(w.writer.Create(t.Context(), set))
				w.must(w.writer.Create(t.Context(), podOf(set, 0, "1")))
				w.remove(map[string]client.Object{"StatefulSet": set, "Etcd": e}[test.first], test.orphans)
				for range 3 {
					w.collect()
				}
				if (len(w.Broken) > 0) != test.broken {
					t.Error(w.Broken)
				}
				w.Close()
			})
		})
	}
}

// An operator may act for as long as sight on what it has seen, from the moment in which a member stops serving: also before the judge, which looks once
// in a while, has seen that. A time without a leader counts.
func TestMembersThatHaveJustStoppedServing(t *testing.T) {
	const removesVoter, removesPod = "op removes main-2, which serves, while main-1 does not", "op removes pod main-2, which leaves 1 of 3 voters"
	looks := func(w *World) { w.judges[0].members() }
	o, twin := &operator{name: "op", actor: &loop.Actor{}}, &operator{}
	// removes has an operator remove the pod of main-1, whose member ends.
	removes := func(w *World, main1 *members.Member, by *operator) {
		w.removed["main-1"] = removed{by, w.Now()}
		main1.Leader = 0
		looks(w)
		<-time.After(2 * time.Second)
		looks(w)
	}
	for name, test := range map[string]struct {
		// happens comes before main-2 is removed.
		happens func(w *World, all []*members.Member)
		broken  bool
	}{
		"main-1 was removed by the operator 2 s ago": {func(w *World, all []*members.Member) { removes(w, all[1], o) }, true},
		"and has not ended yet":                      {func(w *World, _ []*members.Member) { w.removed["main-1"] = removed{o, w.Now()} }, true},
		"and runs again, but does not serve yet": {func(w *World, all []*members.Member) {
			removes(w, all[1], o)
			w.runs[all[1]].uid = "its successor"
			looks(w)
		}, true},
		"and serves again": {func(w *World, all []*members.Member) {
			removes(w, all[1], o)
			w.runs[all[1]].uid, all[1].Leader = "its successor", 1
		}, false},
		"and has served again": {func(w *World, all []*members.Member) {
			removes(w, all[1], o)
			w.runs[all[1]].uid, all[1].Leader = "its successor", 1
			looks(w)
			all[1].Leader = 0
		}, false},
		"main-1 was removed by another operator 2 s ago": {func(w *World, all []*members.Member) { removes(w, all[1], twin) }, false},
		"by another one, as long ago as it is excused": {func(w *World, all []*members.Member) {
			w.removed["main-1"] = removed{twin, w.Now()}
			<-time.After(sight)
			looks(w)
			all[1].Leader = 0
		}, true},
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
