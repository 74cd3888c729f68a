// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",resources=events,verbs=list

// dataVolumesReady tells whether a member is kept from starting by its volume: by what it found there, because there is
// none yet, or because there is none any more.
func dataVolumesReady(s *cluster.Snapshot, claims []claim) metav1.Condition {
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
		if o.Pod != nil && o.Pod.Refusal != nil {
			trouble(metav1.ConditionFalse, o.Pod.Refusal.Reason, "%s does not start: %s", o.Name, o.Pod.Refusal.Message)
		}
		i := slices.IndexFunc(claims, func(c claim) bool { return strings.HasSuffix(c.name, "-"+o.Name) })
		if i < 0 {
			continue
		}
		switch c := claims[i]; {
		case c.lost:
			trouble(metav1.ConditionFalse, v1alpha1.ReasonVolumeLost, "the volume of claim %s does not exist any more: delete the claim and its pod, and the member comes back with an empty one", c.name)
		case c.warning != "":
			trouble(metav1.ConditionFalse, v1alpha1.ReasonVolumeMissing, "claim %s has no volume: %s", c.name, strings.TrimSuffix(c.warning, "."))
		case !c.bound:
			trouble(metav1.ConditionUnknown, v1alpha1.ReasonVolumeMissing, "claim %s has no volume yet", c.name)
		}
	}
	if reason != "" {
		return condition(v1alpha1.ConditionDataVolumesReady, status, reason, strings.Join(say, "; ")+".")
	}
	return condition(v1alpha1.ConditionDataVolumesReady, metav1.ConditionTrue, v1alpha1.ReasonDataVolumesReady, "No member is kept from starting by its volume.")
}

// maxEvents bounds what is read of a claim's events. There are few: the API server forgets them after an hour.
const maxEvents = 100

// claimWarning is the newest warning of a claim that waits for its volume; empty when there is none. A claim may wait
// for days, so the API server is not asked each time.
func (r *Reconciler) claimWarning(ctx context.Context, etcd types.NamespacedName, c *corev1.PersistentVolumeClaim) (string, error) {
	now := r.Clock.Now()
	if w, ok := r.memory.of(etcd).warnings[c.UID]; ok && now.Sub(w.at) < detailInterval {
		return w.text, nil
	}
	events := &corev1.EventList{}
	err := r.APIReader.List(ctx, events, client.InNamespace(c.Namespace), client.Limit(maxEvents),
		client.MatchingFields{"involvedObject.uid": string(c.UID), "type": corev1.EventTypeWarning})
	if err != nil {
		return "", fmt.Errorf("listing the events of claim %s: %w", client.ObjectKeyFromObject(c), err)
	}
	w := claimWarning{at: now, text: newestWarning(events.Items)}
	r.memory.change(etcd, func(m *remembered) {
		m.warnings = maps.Clone(m.warnings)
		if m.warnings == nil {
			m.warnings = map[types.UID]claimWarning{}
		}
		m.warnings[c.UID] = w
	})
	return w.text, nil
}

// claimWarning is what was last read of the events of a claim.
type claimWarning struct {
	at   time.Time
	text string
}

// newestWarning is what the newest of some events says, on one line.
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

// lastSeen is when an event was last seen, by whichever of the fields its writer uses.
func lastSeen(e *corev1.Event) *metav1.Time {
	switch {
	case e.Series != nil:
		return &metav1.Time{Time: e.Series.LastObservedTime.Time}
	case !e.LastTimestamp.IsZero():
		return &e.LastTimestamp
	}
	return &metav1.Time{Time: e.EventTime.Time}
}
