// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// Quorate reports whether the cluster has a quorum according to etcd itself.
func (s *Snapshot) Quorate() bool { return s.HasQuorum() && s.Cluster.LeaderKnown }

// PodsBehind counts the ordinals whose pod is not at the StatefulSet's update revision, and those that have no pod.
func (s *Snapshot) PodsBehind() (outdated, missing int) {
	for _, o := range s.Ordinals {
		switch {
		case o.Pod == nil:
			missing++
		case !o.Pod.At(s.StatefulSet.UpdateRevision):
			outdated++
		}
	}
	return outdated, missing
}

// At reports whether the pod is at a revision, with no update in place in progress.
func (p *Pod) At(revision string) bool { return p.Revision == revision && !p.Updating }

// Describe returns the class of the ordinal, with the kubelet's message if there is one, and why that may no longer be true.
func (o Ordinal) Describe() string {
	var say []string
	if o.Pod != nil && o.Pod.Trouble != "" {
		say = append(say, o.Pod.Trouble)
	}
	if o.isDown() && o.Pod.Stale() != "" {
		say = append(say, "unknown now: "+o.Pod.Stale())
	}
	if len(say) == 0 {
		return string(o.Class)
	}
	return fmt.Sprintf("%s (%s)", o.Class, strings.Join(say, "; "))
}

// Stale returns why the kubelet's last report on the pod may no longer be true; empty if nothing suggests that. It never is for a pod that
// has ended for good: it is not started again.
func (p *Pod) Stale() string {
	switch {
	case p.Ended:
		return ""
	case p.Node.Trouble != "":
		return fmt.Sprintf("its node %s is %s", p.Node.Name, p.Node.Trouble)
	case p.NodeLost:
		return "its node is marked as lost"
	}
	return ""
}

// KnownClass returns the class as far as it is certain: a pod that was Dead or Starting when its node was lost may be Unready by now.
func (o *Ordinal) KnownClass() v1alpha1.PodClass {
	if o.isDown() && o.Pod.Stale() != "" {
		return v1alpha1.ClassUnready
	}
	return o.Class
}

// MayRun reports whether the etcd of the ordinal is running, or may be running (ADR 46).
func (o *Ordinal) MayRun() bool {
	if o.Class == v1alpha1.ClassTerminating {
		return !o.Pod.EtcdStarted.IsZero() || o.Pod.Stale() != ""
	}
	return o.Pod != nil && !o.IsDown()
}

// IsDown reports whether the etcd of the ordinal is certainly not running although its pod exists.
func (o *Ordinal) IsDown() bool { return o.isDown() && o.Pod.Stale() == "" }

func (o *Ordinal) isDown() bool {
	return o.Class == v1alpha1.ClassDead || o.Class == v1alpha1.ClassStarting
}

// Votes reports whether the member of the ordinal says that it is a voter.
func (o Ordinal) Votes() bool {
	return o.Role == v1alpha1.RoleLeader || o.Role == v1alpha1.RoleFollower
}

// EveryMember reports whether every voter and replica belongs to this StatefulSet, participates, and has a pod that satisfies a condition.
// Unknown counts as no.
func (s *Snapshot) EveryMember(is func(*Pod) bool) bool {
	return len(s.Cluster.Voters) == s.Replicas() &&
		s.CountOrdinals(func(o Ordinal) bool { return o.Class == v1alpha1.ClassParticipating && is(o.Pod) }) == s.Replicas() &&
		s.CountVoters(func(v Voter) bool { return v.Ordinal >= 0 }) == s.Replicas()
}

// OrdinalOf returns the ordinal of the pod with this UID; -1 if it is gone.
func (s *Snapshot) OrdinalOf(uid types.UID) int {
	return slices.IndexFunc(s.Ordinals, func(o Ordinal) bool { return o.Pod != nil && o.Pod.UID == uid })
}

// NotParticipating returns the name of a pod, other than that of one ordinal, that does not exist or does not participate; empty if there
// is none.
func (s *Snapshot) NotParticipating(except int) string {
	for i, o := range s.Ordinals {
		if i != except && o.Class != v1alpha1.ClassParticipating {
			return o.Name
		}
	}
	if len(s.Surplus) > 0 {
		return s.Surplus[0]
	}
	return ""
}

// NotServing returns the name of a pod, other than that of one ordinal, that does not exist or does not serve; empty if there is none.
func (s *Snapshot) NotServing(except int) string {
	for i, o := range s.Ordinals {
		if i != except && (!o.Serving || o.Role == v1alpha1.RoleLearner || o.Class == v1alpha1.ClassTerminating) {
			return o.Name
		}
	}
	return ""
}
