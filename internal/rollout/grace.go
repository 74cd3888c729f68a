// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// gracePeriod returns the grace period that the pod of an ordinal is deleted with, if it is shorter than the pod's own, and why;
// 0 if the pod keeps its own. A pod keeps its own unless everything says that its member does not serve: the kubelet, whose
// word is not stale, and the member itself. If the operator is cut off from all members, nothing is known of one that is
// running.
func gracePeriod(o *cluster.Ordinal, short time.Duration, cutOff bool) (period time.Duration, why string) {
	if o.Pod == nil || o.Pod.GracePeriod <= short || o.Pod.Stale() != "" {
		return 0, ""
	}
	switch {
	case o.IsDown():
		return short, "its etcd is not running"
	case o.Class != v1alpha1.ClassUnready || cutOff || o.Serving || o.Pod.Ready:
		return 0, ""
	case !o.Answers:
		return short, "its readiness probe fails and it does not answer"
	case o.Lag <= cluster.MaxLag:
		return short, "its readiness probe fails and it knows no leader"
	}
	// A member that is catching up is at work.
	return 0, ""
}

// shorten gives the pods of a removal whose members do not serve a short grace period, and says so. An eviction is for members
// that serve.
func (s *state) shorten(step *Step, period func(*cluster.Ordinal, time.Duration, bool) (time.Duration, string)) {
	if step.Action != DeletePod {
		return
	}
	for _, i := range step.Ordinals {
		o := s.ordinal(i)
		if short, why := period(o, s.Config.shortGrace(), s.byReadiness); short > 0 {
			if step.Grace == nil {
				step.Grace = map[int]time.Duration{}
			}
			step.Grace[i] = short
			step.Reason += fmt.Sprintf("; %s gets a grace period of %s (its own is %s): %s", o.Name, short, o.Pod.GracePeriod, why)
		}
	}
}
