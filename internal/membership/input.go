// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

// Input is all that a decision rests on. What is not known counts as the worst.
type Input struct {
	// Goal is what the members are to be.
	Goal Goal
	// Members are what a linearizable member list says, voters and learners. Empty: no member answers, and nothing is known.
	Members []Member
	// Ordinals of the StatefulSet; the index is the ordinal. There are as many as ordinals that have a pod, a claim or a
	// member, are among the replicas, or are in the goal.
	Ordinals []Ordinal
	// Replicas of the StatefulSet.
	Replicas int
	// Observed: its controller has seen its newest spec.
	Observed bool
	// Pending is the request to etcd that was sent last and may still take effect, as a sentence; empty when there is none.
	// etcd's answer may be lost, and the list shows the change only once it is applied.
	Pending string
	// Acting is what else acts on the members, as a sentence: a rollout, a recovery, hibernation. Empty when nothing does.
	Acting string
	// Readdressed: no member is reached as the spec says, where pods with the newest template look for it.
	Readdressed bool
	// Sources is the number of members that were declared as sources, including those that have left.
	Sources int
	// Overridden are the guards that the task overrides.
	Overridden []Guard
	// BackedUp: everything that is committed, but for the last few minutes, is in a backup.
	BackedUp bool
}

// Goal is what the members are to be: those of the ordinals below Size, each at the present template.
type Goal struct {
	// Size is the number of ordinals that are to be voters. 0: no member of this StatefulSet is to be in the cluster, as after
	// a migration that was given up.
	Size int
	// KeepSources: the sources stay, keep the quorum and lead, as before the cut-over of a migration and after one that was given
	// up. Otherwise they leave once every member of the goal votes.
	KeepSources bool
	// KeepClaims: claims of ordinals above Size are kept, unless they are temporary.
	KeepClaims bool
	// Single: a person has agreed that one member remains where a failure was tolerated. Refusal is what the annotation for that says, quoted,
	// if it is there and does not agree.
	Single  bool
	Refusal string
}

// Owner says whose a member is.
type Owner int

// The owners.
const (
	// Unknown: a member that was not declared. It is left alone, and so is the list while it has one.
	Unknown Owner = iota
	// Ours: a member in a pod of this StatefulSet.
	Ours
	// Source: a member that was declared as one of the cluster that is migrated.
	Source
)

// Member is one entry of the member list, and what the member itself says.
type Member struct {
	ID uint64
	// Name of the member; its ID in hex while it has none.
	Name  string
	Owner Owner
	// Elsewhere are the peer URLs of an Unknown member that has the name of one of this StatefulSet and none of its peer URLs; empty for
	// others.
	Elsewhere string
	// Ordinal of its pod, if it is ours.
	Ordinal int
	Learner bool
	// Serving: it answers, knows the leader of the newest term, and is not far behind it.
	Serving bool
	// Unready: it has not served for the grace period, without a gap.
	Unready bool
	// Settled: it has served, or as a learner been connected, without a gap for longer than etcd wants of a connection before it changes
	// the list.
	Settled bool
	// Leads: members that answer say that it leads in the newest term. It may be unreachable itself.
	Leads bool
	// Lag is the number of raft entries that are committed and that it has not applied. It means nothing unless Serving.
	Lag uint64
	// Lost: its agent says that it has run, or may have, and that its data is gone. It can only come back as another member.
	Lost bool
	// Stale: it is a learner that has never run, and its etcd has refused to start for the grace period, since the list is not the one that
	// its agent has prepared it for. Only another pod of it can join.
	Stale bool
	// Steady: the lag has been below the bound for a while.
	Steady bool
	// Reached: as a voter it has been ready for long enough for clients to reach it through the Service, or has voted for so long that
	// its readiness probe is not waited for.
	Reached bool
	// Told: its ConfigMap says that it is about to be removed, so that it does not join again after that. Confirmed: its agent
	// has read it. Members that are not ours have no agent of ours.
	Told, Confirmed bool
	// Read: its agent has read what members were told last, whatever that was.
	Read bool
	// Silent: members were told something, and its agent has never reported what it reads. One that is older than the operator does not.
	Silent bool
}

// Ordinal is one ordinal of the StatefulSet.
type Ordinal struct {
	// Pod: there is a pod, and Claim: there is a claim. Ending: the pod was deleted, and its kubelet ends it.
	Pod, Claim, Ending bool
	// Terminating: the claim is being deleted; it goes with its pod. Temporary: it was made for a further member, and goes with it.
	Terminating, Temporary bool
	// Foreign says why the claim is not the Etcd's own, so that it is not deleted; empty if it is, or if there is none.
	Foreign string
	// Kept: its claim is not deleted when the ordinal goes, since a Restore keeps data there, or no task has removed its member from the list
	// and scaled its pod away: what it holds is not known then.
	Kept     bool
	Outdated Outdated
	Store    Store
	// Told: since this pod came, members were told that its member joins.
	Told bool
}

// Outdated is what has to be replaced of an ordinal, and cannot be while its member is in the list.
type Outdated int

// What is outdated.
const (
	Nothing Outdated = iota
	Pod
	// Volume: the claim, and with it the pod. Only of ordinals in the goal.
	Volume
)

// Store is what an agent says of the volume of a member that does not run. What it said a while ago counts as InUse.
type Store int

// The stores.
const (
	// InUse: the member runs, or nothing is known.
	InUse Store = iota
	// Free: there is no data, or what there is was set aside. A member can join from here.
	Free
	// Left: there is the data of a member that was removed. It is set aside before a member can join.
	Left
	// Other: there is the data of another cluster. Nothing is done to it.
	Other
)
