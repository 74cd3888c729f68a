// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// waitFor is the hold of a pod that does not exist or does not participate, with what a person can do.
func (s *state) waitFor(pod string) *Hold {
	i := slices.IndexFunc(s.Snapshot.Ordinals, func(o cluster.Ordinal) bool { return o.Name == pod })
	if i < 0 {
		return &Hold{Pod: pod, Message: fmt.Sprintf("%s is not among the replicas of StatefulSet %s and must terminate first", pod, s.Snapshot.StatefulSet.Name)}
	}
	return &Hold{Pod: pod, Message: pod + " " + adviceFor(*s.ordinal(i), s.Snapshot.StatefulSet.Name)}
}

func clockTime(t time.Time) string { return t.UTC().Format("15:04:05 MST") }
