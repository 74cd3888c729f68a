// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ready returns the condition DataVolumesReady: whether a member cannot start because of its volume, which has unusable content, does not
// exist yet, or is lost.
func (v *View) Ready(s *cluster.Snapshot) metav1.Condition {
	status, reason := metav1.ConditionTrue, ""
	var say []string
	trouble := func(as metav1.ConditionStatus, because, message string, args ...any) {
		if as == metav1.ConditionFalse || status == metav1.ConditionTrue {
			status = as
		}
		reason = cmp.Or(reason, because)
		say = append(say, fmt.Sprintf(message, args...))
	}
	for _, o := range s.Ordinals {
		// A member that waits to be added does not wait for its volume: see the task that changes the members.
		if o.Pod != nil && o.Pod.Refusal != nil && o.Pod.Refusal.Reason != v1alpha1.ReasonNotListed {
			trouble(metav1.ConditionFalse, o.Pod.Refusal.Reason, "%s does not start: %s", o.Name, o.Pod.Refusal.Message)
		}
		i := slices.IndexFunc(v.claims, func(c claim) bool { return strings.HasSuffix(c.name, "-"+o.Name) })
		if i < 0 {
			continue
		}
		switch c := v.claims[i]; {
		case c.lost:
			trouble(metav1.ConditionFalse, v1alpha1.ReasonVolumeLost, "the volume of claim %s no longer exists: delete the claim and its pod, and the member comes back with an empty one", c.name)
		case c.warning != "":
			trouble(metav1.ConditionFalse, v1alpha1.ReasonVolumeMissing, "claim %s has no volume: %s", c.name, strings.TrimSuffix(c.warning, "."))
		case !c.bound:
			trouble(metav1.ConditionUnknown, v1alpha1.ReasonVolumeMissing, "claim %s has no volume yet", c.name)
		}
	}
	if reason != "" {
		return conditions.New(v1alpha1.ConditionDataVolumesReady, status, reason, "%s.", strings.Join(say, "; "))
	}
	return conditions.True(v1alpha1.ConditionDataVolumesReady, v1alpha1.ReasonDataVolumesReady, "No member is kept from starting by its volume.")
}

// newestWarning returns the message of the newest of some events, on one line.
func newestWarning(events []corev1.Event) string {
	var newest *corev1.Event
	for i := range events {
		if e := &events[i]; newest == nil || lastSeen(newest).Before(lastSeen(e)) {
			newest = e
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Reason + ": " + strings.Join(strings.Fields(newest.Message), " ")
}

// lastSeen returns when an event was last seen. Writers of events use different fields for it.
func lastSeen(e *corev1.Event) *metav1.Time {
	switch {
	case e.Series != nil:
		return &metav1.Time{Time: e.Series.LastObservedTime.Time}
	case !e.LastTimestamp.IsZero():
		return &e.LastTimestamp
	}
	return &metav1.Time{Time: e.EventTime.Time}
}
