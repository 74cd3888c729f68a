// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import "fmt"

// Quorate reports whether the cluster has a quorum, by what etcd itself says.
func (s *Snapshot) Quorate() bool { return s.HasQuorum() && s.Cluster.LeaderKnown }

// PodsBehind counts the ordinals whose pod is not at the StatefulSet's update revision, and those that have no pod.
func (s *Snapshot) PodsBehind() (outdated, missing int) {
	for _, o := range s.Ordinals {
		switch {
		case o.Pod == nil:
			missing++
		case o.Pod.Revision != s.StatefulSet.UpdateRevision:
			outdated++
		}
	}
	return outdated, missing
}

// Describe returns the class of the ordinal, with the kubelet's words where it has some.
func (o Ordinal) Describe() string {
	if o.Pod == nil || o.Pod.Trouble == "" {
		return string(o.Class)
	}
	return fmt.Sprintf("%s (%s)", o.Class, o.Pod.Trouble)
}
