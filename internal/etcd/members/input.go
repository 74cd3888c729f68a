// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package members reads what package membership decides on: for the task that carries a change of members out, for the controller that
// creates the task, and for the plugin.
package members

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Known is what was read about the members of an Etcd at one moment.
type Known struct {
	Etcd *v1alpha1.Etcd
	// Snapshot with what agents have read (cluster.Read).
	Snapshot *cluster.Snapshot
	// List is the member list by a linearizable read; nil if no member returned one, or the Snapshot has none.
	List []etcdclient.Member
	// Claims under the names of members, by ordinal.
	Claims map[int]*corev1.PersistentVolumeClaim
	// Told is the announcement in the ConfigMap about members that leave. If it is for the cluster before a recovery, it is void, and Told
	// only has its generation. Announced is false then, and if there is none.
	Told      member.Members
	Announced bool
	// Initial are the names of the members that the ConfigMap lists. A member that is listed alone restores a backup if it has lost its
	// data.
	Initial []string
	// Class is the StorageClass in the claim template of the StatefulSet, empty if it names none, and Capacity that of the volumes.
	Class    string
	Capacity resource.Quantity
	// BackedUp: everything committed, except for the last few minutes, is in a backup, or there is no backup store.
	BackedUp bool
}

// Request says what a decision is for, and what its caller knows.
type Request struct {
	Goal       membership.Goal
	Timers     Timers
	Overridden []v1alpha1.OverridableGuard
	// Tasks of the Etcd, including ended ones: a Restore keeps data on volumes, and a MembershipChange knows which pods it has scaled away.
	Tasks []v1alpha1.EtcdOperatorTask
	// Relieve is the UID of a pod whose member a further member relieves before it is replaced.
	Relieve types.UID
	// NewClaim is the claim that was created for a task's further member, and that the task has not marked yet.
	NewClaim string
	// Pending and Acting are those of membership.Input.
	Pending, Acting string
}

// readdressed reports whether there are members with an address, and none is reached as the spec says. One is enough for those that join.
func (k Known) readdressed() bool {
	reached := func(as func(*cluster.Pod) bool) int {
		return k.Snapshot.CountOrdinals(func(o cluster.Ordinal) bool {
			return o.MemberID != 0 && o.Pod != nil && o.Pod.Endpoint != "" && as(o.Pod)
		})
	}
	return reached(func(*cluster.Pod) bool { return true }) > 0 && reached(func(p *cluster.Pod) bool { return p.ReachedAs(k.Etcd) }) == 0
}

// recreates reports whether a task is about to stop all members, and waits until there are as many as the spec asks for.
func recreates(t v1alpha1.EtcdOperatorTask) bool {
	return t.Status.State == v1alpha1.TaskStateInProgress && t.StopsNothingYet()
}

// Input returns the input of a decision. It is pure.
func (k Known) Input(r Request) membership.Input {
	in := membership.Input{
		Goal: r.Goal, Replicas: k.Snapshot.Replicas(), Observed: k.Snapshot.StatefulSet.Observed,
		Pending: r.Pending, Acting: cmp.Or(r.Acting, k.joining()), BackedUp: k.BackedUp,
		Readdressed: k.Etcd.Source() == nil && k.readdressed() && !slices.ContainsFunc(r.Tasks, recreates),
	}
	if source := k.Etcd.Source(); source != nil {
		in.Sources = len(source.Members)
	}
	for _, g := range r.Overridden {
		in.Overridden = append(in.Overridden, membership.Guard(g))
	}
	for _, m := range k.List {
		in.Members = append(in.Members, k.member(m, r.Timers))
		if m := in.Members[len(in.Members)-1]; m.Owner == membership.Source && m.Leads {
			// Until leadership has moved, no agent takes snapshots.
			in.BackedUp = true
		}
	}
	for i := range k.ordinals(r.Goal) {
		o := k.ordinal(i)
		o.Temporary = o.Temporary || r.NewClaim != "" && i >= r.Goal.Size && o.Claim && o.Foreign == "" && k.Claims[i].Name == r.NewClaim
		o.Kept = k.keeps(i, o, r.Tasks)
		switch relieve := i < len(k.Snapshot.Ordinals) && r.Relieve != "" && o.Pod && k.Snapshot.Ordinals[i].Pod.UID == r.Relieve; {
		case i < r.Goal.Size && k.moves(i, o) && etcdtasks.KeeperOf(r.Tasks, k.Claims[i]) == "":
			o.Outdated = membership.Volume
		case relieve, i < r.Goal.Size && k.drains(i):
			o.Outdated = membership.Pod
		}
		in.Ordinals = append(in.Ordinals, o)
	}
	return in
}

// keeps reports whether a claim is kept when its ordinal goes: a Restore keeps data there, or no agent has inspected it. The claim of a
// member belongs to a pod that a task has scaled away after it had removed the member from the list, and existed when that began. Any other
// claim may hold data that no agent has inspected: it was restored by hand, or a larger cluster has left it, and someone has scaled the
// StatefulSet. A claim that was made for a further member is marked.
func (k Known) keeps(i int, o membership.Ordinal, tasks []v1alpha1.EtcdOperatorTask) bool {
	claim := k.Claims[i]
	if claim == nil || etcdtasks.KeeperOf(tasks, claim) != "" {
		return claim != nil
	}
	was := func(action membership.Action) bool {
		return slices.ContainsFunc(tasks, func(t v1alpha1.EtcdOperatorTask) bool {
			return t.Status.Membership != nil && !t.CreationTimestamp.Before(&claim.CreationTimestamp) &&
				slices.ContainsFunc(t.Status.Membership.Steps, func(s v1alpha1.MembershipStep) bool {
					return s.Action == string(action) && s.Pod == k.Etcd.PodName(int32(i))
				})
		})
	}
	return !o.Temporary && i >= k.Snapshot.Replicas() && (!was(membership.RemoveMember) || !was(membership.ScaleDown))
}

// drains reports whether the node of the only member is cordoned, and its volume can be attached to another node. Once the node is
// uncordoned, the cluster returns to its one member.
func (k Known) drains(i int) bool {
	if !k.Etcd.SurgesOnDrain() || k.Etcd.SpecSuspended() || i >= len(k.Snapshot.Ordinals) {
		return false
	}
	pod := k.Snapshot.Ordinals[i].Pod
	return pod != nil && pod.Node.Cordoned && pod.VolumeTrouble == ""
}

// joining returns a sentence if members change the list themselves, as they do in a recovered cluster until the operator announces who
// leaves; empty otherwise. From then on they wait for the operator, which must not wait for them. Nor does it wait for more members than the
// spec asks for: the others are to leave, and may have no volume to join from.
func (k Known) joining() string {
	voters, wanted := len(k.Snapshot.Cluster.Voters), min(k.Snapshot.Replicas(), int(k.Etcd.Spec.Replicas))
	removed := 0
	for i := range wanted {
		if o := &k.Snapshot.Ordinals[i]; k.isRemoved(i, o) || refusesList(o) {
			removed++ // it has joined, or cannot, and only another pod of it would
		}
	}
	if k.Etcd.Status.Recovery == nil || k.Announced || voters+removed >= wanted {
		return ""
	}
	return "the cluster was recovered or has woken up, and its members join it"
}

// member returns an entry of the list with what the member reports.
func (k Known) member(listed etcdclient.Member, timers Timers) membership.Member {
	m := membership.Member{ID: listed.ID, Name: nameOf(listed), Learner: listed.Learner, Leads: listed.ID == k.Snapshot.Cluster.Leader && listed.ID != 0}
	if ordinal := Ordinal(k.Etcd, listed); ordinal >= 0 {
		m.Owner, m.Ordinal, m.Name = membership.Ours, ordinal, k.Etcd.MemberName(k.Etcd.PodName(int32(ordinal)))
		if OwnOrdinal(k.Etcd, listed) < 0 {
			m.Owner, m.Ordinal, m.Elsewhere = membership.Unknown, 0, ShownURLs(listed)
		}
	}
	if m.Owner == membership.Unknown && IsSource(k.Etcd, listed) {
		m.Owner = membership.Source
	}
	if r, lag := k.run(listed); r != (run{}) {
		m.Serving, m.Lag = true, lag
	}
	if o := k.at(listed); o != nil {
		volume := o.Volume()
		m.Lost = volume.Lost != "" && volume.Lost == hex(listed.ID)
		m.Confirmed = k.Told.Generation > 0 && o.Read.Confirms(k.Told.Generation)
		m.Read = k.Told.Generation > 0 && o.Read.Generation >= k.Told.Generation
		m.Silent = k.Told.Generation > 0 && o.Read == cluster.Read{}
	}
	m.Stale = listed.Learner && listed.Name == "" && refusesList(k.at(listed)) && timers.unready(m.ID)
	m.Told = m.Owner == membership.Ours && k.Told.Leaves(m.Name)
	m.Unready, m.Settled, m.Steady, m.Reached = timers.unready(m.ID), timers.settled(m.ID), timers.steady(m.ID), timers.reached(m.ID)
	return m
}

// at returns the ordinal in whose pod a listed member runs, or is to run; nil if there is none. A pod whose member answers under another ID
// is not the member's.
func (k Known) at(listed etcdclient.Member) *cluster.Ordinal {
	i := Ordinal(k.Etcd, listed)
	if i < 0 || i >= len(k.Snapshot.Ordinals) {
		return nil
	}
	o := &k.Snapshot.Ordinals[i]
	if o.Answers && o.MemberID != listed.ID {
		return nil
	}
	return o
}

// run returns the run of a listed member that serves, and how far it is behind; the zero run if it does not serve. The start is unknown for
// a source, and for a member whose pod was not observed.
func (k Known) run(listed etcdclient.Member) (run, uint64) {
	if o := k.at(listed); o != nil && o.Serves() {
		// Without a start time from the kubelet, use the pod.
		return run{o.Pod.UID, o.Pod.EtcdStarted}, o.Lag
	}
	for _, v := range k.Snapshot.Cluster.Voters {
		if v.ID == listed.ID && v.Ordinal < 0 && v.Serving && mayBeAsked(k.Etcd, k.Snapshot, listed) {
			return run{pod: types.UID(v.Endpoint)}, v.Lag
		}
	}
	return run{}, 0
}

// mayBeAsked reports whether the answer of a listed member without an ordinal counts: it belongs to the source cluster or, if no pod was
// observed, to the Etcd.
func mayBeAsked(etcd *v1alpha1.Etcd, s *cluster.Snapshot, m etcdclient.Member) bool {
	return IsSource(etcd, m) || len(s.Ordinals) == 0 && Ordinal(etcd, m) >= 0
}

// ordinal returns what is known of an ordinal.
func (k Known) ordinal(i int) membership.Ordinal {
	o := membership.Ordinal{Pod: slices.Contains(k.Snapshot.Surplus, k.Etcd.PodName(int32(i)))}
	if claim := k.Claims[i]; claim != nil {
		if foreign := ownership.OfClaim(k.Etcd, claim); foreign != nil {
			o.Foreign = foreign.String()
		}
		o.Claim, o.Terminating = true, claim.DeletionTimestamp != nil
		o.Temporary = isTemporary(k.Etcd, claim)
	}
	if i >= len(k.Snapshot.Ordinals) {
		return o
	}
	seen := &k.Snapshot.Ordinals[i]
	o.Pod, o.Ending = seen.Pod != nil, seen.Class == v1alpha1.ClassTerminating
	o.Told = o.Pod && k.Told.Joining[seen.Member] == string(seen.Pod.UID) && slices.Contains(k.Initial, seen.Member)
	switch seen.Volume().Store {
	case cluster.StoreFree:
		if slices.Contains(k.Initial, seen.Member) {
			o.Store = membership.Free
		}
	case cluster.StoreLeft:
		o.Store = membership.Left
	case cluster.StoreOther:
		o.Store = membership.Other
	}
	if k.isRemoved(i, seen) {
		o.Outdated = membership.Pod
	}
	return o
}

// isRemoved reports whether the pod of an ordinal runs a member that is no longer listed: its etcd exits repeatedly, and the volume is only
// inspected again in another pod. A report of an earlier pod's agent does not count against a pod whose agent has yet to inspect the
// volume. No agent can identify a learner that was removed before it had written data.
func (k Known) isRemoved(i int, o *cluster.Ordinal) bool {
	started := o.Pod != nil && o.Pod.Refusal == nil && (o.Class == v1alpha1.ClassDead || o.Class == v1alpha1.ClassUnready)
	ends := started && o.Pod.Prepared && o.Class == v1alpha1.ClassDead
	if len(k.List) == 0 || !started || o.Answers || o.Read.Removed == "" && !ends {
		return false
	}
	return !slices.ContainsFunc(k.List, func(m etcdclient.Member) bool { return Ordinal(k.Etcd, m) == i || hex(m.ID) == o.Read.Removed })
}

// refusesList reports whether the etcd of an ordinal ends again and again, since the member list is not the one that its pod was prepared for.
func refusesList(o *cluster.Ordinal) bool {
	return o != nil && o.Class == v1alpha1.ClassDead && o.Pod != nil && o.Pod.ListChanged
}

// moves reports whether an ordinal gets another volume: the claim is not what the spec asks for, and those that the StatefulSet makes are. A
// learner gets its vote first. Of an ordinal that is not in the list, the volume goes only if its member was told that it leaves, and the agent
// has said since then that a quorum serves without it: other data may be needed, and joins as it is. A claim that has no volume holds no data.
func (k Known) moves(i int, o membership.Ordinal) bool {
	claim, class := k.Claims[i], k.Etcd.Spec.Class()
	if !k.Etcd.Moves() || k.Etcd.SpecSuspended() || class != "" && class != k.Class || claim == nil || o.Foreign != "" || !k.misfits(claim) {
		return false
	}
	listed := slices.IndexFunc(k.List, func(m etcdclient.Member) bool { return Ordinal(k.Etcd, m) == i })
	if listed >= 0 {
		return !k.List[listed].Learner
	}
	hasLooked := o.Outdated == membership.Pod && k.Snapshot.Ordinals[i].Read.Removed != "" || o.Store == membership.Free || o.Store == membership.Left
	return claim.Status.Phase == corev1.ClaimPending && claim.Spec.VolumeName == "" ||
		hasLooked && k.Told.Leaves(k.Etcd.MemberName(k.Etcd.PodName(int32(i))))
}

// misfits reports whether a claim has another StorageClass than the spec, or is too small and cannot grow: the claim template only has the
// new capacity once every claim that can grow requests it.
func (k Known) misfits(claim *corev1.PersistentVolumeClaim) bool {
	class, wanted, asks := k.Etcd.Spec.Class(), k.Etcd.Spec.Capacity(), claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return class != "" && ptr.Deref(claim.Spec.StorageClassName, "") != class || asks.Cmp(wanted) < 0 && k.Capacity.Cmp(wanted) >= 0
}

// ordinals returns the number of ordinals that have a pod, a claim or a member, are among the replicas, or are in the goal.
func (k Known) ordinals(goal membership.Goal) int {
	n := max(k.Snapshot.Replicas(), goal.Size)
	for i := range k.Claims {
		n = max(n, i+1)
	}
	for _, m := range k.List {
		n = max(n, Ordinal(k.Etcd, m)+1)
	}
	for _, pod := range k.Snapshot.Surplus {
		n = max(n, ordinalOf(k.Etcd.Name, pod)+1)
	}
	return n
}

// IsSource reports whether a member is one of the source cluster that was declared: by its name or, while it has none, by a peer URL.
func IsSource(etcd *v1alpha1.Etcd, m etcdclient.Member) bool {
	source := etcd.Source()
	return source != nil && slices.ContainsFunc(source.Members, func(s v1alpha1.BootstrapExistingMember) bool { return s.Is(m.Name, m.PeerURLs) })
}

// Ordinal returns the ordinal of a member that is the Etcd's own, by its name or, while it has none, by its peer URL; -1 for any
// other.
func Ordinal(etcd *v1alpha1.Etcd, m etcdclient.Member) int {
	if m.Name != "" {
		return OrdinalOfName(etcd, m.Name)
	}
	for _, peer := range m.PeerURLs {
		if pod, _, _ := strings.Cut(hostOf(peer), "."); pod != "" {
			if i := ordinalOf(etcd.Name, pod); i >= 0 && hostOf(peer) == etcd.MemberHost(etcd.PodName(int32(i))) {
				return i
			}
		}
	}
	return -1
}

// OwnOrdinal is Ordinal, but -1 also for a member that has only the name of one of the Etcd's: beside a source, and at other peer URLs alone.
func OwnOrdinal(etcd *v1alpha1.Etcd, m etcdclient.Member) int {
	if etcd.Source() != nil && isElsewhere(etcd, m) {
		return -1
	}
	return Ordinal(etcd, m)
}

// isElsewhere reports whether a member of the Etcd's name is listed at other peer URLs alone: beside a source, it may be that of another Etcd.
func isElsewhere(etcd *v1alpha1.Etcd, m etcdclient.Member) bool {
	return len(m.PeerURLs) > 0 && !slices.ContainsFunc(m.PeerURLs, OwnURL(etcd, Ordinal(etcd, m)))
}

// OwnURL returns a function that reports whether a peer URL, with any scheme, is that of the member of an ordinal: at its host, or a further
// one that the spec names or that the operator has recorded.
func OwnURL(etcd *v1alpha1.Etcd, ordinal int) func(peer string) bool {
	pod := etcd.PodName(int32(ordinal))
	further := etcd.AdvertisedPeerURLs().Of(etcd.MemberName(pod))
	for _, r := range etcd.Status.AdvertisedPeerURLs {
		if r.Name == etcd.MemberName(pod) {
			further = append(further, r.URLs...)
		}
	}
	address := func(peer string) string { _, after, _ := strings.Cut(peer, "://"); return after }
	return func(peer string) bool {
		return hostOf(peer) == etcd.MemberHost(pod) || slices.ContainsFunc(further, func(f string) bool { return address(f) == address(peer) })
	}
}

// maxURLs bounds the shown peer URLs of a member, in bytes: they come from another cluster.
const maxURLs = 256

// ShownURLs returns the peer URLs of a member to be shown.
func ShownURLs(m etcdclient.Member) string {
	return sanitize.Text(strings.Join(m.PeerURLs, " "), maxURLs)
}

// OrdinalOfName returns the ordinal of the member of a name; -1 if it is not one of the Etcd's own.
func OrdinalOfName(etcd *v1alpha1.Etcd, name string) int {
	return ordinalOf(etcd.MemberName(etcd.Name), name)
}

// ordinalOf returns the ordinal at the end of a name; -1 if there is none.
func ordinalOf(prefix, name string) int {
	number, found := strings.CutPrefix(name, prefix+"-")
	i, _ := strconv.Atoi(number)
	// Anything that is not a number in its usual form is another name.
	if !found || i < 0 || i >= etcdclient.MaxMembers || strconv.Itoa(i) != number {
		return -1
	}
	return i
}

func nameOf(m etcdclient.Member) string { return cmp.Or(m.Name, hex(m.ID)) }

func hex(id uint64) string { return fmt.Sprintf("%x", id) }
