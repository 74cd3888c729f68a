// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// GuardName names a condition that must be true before a rollout carries out its next step.
type GuardName string

// The guards of a QuorumAwareRollout, in the order in which they are checked. Each is named after the condition that must be
// true.
const (
	// GuardRevisionObserved requires that the StatefulSet controller has observed the newest spec of the StatefulSet, so that
	// its status.updateRevision is current.
	GuardRevisionObserved GuardName = "RevisionObserved"
	// GuardDeletionObserved requires that the pod that the rollout removed last is gone or terminating.
	GuardDeletionObserved GuardName = "DeletionObserved"
	// GuardUpdateObserved requires that the kubelet has carried out the last write to a pod that is updated in place, and that its
	// member participates.
	GuardUpdateObserved GuardName = "UpdateObserved"
	// GuardLearnerPromoted requires that the pod's member is not a learner that is catching up.
	GuardLearnerPromoted GuardName = "LearnerPromoted"
	// GuardVolumeReachable requires that the pod's replacement could attach its volume: the claim and the volume exist and are
	// not being deleted, and a node that the volume can be attached to accepts pods, also by the node affinity of the pod template.
	GuardVolumeReachable GuardName = "VolumeReachable"
	// GuardOthersParticipating requires, before a participating member is removed, that every other member participates
	// (DEP-07, step 3).
	GuardOthersParticipating GuardName = "OthersParticipating"
	// GuardOthersServing requires that every other member serves before leadership moves, and before a member is removed that
	// serves although its probe fails.
	GuardOthersServing GuardName = "OthersServing"
	// GuardVotersOdd requires, before a voter that serves is restarted, that the number of voters is odd, unless an even number is
	// what the Etcd has for good: a membership change passes through even sizes, which tolerate one failure fewer.
	GuardVotersOdd GuardName = "VotersOdd"
	// GuardMemberRelieved requires, with surgePolicy SingleMember, that another member has taken over from a voter that serves before
	// anything disrupts it. A MembershipChange does that.
	GuardMemberRelieved GuardName = "MemberRelieved"
	// GuardNodesStable requires, before a serving member is removed, that no other serving member may be lost with its node or
	// is being evicted or preempted.
	GuardNodesStable GuardName = "NodesStable"
	// GuardVersionsCompatible requires that etcd takes every member from its version to the new one.
	GuardVersionsCompatible GuardName = "VersionsCompatible"
	// GuardQuorumKept requires, while a leader is known, that the remaining voters are a quorum.
	GuardQuorumKept GuardName = "QuorumKept"
	// GuardQuorumLossConfirmed requires, while no leader is known, that this has lasted for the grace period, that members which
	// the operator cannot reach cannot form a quorum, and that every other member has been running for as long.
	GuardQuorumLossConfirmed GuardName = "QuorumLossConfirmed"
	// GuardUnreadyConfirmed requires that a member whose probe passes has not served the operator for the grace period, and that one
	// that answers has had five seconds to hear of a new leader.
	GuardUnreadyConfirmed GuardName = "UnreadyConfirmed"
	// GuardHandoverObserved requires that the last attempt to move leadership has had time to take effect.
	GuardHandoverObserved GuardName = "HandoverObserved"
	// GuardSuccessorCaughtUp requires that the updated member that leadership goes to is not far behind the leader.
	GuardSuccessorCaughtUp GuardName = "SuccessorCaughtUp"
	// GuardRemovalGranted requires that the API server has not just refused to remove the pod. With podRemoval: Evict, the
	// PodDisruptionBudget must allow the removal.
	GuardRemovalGranted GuardName = "RemovalGranted"
	// GuardSnapshotTaken requires that the full snapshot before the rollout has been taken.
	GuardSnapshotTaken GuardName = "SnapshotTaken"
)

// The guard that only a change of members has. GuardName describes those that it shares with rollouts.
const (
	// GuardBackedUp requires, where one voter will remain, that everything is in a backup.
	GuardBackedUp OverridableGuard = "BackedUp"
)

// OverridableGuard is a guard that a task may override. What each requires is in docs/api.md, at GuardName and BackedUp. The guards that ensure
// an up-to-date view of the cluster, and those that protect the quorum, cannot be overridden; the decision itself enforces this.
// +kubebuilder:validation:Enum=LearnerPromoted;VolumeReachable;OthersParticipating;OthersServing;VotersOdd;MemberRelieved;NodesStable;VersionsCompatible;UnreadyConfirmed;SuccessorCaughtUp;RemovalGranted;SnapshotTaken;BackedUp
type OverridableGuard string

// Role is the role of a member in its cluster.
type Role string

// The roles of a member.
const (
	RoleLeader   Role = "Leader"
	RoleFollower Role = "Follower"
	RoleLearner  Role = "Learner"
	RoleUnknown  Role = "Unknown"
)

// PodClass is the health of one ordinal of the StatefulSet. It extends "Health Assessment" of DEP-07 to every state of a pod.
type PodClass string

// The classes of an ordinal.
const (
	// ClassMissing means that there is no pod.
	ClassMissing PodClass = "Missing"
	// ClassTerminating means that the pod is being deleted.
	ClassTerminating PodClass = "Terminating"
	// ClassDead means that the etcd container or an init container has exited or cannot be started.
	ClassDead PodClass = "Dead"
	// ClassStarting means that the pod is not scheduled yet, or that its etcd container is being set up.
	ClassStarting PodClass = "Starting"
	// ClassUnready means that the etcd container is running but the member does not participate.
	ClassUnready PodClass = "Unready"
	// ClassParticipating means that the readiness probe passes, and that the member is a voter and serves: it answers, knows
	// the current leader, and is not far behind it.
	ClassParticipating PodClass = "Participating"
)

// RecreatePhase is the phase of a RecreateRollout (KEP-3541).
// +kubebuilder:validation:Enum=NeedsDeletion;WaitingTermination;ReadyForCreation;Complete
type RecreatePhase string

// The phases of a RecreateRollout.
const (
	// RecreateNeedsDeletion means that the StatefulSet is to be scaled to zero.
	RecreateNeedsDeletion RecreatePhase = "NeedsDeletion"
	// RecreateWaitingTermination means that the StatefulSet is scaled to zero and pods are terminating.
	RecreateWaitingTermination RecreatePhase = "WaitingTermination"
	// RecreateReadyForCreation means that all pods are gone, and that new pods start at the target revision.
	RecreateReadyForCreation RecreatePhase = "ReadyForCreation"
	// RecreateComplete means that every pod is at the target revision and every member participates.
	RecreateComplete RecreatePhase = "Complete"
)

// RolloutStatus is the progress of a rollout.
type RolloutStatus struct {
	// phase of a RecreateRollout; empty for a QuorumAwareRollout.
	// +optional
	Phase RecreatePhase `json:"phase,omitempty"`
	// targetRevision is the StatefulSet revision that the rollout brings the pods to.
	// +optional
	TargetRevision string `json:"targetRevision,omitempty"`
	// replicas is the number of replicas of the StatefulSet.
	Replicas int32 `json:"replicas"`
	// updatedReplicas is the number of pods that no longer need to be replaced or updated.
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// participatingReplicas is the number of pods whose members participate.
	ParticipatingReplicas int32 `json:"participatingReplicas"`
	// mostParticipatingReplicas is the maximum of participatingReplicas since the rollout began. Only exceeding it counts as
	// progress; a member that flaps does not.
	// +optional
	MostParticipatingReplicas int32 `json:"mostParticipatingReplicas,omitempty"`
	// heldBy names the first guard that blocks the next step; absent when none does.
	// +optional
	HeldBy *Hold `json:"heldBy,omitempty"`
	// blockedBy are all guards that block the next step, in the order in which they are checked: the first is that of heldBy.
	// Those after it are checked although it blocks already, so that everything that has to be done is known at once.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=guard
	// +optional
	BlockedBy []BlockedBy `json:"blockedBy,omitempty"`
	// lastProgressTime is when the rollout last made progress: a pod that it removed went, or its replacement participates;
	// more members participate than ever before; or leadership was moved.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`
	// leaderHandover records the attempts to move leadership away from a leader that is to be replaced.
	// +optional
	LeaderHandover *LeaderHandover `json:"leaderHandover,omitempty"`
	// snapshot is the full snapshot before the first step; absent if none was asked for.
	// +optional
	Snapshot *RolloutSnapshot `json:"snapshot,omitempty"`
	// relieve is the UID of the pod whose member a MembershipChange replaces for this rollout, since surgePolicy is SingleMember;
	// absent if there is none.
	// +optional
	Relieve types.UID `json:"relieve,omitempty"`
	// pods that this rollout removed or updated in place, or is about to, oldest first, at most the newest 50.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=uid
	// +optional
	Pods []RolloutPod `json:"pods,omitempty"`
}

// BlockedBy is a guard that blocks the next step of a rollout.
type BlockedBy struct {
	// guard that blocks the next step.
	Guard GuardName `json:"guard"`
	// pod that the guard refers to; empty if it refers to none.
	// +optional
	Pod string `json:"pod,omitempty"`
	// message says why the guard blocks the step, and what to do.
	Message string `json:"message"`
}

// Hold describes what a rollout is blocked by.
type Hold struct {
	// guard that blocks the next step.
	Guard GuardName `json:"guard"`
	// pod that the guard refers to; empty if it refers to none.
	// +optional
	Pod string `json:"pod,omitempty"`
	// message says why the guard blocks the step, and what to do.
	Message string `json:"message"`
	// since is when this guard began to block for this pod.
	Since metav1.Time `json:"since"`
}

// RolloutSnapshot is the full snapshot that a rollout takes before its first step.
type RolloutSnapshot struct {
	// state is InProgress, or Completed.
	State OperationState `json:"state"`
	// requestedAt is when it was first asked for.
	RequestedAt metav1.Time `json:"requestedAt"`
	// name of the snapshot in the store, once it was taken.
	// +optional
	Name string `json:"name,omitempty"`
}

// LeaderHandover records attempts to move leadership.
type LeaderHandover struct {
	// from is the pod of the leader.
	From string `json:"from"`
	// to is the pod that leadership was to move to in the last attempt.
	To string `json:"to"`
	// attempts is the number of attempts so far.
	Attempts int32 `json:"attempts"`
	// lastAttemptTime is when the last attempt was recorded.
	LastAttemptTime metav1.Time `json:"lastAttemptTime"`
}

// RolloutPod is a pod whose removal, or last write in place, a rollout recorded.
type RolloutPod struct {
	// name of the pod.
	Name string `json:"name"`
	// uid of the pod.
	UID types.UID `json:"uid"`
	// role of its member when the step was decided.
	Role Role `json:"role"`
	// class of the pod when the step was decided.
	Class PodClass `json:"class"`
	// revision of the pod before.
	Revision string `json:"revision"`
	// gracePeriodSeconds is the grace period that the pod was deleted with, since its member does not serve; absent if the pod
	// kept its own.
	// +optional
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
	// lastOperation is the replacement of the pod, or its update in place: InProgress once a step is recorded as an intent,
	// Completed when the replacement, or the updated pod, participates, Failed if the step was not carried out.
	LastOperation LastOperation `json:"lastOperation"`
	// evidence that the decision is based on.
	Evidence Evidence `json:"evidence"`
}

// Evidence is the state of the cluster that the decision to remove or update a pod is based on.
type Evidence struct {
	// observedAt is when the step was decided.
	ObservedAt metav1.MicroTime `json:"observedAt"`
	// resourceVersion of the pod. It is a precondition of the step.
	ResourceVersion string `json:"resourceVersion"`
	// serving are the names of the pods whose members served.
	// +listType=atomic
	// +optional
	Serving []string `json:"serving,omitempty"`
	// leader is the name of the leader's pod; empty if there was no leader.
	// +optional
	Leader string `json:"leader,omitempty"`
	// term is the raft term.
	// +optional
	Term int64 `json:"term,omitempty"`
	// voters is the number of voting members.
	Voters int32 `json:"voters"`
	// quorum is the number of voters that form a quorum.
	Quorum int32 `json:"quorum"`
	// servingVoters is the number of voters that served.
	ServingVoters int32 `json:"servingVoters"`
}
