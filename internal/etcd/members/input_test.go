// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// ownLabels are those of the Etcd's own claims.
var ownLabels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"}

// known is a healthy cluster of n members, led by main-0, with changes.
func known(n int, changes ...func(*Known)) Known {
	k := Known{
		Etcd:     &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: int32(n)}},
		Snapshot: &cluster.Snapshot{At: noon, StatefulSet: cluster.StatefulSet{Name: "main", Observed: true}, Cluster: cluster.Cluster{Leader: 1, LeaderKnown: true}},
		Claims:   map[int]*corev1.PersistentVolumeClaim{},
	}
	for i := range n {
		name := fmt.Sprintf("main-%d", i)
		k.List = append(k.List, etcdclient.Member{ID: uint64(i + 1), Name: name})
		k.Initial = append(k.Initial, name)
		k.Claims[i] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Labels: ownLabels}}
		k.Snapshot.Ordinals = append(k.Snapshot.Ordinals, cluster.Ordinal{
			Name: name, Member: name, Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleFollower, MemberID: uint64(i + 1), Answers: true, Serving: true,
			Pod: &cluster.Pod{UID: types.UID(name), Ready: true, EtcdStarted: noon},
		})
	}
	for _, c := range changes {
		c(&k)
	}
	return k
}

// refuses has the agent of the third ordinal keep its member from starting, and say something of its volume.
func refuses(volume cluster.Volume) func(*Known) {
	return func(k *Known) {
		o := &k.Snapshot.Ordinals[2]
		o.Class, o.Answers, o.Serving, o.MemberID, o.Role = v1alpha1.ClassDead, false, false, 0, v1alpha1.RoleUnknown
		o.Pod.Ready, o.Pod.EtcdStarted, o.Pod.Refusal = false, time.Time{}, &cluster.Refusal{Reason: v1alpha1.ReasonDataLost, Volume: volume}
	}
}

func unlist(k *Known) { k.List = append(k.List[:2:2], k.List[3:]...) }

func removed(class v1alpha1.PodClass) func(*Known) {
	return func(k *Known) {
		o := &k.Snapshot.Ordinals[2]
		o.Class, o.Answers, o.Serving, o.Role, o.Read = class, false, false, v1alpha1.RoleUnknown, cluster.Read{Etcd: "etcd", Removed: "3"}
	}
}

// neverRan has the third ordinal have a pod that was let to start, whose etcd ends before it has begun its data.
func neverRan(k *Known) {
	removed(v1alpha1.ClassDead)(k)
	k.Snapshot.Ordinals[2].Read, k.Snapshot.Ordinals[2].Pod.Prepared = cluster.Read{}, true
}

// preparedEarlier has the third member be a learner that has never run, and whose etcd refuses the member list.
func preparedEarlier(k *Known) {
	neverRan(k)
	k.Snapshot.Ordinals[2].Pod.ListChanged, k.Snapshot.Ordinals[2].Pod.EtcdStarted, k.Snapshot.Ordinals[2].MemberID = true, time.Time{}, 0
	k.List[2] = etcdclient.Member{ID: 3, Learner: true, PeerURLs: []string{"http://main-2.main-peer.ns.svc:2380"}}
}

// A learner that was prepared for an earlier list joins from another pod, if that lasts: a peer that lags may have given etcd the list.
func TestALearnerThatWasPreparedForAnEarlierList(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Known)
		want   bool
	}{
		"it has never run":             {func(*Known) {}, true},
		"it has":                       {func(k *Known) { k.List[2].Name = "main-2" }, false},
		"it votes":                     {func(k *Known) { k.List[2].Learner = false }, false},
		"its etcd runs":                {func(k *Known) { k.Snapshot.Ordinals[2].Pod.ListChanged = false }, false},
		"its pod is being deleted":     {func(k *Known) { k.Snapshot.Ordinals[2].Class = v1alpha1.ClassTerminating }, false},
		"its pod is gone":              {func(k *Known) { k.Snapshot.Ordinals[2].Pod = nil }, false},
		"another one answers there":    {func(k *Known) { k.Snapshot.Ordinals[2].Answers, k.Snapshot.Ordinals[2].MemberID = true, 33 }, false},
		"it is beyond the StatefulSet": {func(k *Known) { k.Snapshot.Ordinals = k.Snapshot.Ordinals[:2] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			timers := Timers{}
			for i := range 32 {
				k := known(3, preparedEarlier, c.change)
				k.Snapshot.At = noon.Add(time.Duration(i) * time.Second)
				timers = timers.Next(k)
				stale := k.Input(Request{Goal: membership.Goal{Size: 3}, Timers: timers}).Members[2].Stale
				g.Expect(stale).To(Equal(c.want && i >= 30), "after %d s", i)
			}
		})
	}
}

func (k Known) of(ordinal int) (membership.Member, membership.Ordinal) {
	in := k.Input(Request{Goal: membership.Goal{Size: len(k.Snapshot.Ordinals)}})
	for _, m := range in.Members {
		if m.Owner == membership.Ours && m.Ordinal == ordinal {
			return m, in.Ordinals[ordinal]
		}
	}
	return membership.Member{}, in.Ordinals[ordinal]
}

// What is known of the third of three members.
func TestMember(t *testing.T) {
	healthy := membership.Member{ID: 3, Name: "main-2", Owner: membership.Ours, Ordinal: 2, Serving: true}
	away := func(change func(*membership.Member)) membership.Member {
		m := healthy
		m.Serving = false
		change(&m)
		return m
	}
	with := func(change func(*membership.Member)) membership.Member {
		m := healthy
		change(&m)
		return m
	}
	told := func(generation int64) func(*Known) {
		return func(k *Known) {
			k.Told = member.Members{Generation: generation, Leaving: []string{"main-2"}}
			k.Snapshot.Ordinals[2].Read = cluster.Read{Etcd: "etcd", Generation: 4, Leaving: true}
		}
	}
	joins := func(pod string) func(*Known) {
		return func(k *Known) {
			k.Told = member.Members{Generation: 4, Joining: map[string]string{"main-2": pod}}
		}
	}
	at := membership.Ordinal{Pod: true, Claim: true}
	announced := func(o membership.Ordinal) membership.Ordinal { o.Told = true; return o }
	stores := func(s membership.Store) membership.Ordinal { o := at; o.Store = s; return o }
	for name, c := range map[string]struct {
		change  func(*Known)
		member  membership.Member
		ordinal membership.Ordinal
	}{
		"healthy":                  {func(*Known) {}, healthy, at},
		"leads":                    {func(k *Known) { k.Snapshot.Cluster.Leader = 3 }, with(func(m *membership.Member) { m.Leads = true }), at},
		"a leader of another ID":   {func(k *Known) { k.Snapshot.Cluster.Leader = 9 }, healthy, at},
		"lags":                     {func(k *Known) { k.Snapshot.Ordinals[2].Lag = 7 }, with(func(m *membership.Member) { m.Lag = 7 }), at},
		"terminates":               {func(k *Known) { k.Snapshot.Ordinals[2].Class = v1alpha1.ClassTerminating }, away(func(*membership.Member) {}), membership.Ordinal{Pod: true, Claim: true, Ending: true}},
		"another member answers":   {func(k *Known) { k.Snapshot.Ordinals[2].MemberID = 33 }, away(func(*membership.Member) {}), at},
		"has lost its data":        {refuses(cluster.Volume{Store: cluster.StoreFree, Lost: "3"}), away(func(m *membership.Member) { m.Lost = true }), stores(membership.Free)},
		"an earlier one had":       {refuses(cluster.Volume{Store: cluster.StoreFree, Lost: "2"}), away(func(*membership.Member) {}), stores(membership.Free)},
		"has yet to start":         {refuses(cluster.Volume{Store: cluster.StoreFree}), away(func(*membership.Member) {}), stores(membership.Free)},
		"data of a removed member": {refuses(cluster.Volume{Store: cluster.StoreLeft}), away(func(*membership.Member) {}), stores(membership.Left)},
		"data of another cluster":  {refuses(cluster.Volume{Store: cluster.StoreOther}), away(func(*membership.Member) {}), stores(membership.Other)},
		"not in initial-cluster": {func(k *Known) {
			refuses(cluster.Volume{Store: cluster.StoreFree})(k)
			k.Initial = k.Initial[:2]
		}, away(func(*membership.Member) {}), at},
		"the node may be lost": {func(k *Known) {
			refuses(cluster.Volume{Store: cluster.StoreFree, Lost: "3"})(k)
			k.Snapshot.Ordinals[2].Pod.NodeLost = true
		}, away(func(*membership.Member) {}), at},
		"told, and has read it":                            {told(4), with(func(m *membership.Member) { m.Told, m.Confirmed, m.Read = true, true, true }), at},
		"nothing was told":                                 {func(k *Known) { k.Snapshot.Ordinals[2].Read.Leaving = true }, healthy, at},
		"told, and has read less":                          {told(5), with(func(m *membership.Member) { m.Told = true }), at},
		"its joining was told":                             {joins("main-2"), with(func(m *membership.Member) { m.Silent = true }), announced(at)},
		"its joining was told, and its agent reports":      {func(k *Known) { joins("main-2")(k); k.Snapshot.Ordinals[2].Read.Etcd = "etcd" }, healthy, announced(at)},
		"its joining was told, and its agent has read it":  {func(k *Known) { joins("main-2")(k); k.Snapshot.Ordinals[2].Read.Generation = 4 }, with(func(m *membership.Member) { m.Read = true }), announced(at)},
		"that an earlier pod joins was told":               {joins("earlier"), with(func(m *membership.Member) { m.Silent = true }), at},
		"its joining was told, and the pod goes":           {func(k *Known) { joins("main-2")(k); k.Snapshot.Ordinals[2].Class = v1alpha1.ClassTerminating }, away(func(m *membership.Member) { m.Silent = true }), membership.Ordinal{Pod: true, Claim: true, Ending: true, Told: true}},
		"its joining was told, and it is no longer listed": {func(k *Known) { joins("main-2")(k); k.Initial = k.Initial[:2] }, with(func(m *membership.Member) { m.Silent = true }), at},
		"the claim is being deleted":                       {func(k *Known) { k.Claims[2].DeletionTimestamp = &metav1.Time{Time: noon} }, healthy, membership.Ordinal{Pod: true, Claim: true, Terminating: true}},
		"the claim is temporary": {func(k *Known) {
			k.Claims[2].UID, k.Claims[2].Annotations = "claim", map[string]string{v1alpha1.AnnotationTemporary: "claim"}
		}, healthy, membership.Ordinal{Pod: true, Claim: true, Temporary: true}},
		"the claim was restored from a temporary one": {func(k *Known) {
			k.Claims[2].UID, k.Claims[2].Annotations = "restored", map[string]string{v1alpha1.AnnotationTemporary: "claim"}
		}, healthy, at},
		"there is no claim": {func(k *Known) { delete(k.Claims, 2) }, healthy, membership.Ordinal{Pod: true}},
		"a learner":         {func(k *Known) { k.List[2].Learner = true }, with(func(m *membership.Member) { m.Learner = true }), at},
		"has no name yet": {func(k *Known) {
			k.List[2].Name, k.List[2].PeerURLs = "", []string{"http://main-2.main-peer.ns.svc:2380"}
		}, healthy, at},
		"removed while it runs":                       {func(k *Known) { unlist(k); removed(v1alpha1.ClassDead)(k) }, membership.Member{}, membership.Ordinal{Pod: true, Claim: true, Outdated: membership.Pod}},
		"removed, and one remains":                    {func(k *Known) { removed(v1alpha1.ClassDead)(k); k.List = k.List[:1] }, membership.Member{}, membership.Ordinal{Pod: true, Claim: true, Outdated: membership.Pod}},
		"removed, and another is listed in its place": {func(k *Known) { removed(v1alpha1.ClassDead)(k); k.List[2].ID = 33 }, away(func(m *membership.Member) { m.ID = 33 }), at},
		"removed, and the pod is new":                 {func(k *Known) { unlist(k); removed(v1alpha1.ClassStarting)(k) }, membership.Member{}, at},
		"removed, and its agent looks": {func(k *Known) {
			unlist(k)
			removed(v1alpha1.ClassDead)(k)
			k.Snapshot.Ordinals[2].Pod.Refusal = &cluster.Refusal{}
		}, membership.Member{}, at},
		"removed before it ran":                        {func(k *Known) { unlist(k); neverRan(k) }, membership.Member{}, membership.Ordinal{Pod: true, Claim: true, Outdated: membership.Pod}},
		"removed before it ran, and it may be running": {func(k *Known) { unlist(k); neverRan(k); k.Snapshot.Ordinals[2].Class = v1alpha1.ClassUnready }, membership.Member{}, at},
		"it has yet to look":                           {func(k *Known) { unlist(k); neverRan(k); k.Snapshot.Ordinals[2].Pod.Prepared = false }, membership.Member{}, at},
		"it ends, and is listed":                       {neverRan, away(func(*membership.Member) {}), at},
		"no list":                                      {func(k *Known) { neverRan(k); k.List = nil }, membership.Member{}, at},
		"says that it was removed":                     {removed(v1alpha1.ClassDead), away(func(*membership.Member) {}), at},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m, o := known(3, c.change).of(2)
			g.Expect(m).To(Equal(c.member))
			g.Expect(o).To(Equal(c.ordinal))
		})
	}
}

// Whose a member is follows from its name, and from its peer URL while it has none.
func TestOrdinal(t *testing.T) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	prefixed := etcd.DeepCopy()
	prefixed.Spec.MemberNamePrefix = ptr.To("seed")
	url := func(host string) etcdclient.Member {
		return etcdclient.Member{PeerURLs: []string{"https://" + host + ":2380"}}
	}
	for _, c := range []struct {
		etcd   *v1alpha1.Etcd
		member etcdclient.Member
		want   int
	}{
		{etcd, etcdclient.Member{Name: "main-0"}, 0},
		{etcd, etcdclient.Member{Name: "main-12"}, 12},
		{etcd, etcdclient.Member{Name: "main-01"}, -1},
		{etcd, etcdclient.Member{Name: "main--1"}, -1},
		{etcd, etcdclient.Member{Name: "main--5"}, -1},
		{etcd, etcdclient.Member{Name: "main-x"}, -1},
		{etcd, etcdclient.Member{Name: "0"}, -1},
		{etcd, url("main-0.main-peer.ns.svc"), 0},
		{etcd, etcdclient.Member{Name: "main-100"}, -1},
		{etcd, etcdclient.Member{Name: "domain-0"}, -1},
		{etcd, etcdclient.Member{Name: "main-x-0"}, -1},
		{etcd, etcdclient.Member{Name: "seed-main-0"}, -1},
		{prefixed, etcdclient.Member{Name: "seed-main-0"}, 0},
		{prefixed, etcdclient.Member{Name: "main-0"}, -1},
		{etcd, url("main-2.main-peer.ns.svc"), 2},
		{prefixed, url("main-2.main-peer.ns.svc"), 2},
		{etcd, url("main-2.main-peer.other.svc"), -1},
		{etcd, url("main-2"), -1},
		{etcd, etcdclient.Member{PeerURLs: []string{"%"}}, -1},
		{etcd, etcdclient.Member{}, -1},
	} {
		if got := Ordinal(c.etcd, c.member); got != c.want {
			t.Errorf("%+v of %v: %d", c.member, c.etcd.Spec.MemberNamePrefix, got)
		}
	}
}

// There are as many ordinals as have something, and foreign members have no ordinal.
func TestOrdinals(t *testing.T) {
	g := NewWithT(t)
	k := known(1, func(k *Known) {
		k.Snapshot.Surplus = []string{"main-3"}
		k.Claims[5] = &corev1.PersistentVolumeClaim{}
		k.List = append(k.List, etcdclient.Member{ID: 0xab, Name: "far"}, etcdclient.Member{ID: 9, Name: "main-4"})
	})
	in := k.Input(Request{Goal: membership.Goal{Size: 3}, Pending: "p", Acting: "a", Overridden: []v1alpha1.OverridableGuard{v1alpha1.GuardBackedUp}})
	g.Expect(in.Ordinals).To(HaveLen(6))
	g.Expect(in.Ordinals[3]).To(Equal(membership.Ordinal{Pod: true}))
	g.Expect(in.Ordinals[5]).To(And(HaveField("Claim", true), HaveField("Foreign", ContainSubstring("has neither the labels of this Etcd's claims"))))
	g.Expect(in.Members[1]).To(Equal(membership.Member{ID: 0xab, Name: "far"}))
	g.Expect(in.Members[2]).To(Equal(membership.Member{ID: 9, Name: "main-4", Owner: membership.Ours, Ordinal: 4}))
	g.Expect(in).To(And(HaveField("Pending", "p"), HaveField("Acting", "a"), HaveField("Replicas", 1), HaveField("Observed", true), HaveField("Overridden", []membership.Guard{membership.GuardBackedUp})))
}

// The first member is one like the others, and one of an ordinal beyond the replicas has no pod.
func TestTheFirstAndTheLastMember(t *testing.T) {
	g := NewWithT(t)
	k := known(1, func(k *Known) {
		k.List = append(k.List, etcdclient.Member{ID: 2, Name: "main-1"}, etcdclient.Member{ID: 0xcd})
	})
	g.Expect(k.Input(Request{Goal: membership.Goal{Size: 1}}).Members).To(Equal([]membership.Member{
		{ID: 1, Name: "main-0", Owner: membership.Ours, Serving: true, Leads: true}, {ID: 2, Name: "main-1", Owner: membership.Ours, Ordinal: 1}, {ID: 0xcd, Name: "cd"},
	}))
	for name, c := range map[string]struct {
		change func(*Known)
		goal   int
		want   int
	}{
		"replicas":       {func(*Known) {}, 1, 3},
		"the goal":       {func(*Known) {}, 5, 5},
		"a claim":        {func(k *Known) { k.Claims[5] = &corev1.PersistentVolumeClaim{} }, 1, 6},
		"a member":       {func(k *Known) { k.List = append(k.List, etcdclient.Member{ID: 9, Name: "main-6"}) }, 1, 7},
		"a surplus pod":  {func(k *Known) { k.Snapshot.Surplus = []string{"main-7"} }, 1, 8},
		"a foreign name": {func(k *Known) { k.List = append(k.List, etcdclient.Member{ID: 9, Name: "other-6"}) }, 1, 3},
	} {
		g.Expect(known(3, c.change).Input(Request{Goal: membership.Goal{Size: c.goal}}).Ordinals).To(HaveLen(c.want), name)
	}
}

// Timers last without a gap alone, and begin again with another run of a member.
func TestTimers(t *testing.T) {
	g := NewWithT(t)
	after := func(t Timers, seconds int, changes ...func(*Known)) Timers {
		k := known(3, changes...)
		k.Snapshot.At = noon.Add(time.Duration(seconds) * time.Second)
		return t.Next(k)
	}
	down := func(k *Known) { k.Snapshot.Ordinals[2].Serving = false }
	lags := func(k *Known) { k.Snapshot.Ordinals[2].Lag = membership.MaxLag + 1 }
	restarted := func(k *Known) { k.Snapshot.Ordinals[2].Pod.EtcdStarted = noon.Add(time.Second) }
	timers := Timers{}
	for i := range 7 {
		g.Expect(timers.settled(3)).To(BeFalse())
		g.Expect(timers.steady(3)).To(Equal(i > 2))
		timers = after(timers, i)
	}
	g.Expect(timers.settled(3)).To(BeTrue())
	settled := known(3).Input(Request{Timers: timers}).Members[2]
	g.Expect([]bool{settled.Settled, settled.Steady, settled.Unready}).To(Equal([]bool{true, true, false}))
	g.Expect(after(timers, 7, func(k *Known) { k.Snapshot.Ordinals[2].Lag = membership.MaxLag }).steady(3)).To(BeTrue())
	g.Expect(after(timers, 7, lags).settled(3)).To(BeTrue())
	g.Expect(after(timers, 7, lags).steady(3)).To(BeFalse())
	g.Expect(after(timers, 7, restarted).settled(3)).To(BeFalse())
	g.Expect(after(timers, 20).settled(3)).To(BeFalse(), "a gap")
	g.Expect(after(timers, 2).settled(3)).To(BeFalse(), "a time that goes back")
	g.Expect(after(after(timers, 7, down), 8).settled(3)).To(BeFalse())
	g.Expect(after(timers, 7, func(k *Known) { k.List = nil })).To(Equal(Timers{}), "nothing is known")
	for i := range 31 {
		timers = after(timers, 10+i, down)
		g.Expect(timers.unready(3)).To(Equal(i == 30))
		g.Expect(timers.unready(2)).To(BeFalse())
	}
	g.Expect(after(timers, 41, down, unlist).unready(3)).To(BeFalse(), "it is gone")
}

// A learner that its leader has sent a snapshot serves seven seconds after it has published itself: it was connected all the time. What an
// earlier pod has published says nothing, nor that of a voter.
func TestALearnerIsConnectedBeforeItServes(t *testing.T) {
	learner := func(k *Known) {
		k.List[2].Learner = true
		o := &k.Snapshot.Ordinals[2]
		o.Class, o.Role, o.Answers, o.Serving, o.MemberID = v1alpha1.ClassUnready, v1alpha1.RoleUnknown, false, false, 0
	}
	unnamed := func(k *Known) {
		learner(k)
		k.List[2].Name, k.List[2].PeerURLs = "", []string{"http://main-2.main-peer.ns.svc:2380"}
		k.Snapshot.Ordinals[2].Pod.EtcdStarted = time.Time{}
	}
	for name, c := range map[string]struct {
		first, then func(*Known)
		settled     bool
	}{
		"it publishes itself":        {unnamed, learner, true},
		"it does not":                {unnamed, unnamed, false},
		"it had before":              {learner, learner, false},
		"it had, in an earlier pod":  {unnamed, func(k *Known) { learner(k); k.Snapshot.Ordinals[2].Pod.UID = "another" }, false},
		"its etcd does not run":      {unnamed, func(k *Known) { learner(k); k.Snapshot.Ordinals[2].Pod.EtcdStarted = time.Time{} }, false},
		"it votes, and has failed":   {unnamed, func(k *Known) { learner(k); k.List[2].Learner = false }, false},
		"its pod is gone":            {unnamed, func(k *Known) { learner(k); k.Snapshot.Ordinals[2].Pod = nil }, false},
		"another member answers":     {unnamed, func(k *Known) { learner(k); k.Snapshot.Ordinals[2].Answers, k.Snapshot.Ordinals[2].MemberID = true, 9 }, false},
		"it serves after it did not": {unnamed, func(k *Known) { k.List[2].Learner = true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			timers := Timers{}
			for i := range 8 {
				k := known(3, c.then)
				if i == 0 {
					k = known(3, c.first)
				}
				k.Snapshot.At = noon.Add(time.Duration(i) * time.Second)
				g.Expect(timers.settled(3)).To(BeFalse(), "after %ds", i-1)
				timers = timers.Next(k)
			}
			g.Expect(timers.settled(3)).To(Equal(c.settled))
			g.Expect(timers.steady(3)).To(Equal(name == "it serves after it did not"))
		})
	}
	g, timers := NewWithT(t), Timers{}
	for i, change := range []func(*Known){unnamed, learner, learner, learner, func(k *Known) { k.List[2].Learner = true }, func(k *Known) { k.List[2].Learner = true }, func(*Known) {}, func(*Known) {}} {
		k := known(3, change)
		k.Snapshot.At = noon.Add(time.Duration(i) * time.Second)
		timers = timers.Next(k)
	}
	g.Expect(timers.settled(3)).To(BeTrue(), "it serves, and gets its vote: the connection is the same")
}

// A learner that served and was cut off, or was restarted before it served, is as new when it comes back: its vote would depend on a connection
// of which it is unknown how old it is.
func TestALearnerIsNotConnectedWhileItIsCutOff(t *testing.T) {
	learner := func(serving bool, started time.Time) func(*Known) {
		return func(k *Known) {
			k.List[2].Learner = true
			o := &k.Snapshot.Ordinals[2]
			o.Pod.EtcdStarted = started
			if !serving {
				o.Class, o.Role, o.Answers, o.Serving, o.MemberID = v1alpha1.ClassUnready, v1alpha1.RoleUnknown, false, false, 0
			}
		}
	}
	unnamed := func(k *Known) {
		learner(false, time.Time{})(k)
		k.List[2].Name, k.List[2].PeerURLs = "", []string{"http://main-2.main-peer.ns.svc:2380"}
	}
	started, again := noon.Add(-time.Minute), noon.Add(10*time.Second)
	for name, c := range map[string]struct {
		first, then, last func(*Known)
		settled           bool // 20 s later, when it serves
	}{
		"it has not served yet":      {learner(false, started), learner(false, started), learner(true, started), true},
		"it served, and was cut off": {learner(true, started), learner(false, started), learner(true, started), false},
		"it was restarted":           {learner(false, started), learner(false, again), learner(true, again), false},
		"it is being restarted":      {learner(false, started), learner(false, time.Time{}), learner(true, again), false},
	} {
		t.Run(name, func(t *testing.T) {
			g, timers := NewWithT(t), Timers{}
			look := func(second int, change func(*Known)) {
				k := known(3, change)
				k.Snapshot.At = noon.Add(time.Duration(second) * time.Second)
				timers = timers.Next(k)
			}
			look(0, unnamed)
			for i := range 10 {
				look(1+i, c.first)
			}
			for i := range 20 {
				look(11+i, c.then)
				g.Expect(timers.settled(3)).To(Equal(c.settled), "after %d s", i)
			}
			look(31, c.last)
			g.Expect(timers.settled(3)).To(Equal(c.settled))
			for i := range 7 {
				look(32+i, c.last)
			}
			g.Expect(timers.settled(3)).To(BeTrue(), "it has served for long enough")
		})
	}
}

// Clients reach a voter once its pod has been ready for a second. A probe that fails is waited for five seconds, in which it votes.
func TestReached(t *testing.T) {
	g := NewWithT(t)
	ready := func(k *Known) { k.Snapshot.Ordinals[2].Pod.AllContainersReady = true }
	learner := func(k *Known) { k.List[2].Learner = true }
	down := func(k *Known) { k.Snapshot.Ordinals[2].Serving = false }
	unready := func(*Known) {}
	for name, c := range map[string]struct {
		looks []func(*Known)
		want  bool
	}{
		"ready just now":               {[]func(*Known){unready, ready}, false},
		"ready for a second":           {[]func(*Known){unready, ready, ready}, true},
		"as a learner":                 {[]func(*Known){learner, learner, func(k *Known) { learner(k); ready(k) }, func(k *Known) { learner(k); ready(k) }, unready}, false},
		"a probe that fails":           {[]func(*Known){unready, unready, unready, unready, unready}, false},
		"for five seconds":             {[]func(*Known){unready, unready, unready, unready, unready, unready}, true},
		"of which it did not serve":    {[]func(*Known){unready, unready, down, unready, unready, unready}, false},
		"of which it was a learner":    {[]func(*Known){learner, learner, learner, unready, unready, unready}, false},
		"ready, and it does not serve": {[]func(*Known){ready, ready, func(k *Known) { ready(k); down(k) }}, false},
	} {
		timers := Timers{}
		for i, look := range c.looks {
			k := known(3, look)
			k.Snapshot.At = noon.Add(time.Duration(i) * time.Second)
			timers = timers.Next(k)
		}
		g.Expect(known(3).Input(Request{Timers: timers}).Members[2].Reached).To(Equal(c.want), name)
	}
}

func TestGoalAndActing(t *testing.T) {
	g := NewWithT(t)
	k := known(3)
	g.Expect(Goal(k.Etcd, 0, false)).To(Equal(membership.Goal{Size: 3, KeepClaims: true}))
	g.Expect(Goal(k.Etcd, 1, true)).To(Equal(membership.Goal{Size: 1, KeepClaims: true, Single: true}))
	for value, want := range map[string]membership.Goal{
		"true": {Size: 1, KeepClaims: true, Single: true}, "": {Size: 1, KeepClaims: true, Refusal: `""`}, "false": {Size: 1, KeepClaims: true, Refusal: `"false"`}, "yes\n": {Size: 1, KeepClaims: true, Refusal: `"yes "`},
	} {
		metav1.SetMetaDataAnnotation(&k.Etcd.ObjectMeta, v1alpha1.AnnotationAllowSingleMember, value)
		g.Expect(Goal(k.Etcd, 1, false)).To(Equal(want))
	}
	metav1.SetMetaDataAnnotation(&k.Etcd.ObjectMeta, v1alpha1.AnnotationAllowSingleMember, "true")
	k.Etcd.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
	g.Expect(Goal(k.Etcd, 0, false)).To(Equal(membership.Goal{Size: 3, Single: true}))

	recovery := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumLossRecovery}, Status: v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress}}
	rolling := []v1alpha1.EtcdOperatorTask{{
		ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout},
		Status: v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress},
	}}
	for says, change := range map[string]func(*Known) []v1alpha1.EtcdOperatorTask{
		"":                  func(*Known) []v1alpha1.EtcdOperatorTask { return nil },
		"as a new one":      func(*Known) []v1alpha1.EtcdOperatorTask { return []v1alpha1.EtcdOperatorTask{recovery} },
		"keeps all members": func(k *Known) []v1alpha1.EtcdOperatorTask { k.Snapshot.StatefulSet.HeldAtZeroBy = "x"; return nil },
		"hibernates":        func(k *Known) []v1alpha1.EtcdOperatorTask { k.Etcd.Spec.Replicas = 0; return nil },
		"wakes up": func(k *Known) []v1alpha1.EtcdOperatorTask {
			k.Etcd.Status.Hibernation = &v1alpha1.Hibernation{}
			return nil
		},
		"is suspended": func(k *Known) []v1alpha1.EtcdOperatorTask {
			metav1.SetMetaDataAnnotation(&k.Etcd.ObjectMeta, v1alpha1.AnnotationSuspendSpecReconcile, "")
			k.Etcd.Spec.Replicas = 5
			return nil
		},
		"rollout r is in progress": func(k *Known) []v1alpha1.EtcdOperatorTask {
			k.Etcd.Spec.Replicas, k.Snapshot.Cluster.Voters = 1, []cluster.Voter{{Serving: true}, {Serving: true, Ordinal: 1}, {Serving: true, Ordinal: 2}}
			return rolling
		},
		"adopted or handed": func(k *Known) []v1alpha1.EtcdOperatorTask {
			k.Etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionAdopted, Status: metav1.ConditionFalse})
			return nil
		},
		"managed by etcd-druid": func(k *Known) []v1alpha1.EtcdOperatorTask {
			k.Snapshot.StatefulSet.Foreign = "it is managed by etcd-druid: adopt it"
			return nil
		},
		"the pods are etcd-druid's: convert the pods (kubectl -n ns annotate etcd main druid.gardener.cloud/operation=reconcile)": func(k *Known) []v1alpha1.EtcdOperatorTask {
			k.Snapshot.StatefulSet.OfDruid = true
			return nil
		},
		"has 3 replicas while spec.replicas is 5: set spec.replicas to 3, and convert the pods (kubectl": func(k *Known) []v1alpha1.EtcdOperatorTask {
			k.Snapshot.StatefulSet.OfDruid, k.Etcd.Spec.Replicas = true, 5
			return nil
		},
		"nothing has been applied since the adoption: convert the pods (kubectl": func(k *Known) []v1alpha1.EtcdOperatorTask {
			k.Etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionAdopted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConversionPending})
			return nil
		},
		"serve as another": func(k *Known) []v1alpha1.EtcdOperatorTask {
			k.Etcd.Status.LastErrors = []v1alpha1.LastError{{Code: v1alpha1.ErrClusterID}}
			return nil
		},
	} {
		k := known(3)
		tasks := change(&k)
		got := Acting(k.Etcd, k.Snapshot, tasks)
		g.Expect(got).To(ContainSubstring(says))
		g.Expect(got == "").To(Equal(says == ""), got)
	}
}

// One member is a cluster, none is not, and a recovery is over once every replica votes.
func TestNothingElseActs(t *testing.T) {
	g := NewWithT(t)
	k := known(1)
	g.Expect(Acting(k.Etcd, k.Snapshot, nil)).To(BeEmpty())
	k = known(3)
	k.Etcd.Status.Recovery, k.Snapshot.Cluster.Voters = &v1alpha1.ClusterRecovery{}, make([]cluster.Voter, 3)
	g.Expect(Acting(k.Etcd, k.Snapshot, nil)).To(BeEmpty())
	k.Snapshot.Ordinals = nil
	g.Expect(Acting(k.Etcd, k.Snapshot, nil)).To(ContainSubstring("hibernates"))
}

// A second member that stands in is not one that a recovery waits for, and leaves also while the spec is suspended.
func TestASecondMemberStandsInBesideOthers(t *testing.T) {
	k := known(2)
	k.Etcd.Spec.Replicas, k.Etcd.Status.Recovery, k.Snapshot.Cluster.Voters = 1, &v1alpha1.ClusterRecovery{}, []cluster.Voter{{Serving: true}}
	metav1.SetMetaDataAnnotation(&k.Etcd.ObjectMeta, v1alpha1.AnnotationSuspendSpecReconcile, "")
	g := NewWithT(t)
	g.Expect(Acting(k.Etcd, k.Snapshot, nil)).NotTo(BeEmpty())
	k.Etcd.Spec.SurgePolicy = v1alpha1.SurgeSingleMember
	g.Expect(Acting(k.Etcd, k.Snapshot, nil)).To(BeEmpty())
	g.Expect(k.Input(Request{}).Acting).To(BeEmpty())
}

// A recovered cluster that is to have fewer members than replicas does not wait for those that are to leave, which may have no volume and never
// join: the StatefulSet has their replicas until a change of members, which waits for nothing else.
func TestMembersThatAreToLeaveNeedNotJoin(t *testing.T) {
	for name, c := range map[string]struct {
		replicas, wanted, voters int
		removed                  []int
		joins                    bool
	}{
		"one of three, to one":                       {3, 1, 1, nil, false},
		"one of three, and three are wanted":         {3, 3, 1, nil, true},
		"three of five, to three":                    {5, 3, 3, nil, false},
		"two of five, to three":                      {5, 3, 2, nil, true},
		"two of five, and one that leaves, to three": {5, 3, 2, []int{4}, true},
		"two of five, and one that stays, to three":  {5, 3, 2, []int{2}, false},
		"three of four while volumes move":           {4, 3, 3, nil, false},
		"three of three, to five":                    {3, 5, 3, nil, false},
		"two of three, to five":                      {3, 5, 2, nil, true},
	} {
		k := known(c.replicas)
		k.Etcd.Spec.Replicas, k.Etcd.Status.Recovery, k.List = int32(c.wanted), &v1alpha1.ClusterRecovery{}, k.List[:c.voters]
		for i := range c.voters {
			k.Snapshot.Cluster.Voters = append(k.Snapshot.Cluster.Voters, cluster.Voter{ID: uint64(i + 1), Ordinal: i})
		}
		for _, i := range c.removed {
			o := &k.Snapshot.Ordinals[i]
			o.Class, o.Answers, o.Serving, o.Read = v1alpha1.ClassDead, false, false, cluster.Read{Etcd: "etcd", Removed: "ff"}
		}
		NewWithT(t).Expect(k.Input(Request{}).Acting != "").To(Equal(c.joins), name)
	}
}

// The members of a recovered cluster add themselves, until the operator has told them how members change: then they wait for it, and it does
// not wait for them. Its status names the recovery for as long as the task exists, however the cluster has changed since.
func TestMembersOfARecoveredClusterJoin(t *testing.T) {
	g := NewWithT(t)
	k := known(4)
	acting := func() string { return k.Input(Request{}).Acting }
	for i := range 3 {
		k.Snapshot.Cluster.Voters = append(k.Snapshot.Cluster.Voters, cluster.Voter{ID: uint64(i + 1), Ordinal: i})
	}
	g.Expect(acting()).To(BeEmpty(), "it was not recovered")
	k.Etcd.Status.Recovery = &v1alpha1.ClusterRecovery{}
	g.Expect(acting()).To(ContainSubstring("its members join"))
	k.Announced = true
	g.Expect(acting()).To(BeEmpty(), "main-3 has left, and its pod goes; or it waits to be added")
	k.Announced = false
	o := &k.Snapshot.Ordinals[3]
	o.Class, o.Answers, o.Serving, o.Read, k.List = v1alpha1.ClassDead, false, false, cluster.Read{Etcd: "etcd", Removed: "4"}, k.List[:3]
	g.Expect(acting()).To(BeEmpty(), "main-3 has joined and was removed: only another pod of it can join")
	o.Read, k.List = cluster.Read{}, append(k.List, etcdclient.Member{ID: 4, Learner: true})
	g.Expect(acting()).To(ContainSubstring("its members join"), "main-3 joins")
	o.Pod.ListChanged = true
	g.Expect(acting()).To(BeEmpty(), "main-3 was prepared for an earlier list: only another pod of it can join")
	k.Snapshot.Cluster.Voters = k.Snapshot.Cluster.Voters[:2]
	g.Expect(acting()).To(ContainSubstring("its members join"), "main-2 is still to join")
}

// A member that has lost its data is replaced also while the spec is suspended.
func TestASuspendedSpecKeepsNoMemberAway(t *testing.T) {
	k := known(3)
	metav1.SetMetaDataAnnotation(&k.Etcd.ObjectMeta, v1alpha1.AnnotationSuspendSpecReconcile, "")
	NewWithT(t).Expect(Acting(k.Etcd, k.Snapshot, nil)).To(BeEmpty())
}

// Beside a rollout, whose next deletion may be on its way, no voter that serves leaves an odd number. Everything else goes on: the
// rollout may wait for it.
func TestBesideARollout(t *testing.T) {
	rolling := []v1alpha1.EtcdOperatorTask{{
		Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout},
		Status: v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress, Rollout: &v1alpha1.RolloutStatus{Pods: []v1alpha1.RolloutPod{
			{UID: "main-0", LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateCompleted}},
			{UID: "removed", LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateInProgress}},
		}}},
	}}
	// Three voters have four pods, and the one without a vote cannot go first.
	leftBefore := func(s *cluster.Snapshot) {
		s.Ordinals = append(s.Ordinals, cluster.Ordinal{Pod: &cluster.Pod{UID: "main-3"}})
		s.Cluster.Voters[1].Ordinal, s.Cluster.Voters[2].Ordinal = 2, 3
	}
	for name, c := range map[string]struct {
		voters   int
		replicas int32
		change   func(*cluster.Snapshot)
		waits    bool
	}{
		"shrinks from three":          {3, 1, nil, true},
		"shrinks from five":           {5, 3, nil, true},
		"shrinks from an even number": {4, 3, nil, false},
		"grows":                       {3, 5, nil, false},
		"stays":                       {3, 3, nil, false},
		"a member is away":            {3, 1, func(s *cluster.Snapshot) { s.Cluster.Voters[2].Serving = false }, false},
		"a pod of a member that left": {3, 1, func(s *cluster.Snapshot) { s.Ordinals = append(s.Ordinals, cluster.Ordinal{}) }, false},
		"a pod before the last one is that of a member that left": {3, 1, leftBefore, false},
		"it has left, and a removal is on its way": {3, 1, func(s *cluster.Snapshot) {
			leftBefore(s)
			s.Ordinals[2].Pod.UID = "removed"
		}, true},
		"it has left, and is what the rollout removes": {3, 1, func(s *cluster.Snapshot) {
			leftBefore(s)
			s.Ordinals[1].Pod.UID = "removed"
		}, false},
		"it has left, and a voter of a source has no pod": {3, 1, func(s *cluster.Snapshot) {
			leftBefore(s)
			s.Cluster.Voters[0].Ordinal = -1
		}, false},
	} {
		k := known(c.voters)
		k.Etcd.Spec.Replicas = c.replicas
		for i := range c.voters {
			k.Snapshot.Cluster.Voters = append(k.Snapshot.Cluster.Voters, cluster.Voter{ID: uint64(i + 1), Ordinal: i, Serving: true})
		}
		if c.change != nil {
			c.change(k.Snapshot)
		}
		if got := Acting(k.Etcd, k.Snapshot, rolling); (got != "") != c.waits {
			t.Errorf("%s: %q", name, got)
		}
		NewWithT(t).Expect(Acting(k.Etcd, k.Snapshot, nil)).To(BeEmpty())
	}
	k := known(3)
	for i := range 3 {
		k.Snapshot.Cluster.Voters = append(k.Snapshot.Cluster.Voters, cluster.Voter{ID: uint64(i + 1), Ordinal: i, Serving: true})
	}
	leftBefore(k.Snapshot)
	k.Etcd.Spec.Replicas, rolling[0].Spec.OverrideGuards = 1, []v1alpha1.OverridableGuard{v1alpha1.OverridableGuard(v1alpha1.GuardOthersParticipating)}
	NewWithT(t).Expect(Acting(k.Etcd, k.Snapshot, rolling)).NotTo(BeEmpty(), "the rollout does not wait for the pod")
	rolling[0].Status.Rollout.UpdatedReplicas = 4
	NewWithT(t).Expect(Acting(k.Etcd, k.Snapshot, rolling)).To(BeEmpty(), "all pods are updated, and it can only end with those that serve")
	k.Snapshot.Ordinals[2].Pod.UID = "removed"
	NewWithT(t).Expect(Acting(k.Etcd, k.Snapshot, rolling)).NotTo(BeEmpty(), "a removal was requested")
}

// The pod that a rollout needs to be replaced is outdated, and not the one after it.
func TestRelieve(t *testing.T) {
	g := NewWithT(t)
	k := known(2)
	for _, c := range []struct {
		relieve types.UID
		want    []membership.Outdated
	}{
		{"", []membership.Outdated{membership.Nothing, membership.Nothing}},
		{"main-0", []membership.Outdated{membership.Pod, membership.Nothing}},
		{"the pod before", []membership.Outdated{membership.Nothing, membership.Nothing}},
	} {
		in := k.Input(Request{Goal: membership.Goal{Size: 1}, Relieve: c.relieve})
		g.Expect([]membership.Outdated{in.Ordinals[0].Outdated, in.Ordinals[1].Outdated}).To(Equal(c.want), string(c.relieve))
	}
}

// The only member is replaced while its node is cordoned, if that is asked for and its volume can go elsewhere.
func TestDrains(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Known)
		want   membership.Outdated
	}{
		"the node is cordoned": {func(*Known) {}, membership.Pod},
		"the node takes pods":  {func(k *Known) { k.Snapshot.Ordinals[0].Pod.Node.Cordoned = false }, membership.Nothing},
		"surges for rollouts":  {func(k *Known) { k.Etcd.Spec.SurgePolicy = v1alpha1.SurgeSingleMember }, membership.Nothing},
		"its volume stays":     {func(k *Known) { k.Snapshot.Ordinals[0].Pod.VolumeTrouble = "its volume can only be used here" }, membership.Nothing},
		"the spec is suspended": {func(k *Known) {
			metav1.SetMetaDataAnnotation(&k.Etcd.ObjectMeta, v1alpha1.AnnotationSuspendSpecReconcile, "")
		}, membership.Nothing},
		"there is no pod": {func(k *Known) {
			k.Snapshot.Ordinals[0] = cluster.Ordinal{Name: "main-0", Member: "main-0", Class: v1alpha1.ClassMissing}
		}, membership.Nothing},
		"three are asked for": {func(k *Known) { k.Etcd.Spec.Replicas = 3 }, membership.Nothing},
	} {
		k := known(2)
		k.Etcd.Spec.Replicas, k.Etcd.Spec.SurgePolicy = 1, v1alpha1.SurgeSingleMemberAndDrains
		for i := range k.Snapshot.Ordinals {
			k.Snapshot.Ordinals[i].Pod.Node = cluster.Node{Name: "node", Cordoned: true}
		}
		c.change(&k)
		in := k.Input(Request{Goal: membership.Goal{Size: 1}})
		if got := in.Ordinals[0].Outdated; got != c.want || in.Ordinals[1].Outdated != membership.Nothing {
			t.Errorf("%s: %v and %v", name, got, in.Ordinals[1].Outdated)
		}
	}
}

// A volume moves once the claim template is of the class that the spec asks for, and the claim of another. It goes while its member
// is listed to be replaced; one that is not listed keeps its volume unless it was told to leave, and its agent has looked since then.
func TestMoves(t *testing.T) {
	moving := func(k *Known) {
		k.Etcd.Spec.StorageClass, k.Class = ptr.To("fast"), "fast"
		k.Etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionVolumesMoved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonVolumesMoving})
	}
	told := func(k *Known) { k.Told = member.Members{Generation: 4, Leaving: []string{"main-2"}} }
	fast := func(k *Known) { k.Claims[2].Spec.StorageClassName = ptr.To("fast") }
	for name, c := range map[string]struct {
		change func(*Known)
		want   membership.Outdated
	}{
		"another class":                  {func(*Known) {}, membership.Volume},
		"the class":                      {fast, membership.Nothing},
		"the template has yet to follow": {func(k *Known) { k.Class = "slow" }, membership.Nothing},
		"the class, and too small":       {func(k *Known) { fast(k); k.Capacity = resource.MustParse("16Gi") }, membership.Volume},
		"smaller than the template":      {func(k *Known) { fast(k); k.Capacity = resource.MustParse("17Gi") }, membership.Volume},
		"which has yet to follow":        {func(k *Known) { fast(k); k.Capacity = resource.MustParse("15Gi") }, membership.Nothing},
		"large enough": {func(k *Known) {
			fast(k)
			k.Capacity = resource.MustParse("16Gi")
			k.Claims[2].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Gi")}
		}, membership.Nothing},
		"too small, of the default class": {func(k *Known) {
			k.Etcd.Spec.StorageClass, k.Class, k.Capacity = nil, "", resource.MustParse("16Gi")
			k.Claims[2].Spec.StorageClassName = ptr.To("standard")
		}, membership.Volume},
		"the default class": {func(k *Known) {
			k.Etcd.Spec.StorageClass, k.Class = nil, ""
			k.Claims[2].Spec.StorageClassName = ptr.To("standard")
		}, membership.Nothing},
		"the class is set back": {func(k *Known) { k.Etcd.Spec.StorageClass = ptr.To("slow") }, membership.Nothing},
		"nothing is to move":    {func(k *Known) { k.Etcd.Status.Conditions = nil }, membership.Nothing},
		"a claim is foreign": {func(k *Known) {
			k.Etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionVolumesMoved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonClaimNotOwned})
		}, membership.Nothing},
		"the claim is foreign": {func(k *Known) { k.Claims[2].Labels = nil }, membership.Nothing},
		"there is no claim":    {func(k *Known) { delete(k.Claims, 2) }, membership.Nothing},
		"the spec is suspended": {func(k *Known) {
			metav1.SetMetaDataAnnotation(&k.Etcd.ObjectMeta, v1alpha1.AnnotationSuspendSpecReconcile, "")
		}, membership.Nothing},
		"beyond the goal":                           {func(k *Known) { k.Etcd.Spec.Replicas = 2 }, membership.Nothing},
		"a learner":                                 {func(k *Known) { k.List[2].Learner = true }, membership.Nothing},
		"a rollout needs relief":                    {func(k *Known) { k.Snapshot.Ordinals[2].Pod.UID = "relieve" }, membership.Volume},
		"has left, and its agent says so":           {func(k *Known) { told(k); unlist(k); removed(v1alpha1.ClassDead)(k) }, membership.Volume},
		"has left, and its agent has yet to say so": {func(k *Known) { told(k); unlist(k) }, membership.Nothing},
		"has left before it ran":                    {func(k *Known) { told(k); unlist(k); neverRan(k) }, membership.Pod},
		"has left, and waits in another pod":        {func(k *Known) { told(k); unlist(k); refuses(cluster.Volume{Store: cluster.StoreLeft})(k) }, membership.Volume},
		"has left, and its volume is free":          {func(k *Known) { told(k); unlist(k); refuses(cluster.Volume{Store: cluster.StoreFree})(k) }, membership.Volume},
		"has left, and there is other data":         {func(k *Known) { told(k); unlist(k); refuses(cluster.Volume{Store: cluster.StoreOther})(k) }, membership.Nothing},
		"has no volume yet":                         {func(k *Known) { unlist(k); k.Claims[2].Status.Phase = corev1.ClaimPending }, membership.Volume},
		"has a volume that is not bound yet": {func(k *Known) {
			unlist(k)
			k.Claims[2].Status.Phase, k.Claims[2].Spec.VolumeName = corev1.ClaimPending, "volume"
		}, membership.Nothing},
		"someone removed it":               {func(k *Known) { unlist(k); removed(v1alpha1.ClassDead)(k) }, membership.Pod},
		"someone removed it, and it waits": {func(k *Known) { unlist(k); refuses(cluster.Volume{Store: cluster.StoreLeft})(k) }, membership.Nothing},
	} {
		t.Run(name, func(t *testing.T) {
			k := known(3, moving, c.change)
			in := k.Input(Request{Goal: membership.Goal{Size: int(k.Etcd.Spec.Replicas)}, Relieve: "relieve"})
			if got := in.Ordinals[2].Outdated; got != c.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// A claim goes with its ordinal only if no Restore keeps data there, and if a task has removed its member and scaled its pod away: what another
// one holds is not known. One that was made for a further member is known.
func TestClaimsThatAreKept(t *testing.T) {
	made := func(at time.Time) func(*Known) {
		return func(k *Known) {
			k.Claims[3] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "claim", Labels: ownLabels, CreationTimestamp: metav1.NewTime(at)}}
		}
	}
	temporary := func(k *Known) { k.Claims[3].Annotations = map[string]string{v1alpha1.AnnotationTemporary: "claim"} }
	named := func(k *Known) { k.Claims[3].Name = "main-main-3" }
	restore := func(ended *metav1.Time) []v1alpha1.EtcdOperatorTask {
		t := v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: "restore"}, Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.Restore}}
		t.Status.Recovery, t.Status.CompletedAt = &v1alpha1.RecoveryStatus{Source: v1alpha1.RecoverFromTarget}, ended
		return []v1alpha1.EtcdOperatorTask{{}, t}
	}
	ended := &metav1.Time{Time: noon}
	took := func(created time.Time, steps ...v1alpha1.MembershipStep) []v1alpha1.EtcdOperatorTask {
		t := v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
		t.Status.Membership = &v1alpha1.MembershipStatus{Steps: steps}
		return []v1alpha1.EtcdOperatorTask{{}, t}
	}
	scaled := func(pod string, created time.Time) []v1alpha1.EtcdOperatorTask {
		return took(created, v1alpha1.MembershipStep{Action: "RemoveMember", Pod: "main-3"}, v1alpha1.MembershipStep{Action: "ScaleDown", Pod: pod})
	}
	left := scaled("main-3", noon)
	away := v1alpha1.MembershipStep{Action: "ScaleDown", Pod: "main-3"}
	for name, c := range map[string]struct {
		known   Known
		request Request
		want    bool
	}{
		"its pod was scaled away":            {known(3, made(noon)), Request{Tasks: left}, false},
		"another's pod was":                  {known(3, made(noon)), Request{Tasks: scaled("main-4", noon)}, true},
		"someone had scaled its pod up":      {known(3, made(noon)), Request{Tasks: took(noon, away)}, true},
		"another's member was removed":       {known(3, made(noon)), Request{Tasks: took(noon, v1alpha1.MembershipStep{Action: "RemoveMember", Pod: "main-2"}, away)}, true},
		"removed by the task before":         {known(3, made(noon)), Request{Tasks: append(took(noon, v1alpha1.MembershipStep{Action: "RemoveMember", Pod: "main-3"}), took(noon, away)...)}, false},
		"made since its pod was":             {known(3, made(noon)), Request{Tasks: scaled("main-3", noon.Add(-1e9))}, true},
		"no agent has looked at it":          {known(3, made(noon)), Request{}, true},
		"made for a further member":          {known(3, made(noon), temporary), Request{}, false},
		"made for the task, and not marked":  {known(3, made(noon), named), Request{NewClaim: "main-main-3"}, false},
		"another one was made for the task":  {known(3, made(noon), named), Request{NewClaim: "main-main-4"}, true},
		"foreign, under the name of one":     {known(3, made(noon), named, func(k *Known) { k.Claims[3].Labels = nil }), Request{NewClaim: "main-main-3"}, true},
		"foreign, and marked":                {known(3, made(noon), temporary, func(k *Known) { k.Claims[3].Labels = nil }), Request{}, true},
		"there is none":                      {known(3), Request{}, false},
		"it has a pod":                       {known(4, made(noon)), Request{}, false},
		"a Restore keeps data there":         {known(3, made(noon.Add(-1e9))), Request{Tasks: append(restore(ended), left...)}, true},
		"made since the Restore":             {known(3, made(noon)), Request{Tasks: append(restore(ended), left...)}, false},
		"a Restore runs":                     {known(3, made(noon)), Request{Tasks: append(restore(nil), left...)}, true},
		"for a further member, at a Restore": {known(3, made(noon.Add(-1e9)), temporary), Request{Tasks: restore(ended)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c.request.Goal.Size = 3
			in := c.known.Input(c.request)
			NewWithT(t).Expect(len(in.Ordinals) > 3 && in.Ordinals[3].Kept).To(Equal(c.want))
		})
	}
}

// A volume does not move on which a Restore keeps data.
func TestKeptDataDoesNotMove(t *testing.T) {
	g := NewWithT(t)
	moves := func(k *Known) {
		k.Class = "fast"
		k.Etcd.Spec.StorageClass = &k.Class
		k.Etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionVolumesMoved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonVolumesMoving})
	}
	t1 := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.Restore}, ObjectMeta: metav1.ObjectMeta{Name: "restore"}}
	g.Expect(known(3, moves).Input(Request{Goal: membership.Goal{Size: 3}, Tasks: []v1alpha1.EtcdOperatorTask{t1}}).Ordinals).To(HaveEach(HaveField("Outdated", membership.Volume)))
	t1.Status.Recovery = &v1alpha1.RecoveryStatus{Source: v1alpha1.RecoverFromTarget}
	g.Expect(known(3, moves).Input(Request{Goal: membership.Goal{Size: 3}, Tasks: []v1alpha1.EtcdOperatorTask{t1}}).Ordinals).To(HaveEach(HaveField("Outdated", membership.Nothing)))
}

// Further members would look for the others where these are only after a rollout.
func TestMembersThatAreReachedElsewhere(t *testing.T) {
	g := NewWithT(t)
	k := known(1)
	etcd, pod := k.Etcd, k.Snapshot.Ordinals[0].Pod
	readdressed := func(tasks ...v1alpha1.EtcdOperatorTask) bool { return k.Input(Request{Tasks: tasks}).Readdressed }
	g.Expect(readdressed()).To(BeFalse(), "it has no address yet")
	pod.Endpoint = "http://10.0.0.1:2379"
	g.Expect(readdressed()).To(BeFalse())
	etcd.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{}
	g.Expect(readdressed()).To(BeTrue(), "TLS for clients")
	k.Snapshot.Ordinals[0].MemberID = 0
	g.Expect(readdressed()).To(BeFalse(), "it is no member")
	k.Snapshot.Ordinals[0].MemberID = 1
	pod.Endpoint = "https://10.0.0.1:2379"
	g.Expect(readdressed()).To(BeFalse(), "after the rollout")
	etcd.Spec.Etcd.ClientPort = ptr.To[int32](1)
	g.Expect(readdressed()).To(BeTrue(), "the port")
	etcd.Spec.Etcd.ClientPort, etcd.Spec.Etcd.PeerURLTLS = nil, &v1alpha1.PeerURLTLS{}
	g.Expect(readdressed()).To(BeTrue(), "TLS for peers")

	further := *pod
	further.PeerTLS = v1alpha1.TLSPrepared
	k.Snapshot.Ordinals = append(k.Snapshot.Ordinals, cluster.Ordinal{MemberID: 2, Pod: &further})
	g.Expect(readdressed()).To(BeFalse(), "the other one is found")
	k.Snapshot.Ordinals = k.Snapshot.Ordinals[:1]
	recreation := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.RecreateRollout}}
	g.Expect(readdressed(recreation)).To(BeTrue(), "it has not begun")
	recreation.Status.State = v1alpha1.TaskStateInProgress
	g.Expect(readdressed(recreation)).To(BeFalse(), "it waits for the size, and nothing is rolled out before it")
	pod.PeerTLS = v1alpha1.TLSPrepared
	g.Expect(readdressed()).To(BeFalse(), "each can connect to a peer with TLS")
}
