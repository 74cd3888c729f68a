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

// The guards of a QuorumAwareRollout, in the order in which they are asked.
const (
	// GuardRevisionObserved: the StatefulSet controller has seen the StatefulSet's current spec, so
	// status.updateRevision is current.
	GuardRevisionObserved GuardName = "RevisionObserved"
	// GuardDeletionObserved: the pod that the rollout deleted last is gone or terminating.
	GuardDeletionObserved GuardName = "DeletionObserved"
	// GuardLearnerPromoted: the pod to go is not a learner that is catching up.
	GuardLearnerPromoted GuardName = "LearnerPromoted"
	// GuardVolumeReachable: the pod's replacement could have its volume: its claim and volume exist and stay, and a node
	// that the volume is bound to takes pods.
	GuardVolumeReachable GuardName = "VolumeReachable"
	// GuardOthersParticipating: every other member participates before one that does is replaced (DEP-07, step 3).
	GuardOthersParticipating GuardName = "OthersParticipating"
	// GuardOthersServing: every other member serves before leadership moves, and before a member is replaced that serves
	// although its probe fails.
	GuardOthersServing GuardName = "OthersServing"
	// GuardNodesStable: no other member that the quorum counts on is about to be lost with its node, or to be
	// removed by something else.
	GuardNodesStable GuardName = "NodesStable"
	// GuardQuorumKept: the voters that remain are still a quorum.
	GuardQuorumKept GuardName = "QuorumKept"
	// GuardQuorumLossConfirmed: where no leader is known, that has lasted for the grace period, members that the operator
	// cannot reach are not a quorum, and every other member has been running for as long.
	GuardQuorumLossConfirmed GuardName = "QuorumLossConfirmed"
	// GuardUnreadyConfirmed: a member that does not serve the operator although its probe passes has been so for the grace
	// period.
	GuardUnreadyConfirmed GuardName = "UnreadyConfirmed"
	// GuardHandoverObserved: the last attempt to move leadership has had the time to show.
	GuardHandoverObserved GuardName = "HandoverObserved"
	// GuardSuccessorCaughtUp: the updated member that leadership goes to is not far behind the leader.
	GuardSuccessorCaughtUp GuardName = "SuccessorCaughtUp"
	// GuardRemovalGranted: the API server has not refused the removal of the pod; with podRemoval: Evict, the
	// PodDisruptionBudget allows it.
	GuardRemovalGranted GuardName = "RemovalGranted"
)

// OverridableGuard is a guard that a task may be told to override. Those that make sure that the rollout sees the present
// state, and those that keep the quorum, are not among them: neither here nor in the decision itself.
// +kubebuilder:validation:Enum=LearnerPromoted;VolumeReachable;OthersParticipating;OthersServing;NodesStable;UnreadyConfirmed;SuccessorCaughtUp;RemovalGranted
type OverridableGuard string

// Role of a member in its cluster.
type Role string

// The roles of a member.
const (
	RoleLeader   Role = "Leader"
	RoleFollower Role = "Follower"
	RoleLearner  Role = "Learner"
	RoleUnknown  Role = "Unknown"
)

// PodClass is the health of one ordinal of the StatefulSet (DEP-07, "Health Assessment", made total).
type PodClass string

// The classes of an ordinal.
const (
	// ClassMissing: there is no pod.
	ClassMissing PodClass = "Missing"
	// ClassTerminating: the pod has a deletionTimestamp.
	ClassTerminating PodClass = "Terminating"
	// ClassDead: the etcd container, or an init container, has exited or cannot be started.
	ClassDead PodClass = "Dead"
	// ClassStarting: the etcd container is still being set up.
	ClassStarting PodClass = "Starting"
	// ClassUnready: the etcd container runs, and the member does not participate.
	ClassUnready PodClass = "Unready"
	// ClassParticipating: the readiness probe passes and the member knows a leader.
	ClassParticipating PodClass = "Participating"
)

// RecreatePhase is how far a RecreateRollout has come (KEP-3541).
// +kubebuilder:validation:Enum=NeedsDeletion;WaitingTermination;ReadyForCreation;Complete
type RecreatePhase string

// The phases of a RecreateRollout.
const (
	// RecreateNeedsDeletion: the StatefulSet is to be scaled to zero.
	RecreateNeedsDeletion RecreatePhase = "NeedsDeletion"
	// RecreateWaitingTermination: it is, and pods are not gone yet.
	RecreateWaitingTermination RecreatePhase = "WaitingTermination"
	// RecreateReadyForCreation: the last pod is gone, and all start at the target revision.
	RecreateReadyForCreation RecreatePhase = "ReadyForCreation"
	// RecreateComplete: every pod is at the target revision, and every member participates.
	RecreateComplete RecreatePhase = "Complete"
)

// RolloutStatus is the progress of a rollout.
type RolloutStatus struct {
	// Phase of a RecreateRollout.
	// +optional
	Phase RecreatePhase `json:"phase,omitempty"`
	// TargetRevision is the revision of the StatefulSet that the rollout brings the pods to.
	// +optional
	TargetRevision string `json:"targetRevision,omitempty"`
	// Replicas of the StatefulSet.
	Replicas int32 `json:"replicas"`
	// UpdatedReplicas are the pods that need no replacement any more.
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// ParticipatingReplicas are the pods whose members participate.
	ParticipatingReplicas int32 `json:"participatingReplicas"`
	// MostParticipatingReplicas are the most pods whose members have participated at once since the rollout began. Only more
	// than these are progress: a member that comes and goes makes none.
	// +optional
	MostParticipatingReplicas int32 `json:"mostParticipatingReplicas,omitempty"`
	// HeldBy is what the rollout waits for; absent when nothing holds it.
	// +optional
	HeldBy *Hold `json:"heldBy,omitempty"`
	// LastProgressTime is when a pod that the rollout removed last went, or its replacement began to participate, when more
	// members participated than ever before, or when leadership was moved.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`
	// LeaderHandover records the attempts to move leadership away from a leader that is to be replaced.
	// +optional
	LeaderHandover *LeaderHandover `json:"leaderHandover,omitempty"`
	// Pods are the pods that this rollout deleted, oldest first; the newest 50.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=uid
	// +optional
	Pods []RolloutPod `json:"pods,omitempty"`
}

// Hold says at which guard a rollout waits.
type Hold struct {
	// Guard that holds.
	Guard GuardName `json:"guard"`
	// Pod that the guard speaks of, where it is one.
	// +optional
	Pod string `json:"pod,omitempty"`
	// Message says why, and what a person can do.
	Message string `json:"message"`
	// Since when this guard has held for this pod.
	Since metav1.Time `json:"since"`
}

// LeaderHandover records attempts to move leadership.
type LeaderHandover struct {
	// From is the pod of the leader.
	From string `json:"from"`
	// To is the pod that leadership was to go to in the newest attempt.
	To string `json:"to"`
	// Attempts so far.
	Attempts int32 `json:"attempts"`
	// LastAttemptTime is when the newest attempt was announced.
	LastAttemptTime metav1.Time `json:"lastAttemptTime"`
}

// RolloutPod is a pod that a rollout deleted.
type RolloutPod struct {
	// Name of the pod.
	Name string `json:"name"`
	// UID of the pod that was deleted.
	UID types.UID `json:"uid"`
	// Role of its member when the deletion was decided.
	Role Role `json:"role"`
	// Class of the pod when the deletion was decided.
	Class PodClass `json:"class"`
	// Revision of the pod that was deleted.
	Revision string `json:"revision"`
	// LastOperation is the replacement of the pod: InProgress from the announcement of the deletion until
	// its successor participates, then Completed; Failed when the deletion was announced and revoked.
	LastOperation LastOperation `json:"lastOperation"`
	// Evidence is what the decision rested on.
	Evidence Evidence `json:"evidence"`
}

// Evidence is the state of the cluster in which a deletion was decided.
type Evidence struct {
	// ObservedAt is when the removal was decided. What the decision rests on was confirmed before the removal was sent.
	ObservedAt metav1.MicroTime `json:"observedAt"`
	// ResourceVersion of the pod, which is the precondition of its deletion.
	ResourceVersion string `json:"resourceVersion"`
	// Serving are the names of the members that knew a leader.
	// +listType=atomic
	// +optional
	Serving []string `json:"serving,omitempty"`
	// Leader is the name of the leading member; empty when there was none.
	// +optional
	Leader string `json:"leader,omitempty"`
	// Term is the raft term.
	// +optional
	Term int64 `json:"term,omitempty"`
	// Voters is the number of voting members.
	Voters int32 `json:"voters"`
	// Quorum is the number of voters that a quorum takes.
	Quorum int32 `json:"quorum"`
	// ServingVoters is the number of voters that served.
	ServingVoters int32 `json:"servingVoters"`
}
