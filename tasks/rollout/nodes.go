// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import "fmt"

// volumeReachable: a pod that could not come back with its data stays, whatever state it is in.
func volumeReachable(s *situation) *Hold {
	o := s.subject()
	if o.Pod.VolumeTrouble == "" {
		return nil
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("a successor of %s could not have its data: %s", o.Name, o.Pod.VolumeTrouble)}
}

// nodesStable: a serving member does not go while another one, which the quorum counts on, may be lost at any moment.
// A member that serves nobody costs nothing, and its successor may help.
func nodesStable(s *situation) *Hold {
	if !s.subject().Serving {
		return nil
	}
	for i, o := range s.Snapshot.Ordinals {
		switch {
		case i == s.next || !o.Serving:
		case o.Pod.Disrupted:
			return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s is being evicted or preempted by somebody else: the rollout goes on when its successor participates", o.Name)}
		case o.Pod.Node.Trouble != "":
			return &Hold{Pod: o.Name, Message: fmt.Sprintf("node %s of %s is %s, so %s may be lost at any moment: if the node does not come back, taint it with node.kubernetes.io/out-of-service", o.Pod.Node.Name, o.Name, o.Pod.Node.Trouble, o.Name)}
		}
	}
	return nil
}
