// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The guard of internal/membership, which names the others, that matters to other tasks.
const (
	// GuardChangeObserved requires that the last request to change the member list shows in it, or can no longer take effect.
	GuardChangeObserved GuardName = "ChangeObserved"
)

// MembershipStatus is the progress of a MembershipChange.
type MembershipStatus struct {
	// size is the number of voters that the task brings the cluster to.
	Size int32 `json:"size"`
	// voters is the number of voting members.
	Voters int32 `json:"voters"`
	// servingVoters is the number of voters that serve.
	ServingVoters int32 `json:"servingVoters"`
	// members are the entries of the member list, as the task saw them last.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=id
	// +optional
	Members []ListedMember `json:"members,omitempty"`
	// replicas is what the StatefulSet is to be scaled to now; absent while it is not scaled. The controller of the Etcd scales it.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// newClaim is the claim that did not exist when the StatefulSet was scaled up for a member that is to leave again; it is deleted
	// with that member.
	// +optional
	NewClaim string `json:"newClaim,omitempty"`
	// request is the newest request to change the member list. Its answer may be lost: the list says whether it took effect.
	// +optional
	Request *MembershipRequest `json:"request,omitempty"`
	// heldBy names the first guard that blocks the next step; absent when none does.
	// +optional
	HeldBy *Hold `json:"heldBy,omitempty"`
	// blockedBy are all guards that block the next step, in the order in which they are checked: the first is that of heldBy.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=guard
	// +optional
	BlockedBy []BlockedBy `json:"blockedBy,omitempty"`
	// lastProgressTime is when the task last recorded another step than before.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`
	// steps that this task recorded as intents, oldest first, at most the newest 30.
	// +kubebuilder:validation:MaxItems=30
	// +listType=atomic
	// +optional
	Steps []MembershipStep `json:"steps,omitempty"`
}

// Held returns the first guard that blocks the next step of a task, and all that do; nil when none does.
func (s *EtcdOperatorTaskStatus) Held() (*Hold, []BlockedBy) {
	switch {
	case s.Rollout != nil && s.Rollout.HeldBy != nil:
		return s.Rollout.HeldBy, s.Rollout.BlockedBy
	case s.Membership != nil:
		return s.Membership.HeldBy, s.Membership.BlockedBy
	}
	return nil, nil
}

// ListedMember is an entry of the member list, and what is known of the member.
type ListedMember struct {
	// id of the member, in hex.
	ID string `json:"id"`
	// name of the member; empty until it has started.
	// +optional
	Name string `json:"name,omitempty"`
	// role of the member.
	Role Role `json:"role"`
	// serving: the member answers, knows the leader of the newest term, and is not far behind it.
	Serving bool `json:"serving"`
	// store is what the agent of a member that does not run says of its volume: Free, Left or Other.
	// +optional
	Store string `json:"store,omitempty"`
	// leaving: the member was told that it is about to be removed.
	// +optional
	Leaving bool `json:"leaving,omitempty"`
}

// MembershipRequest is a request to change the member list.
type MembershipRequest struct {
	// action is AddLearner, PromoteLearner or RemoveMember.
	Action string `json:"action"`
	// member is the ID of the member, in hex; empty with AddLearner.
	// +optional
	Member string `json:"member,omitempty"`
	// pod of the member.
	// +optional
	Pod string `json:"pod,omitempty"`
	// before is how many members the list had.
	Before int32 `json:"before"`
	// requestedAt is when it was recorded.
	RequestedAt metav1.MicroTime `json:"requestedAt"`
}

// MembershipStep is a step that a MembershipChange recorded.
type MembershipStep struct {
	// action of the step.
	Action string `json:"action"`
	// pod of the member that it is about.
	// +optional
	Pod string `json:"pod,omitempty"`
	// member is the ID of the member that it is about, in hex; empty if there was none yet.
	// +optional
	Member string `json:"member,omitempty"`
	// reason is a human-readable sentence.
	Reason string `json:"reason"`
	// evidence that the decision is based on.
	Evidence Evidence `json:"evidence"`
}
