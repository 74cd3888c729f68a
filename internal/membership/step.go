// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

// Action is a kind of step.
type Action string

// The actions.
const (
	// ScaleUp adds the next ordinal to the StatefulSet. Its agent waits until the member is in the list.
	ScaleUp Action = "ScaleUp"
	// AddLearner adds the member of an ordinal to the list. It has no vote.
	AddLearner Action = "AddLearner"
	// PromoteLearner gives the learner its vote.
	PromoteLearner Action = "PromoteLearner"
	// MoveLeader hands leadership over, since the leader is the next to leave.
	MoveLeader Action = "MoveLeader"
	// Announce tells a member that it is about to be removed, and Retract that it is not.
	Announce Action = "Announce"
	Retract  Action = "Retract"
	// AnnounceJoin tells the only member that another one joins. Until then it takes itself for the only one, and restores a backup if it
	// loses its data.
	AnnounceJoin Action = "AnnounceJoin"
	// RemoveMember removes a member from the list.
	RemoveMember Action = "RemoveMember"
	// ScaleDown takes the last ordinal, which is not in the list, from the StatefulSet.
	ScaleDown Action = "ScaleDown"
	// DeleteClaim deletes the claim of an ordinal that is not in the list.
	DeleteClaim Action = "DeleteClaim"
	// DeletePod deletes the pod of an ordinal that is not in the list, so that another one takes its place.
	DeletePod Action = "DeletePod"
)

// Step is one thing to do.
type Step struct {
	Action Action
	// Ordinal that it is about; -1 for a member that is not ours.
	Ordinal int
	// Member that it is about; 0 if there is none yet.
	Member uint64
	// Successor is the member that leadership goes to, with MoveLeader.
	Successor uint64
	// Reason is a sentence: why this, and why now.
	Reason string
}
