// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// Quorate reports whether the cluster has a quorum, by what etcd itself says.
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

// At reports whether the pod is at a revision: it has it, and no update in place has begun.
func (p *Pod) At(revision string) bool { return p.Revision == revision && !p.Updating }

// Describe returns the class of the ordinal, with the kubelet's words where it has some.
func (o Ordinal) Describe() string {
	if o.Pod == nil || o.Pod.Trouble == "" {
		return string(o.Class)
	}
	return fmt.Sprintf("%s (%s)", o.Class, o.Pod.Trouble)
}

// IsRunning reports whether the etcd of the ordinal is running.
func (o *Ordinal) IsRunning() bool {
	return o.Class == v1alpha1.ClassUnready || o.Class == v1alpha1.ClassParticipating
}

// OrdinalOf returns the ordinal of the pod with this UID; -1 when it is gone.
func (s *Snapshot) OrdinalOf(uid types.UID) int {
	return slices.IndexFunc(s.Ordinals, func(o Ordinal) bool { return o.Pod != nil && o.Pod.UID == uid })
}

// NotParticipating names a pod, other than that of one ordinal, that does not exist or does not participate; empty when
// there is none.
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

// NotServing names a pod, other than that of one ordinal, that does not exist or does not serve; empty when there is none.
func (s *Snapshot) NotServing(except int) string {
	for i, o := range s.Ordinals {
		if i != except && (!o.Serving || o.Role == v1alpha1.RoleLearner || o.Class == v1alpha1.ClassTerminating) {
			return o.Name
		}
	}
	return ""
}
