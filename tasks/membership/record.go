// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxMembers and maxSteps bound status.membership.members and steps.
	maxMembers, maxSteps = 16, 30
)

// record is the status of the task after a decision. It is pure; the input is left as it is.
func record(in input, d membership.Decision, now time.Time) v1alpha1.MembershipStatus {
	r := *in.recorded.DeepCopy()
	r.Size, r.ServingVoters = int32(in.Goal.Size), 0
	r.Members = nil
	if len(in.Members) > 0 {
		r.Voters = 0 // otherwise no member returned the list, and there are as many as were counted last
	}
	for _, m := range in.Members {
		if !m.Learner {
			r.Voters++
			if m.Serving {
				r.ServingVoters++
			}
		}
		if len(r.Members) < maxMembers {
			r.Members = append(r.Members, in.listed(m))
		}
	}
	r.Replicas = scaledTo(d)
	if d.Conclusion == membership.Act && d.Step.Action == membership.ScaleUp && d.Step.Ordinal >= in.Goal.Size && in.Claims[d.Step.Ordinal] == nil {
		r.NewClaim = in.Etcd.ClaimName(int32(d.Step.Ordinal))
	}
	r.HeldBy, r.BlockedBy = held(in, d, now), nil
	for _, h := range d.Blocking {
		r.BlockedBy = append(r.BlockedBy, v1alpha1.BlockedBy{Guard: v1alpha1.GuardName(h.Guard), Pod: in.podOf(d.Step), Message: h.Message})
	}
	if d.Conclusion == membership.Act {
		recordStep(&r, in, d.Step, now)
	}
	if r.LastProgressTime == nil || r.LastProgressTime.After(now) {
		r.LastProgressTime = &metav1.Time{Time: now}
	}
	return r
}

func (in input) listed(m membership.Member) v1alpha1.ListedMember {
	l := v1alpha1.ListedMember{ID: hex(m.ID), Name: m.Name, Role: v1alpha1.RoleFollower, Serving: m.Serving, Leaving: m.Told}
	switch {
	case m.Learner:
		l.Role = v1alpha1.RoleLearner
	case m.Leads:
		l.Role = v1alpha1.RoleLeader
	case !m.Serving:
		l.Role = v1alpha1.RoleUnknown
	}
	if m.Owner == membership.Ours && m.Ordinal < len(in.Snapshot.Ordinals) {
		l.Store = string(in.Snapshot.Ordinals[m.Ordinal].Volume().Store)
	}
	return l
}

// held is the hold to show. It has lasted since the same guard began to block for the same pod.
func held(in input, d membership.Decision, now time.Time) *v1alpha1.Hold {
	if len(d.Blocking) == 0 {
		return nil
	}
	h := &v1alpha1.Hold{Guard: v1alpha1.GuardName(d.Blocking[0].Guard), Pod: in.podOf(d.Step), Message: d.Blocking[0].Message, Since: metav1.Time{Time: now}}
	if before := in.recorded.HeldBy; before != nil && before.Guard == h.Guard && before.Pod == h.Pod {
		h.Since = before.Since
	}
	return h
}

// podOf returns the pod that a step is about; empty if it is about none.
func (in input) podOf(step *membership.Step) string {
	if step == nil || step.Ordinal < 0 {
		return ""
	}
	return in.Etcd.PodName(int32(step.Ordinal))
}

// recordStep records what is about to be done. The same step again is no progress.
func recordStep(r *v1alpha1.MembershipStatus, in input, step *membership.Step, now time.Time) {
	s := v1alpha1.MembershipStep{Action: string(step.Action), Pod: in.podOf(step), Reason: step.Reason, Evidence: in.evidence(step, now)}
	if step.Member != 0 {
		s.Member = hex(step.Member)
	}
	if n := len(r.Steps); n > 0 && r.Steps[n-1].Action == s.Action && r.Steps[n-1].Pod == s.Pod && r.Steps[n-1].Member == s.Member {
		if scaledTo(membership.Decision{Conclusion: membership.Act, Step: step}) == nil {
			r.Steps[n-1] = s
		}
	} else {
		r.Steps = append(r.Steps, s)
		r.LastProgressTime = &metav1.Time{Time: now}
	}
	if n := len(r.Steps) - maxSteps; n > 0 {
		r.Steps = r.Steps[n:]
	}
	if isRequest(step.Action) {
		r.Request = &v1alpha1.MembershipRequest{Action: s.Action, Member: s.Member, Pod: s.Pod, Before: int32(len(in.Members)), RequestedAt: metav1.MicroTime{Time: now}}
	}
}

// isRequest reports whether an action asks etcd to change the member list.
func isRequest(a membership.Action) bool {
	return a == membership.AddLearner || a == membership.PromoteLearner || a == membership.RemoveMember
}

func (in input) evidence(step *membership.Step, now time.Time) v1alpha1.Evidence {
	e := v1alpha1.Evidence{ObservedAt: metav1.MicroTime{Time: now}, Term: int64(in.Snapshot.Cluster.Term)}
	for _, m := range in.Members {
		if m.Learner {
			continue
		}
		e.Voters++
		if m.Serving {
			e.ServingVoters++
			e.Serving = append(e.Serving, m.Name)
		}
		if m.Leads {
			e.Leader = m.Name
		}
	}
	e.Quorum = int32(quorum.Size(int(e.Voters)))
	switch i := step.Ordinal; {
	case step.Action == membership.DeleteClaim && in.Claims[i] != nil:
		e.ResourceVersion = in.Claims[i].ResourceVersion
	case i >= 0 && i < len(in.Snapshot.Ordinals) && in.Snapshot.Ordinals[i].Pod != nil:
		e.ResourceVersion = in.Snapshot.Ordinals[i].Pod.ResourceVersion
	}
	return e
}

func hex(id uint64) string { return fmt.Sprintf("%x", id) }
