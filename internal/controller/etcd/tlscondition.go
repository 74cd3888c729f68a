// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tlsReady tells whether members and clients connect as the spec says, and otherwise where that stands.
func tlsReady(etcd *v1alpha1.Etcd, look tlsLook, s *cluster.Snapshot) metav1.Condition {
	no := func(reason, message string, args ...any) metav1.Condition {
		return condition(v1alpha1.ConditionTLSReady, metav1.ConditionFalse, reason, fmt.Sprintf(message, args...))
	}
	peers := etcd.Spec.Etcd.PeerURLTLS != nil
	switch {
	case look.problem != nil:
		return no(v1alpha1.ReasonSecretInvalid, "%s. The spec is not applied until this is repaired.", strings.ReplaceAll(look.problem.Error(), "\n", "; "))
	case s == nil:
		return no(v1alpha1.ReasonCertificatesRollout, "There is no StatefulSet yet.")
	case s.Replicas() == 0:
		return condition(v1alpha1.ConditionTLSReady, metav1.ConditionTrue, v1alpha1.ReasonHibernated, "The Etcd has no replicas.")
	case peers && look.station != component.PeerTLSOn && !everyMemberAt(s, look.station):
		return no(v1alpha1.ReasonCertificatesRollout, "First of two rollouts: %d of %d members have the certificates for TLS among members and participate. All go on without it until then.",
			count(s, func(p *cluster.Pod) bool { return p.PeerTLS != "" }), s.Replicas())
	case peers && look.station != component.PeerTLSOn:
		return no(v1alpha1.ReasonPeerURLsAdded, "Every member can call others with TLS: each is about to be listed with both its peer URLs. A second rollout follows.")
	case peers && !everyMemberAt(s, component.PeerTLSOn):
		return no(v1alpha1.ReasonPeerTLSRollout, "%d of %d members listen for others with TLS and participate.",
			count(s, func(p *cluster.Pod) bool { return p.PeerTLS == v1alpha1.TLSOn }), s.Replicas())
	case peers && len(peerURLChanges(component.PeerTLSOn, s)) > 0:
		return no(v1alpha1.ReasonPeerURLsRemoved, "Every member listens with TLS: its peer URL without is about to be removed.")
	}
	if withTLS := count(s, overTLS); etcd.Spec.Etcd.ClientURLTLS != nil && withTLS < s.Replicas() {
		return no(v1alpha1.ReasonCertificatesRollout, "%d of %d members listen for clients with TLS and participate.", withTLS, s.Replicas())
	}
	return condition(v1alpha1.ConditionTLSReady, metav1.ConditionTrue, v1alpha1.ReasonTLSInUse,
		fmt.Sprintf("The first certificate to expire is that in Secret %s, at %s.", look.facts.ExpiresIn, look.facts.Expires.UTC().Format(time.RFC3339)))
}

func overTLS(p *cluster.Pod) bool { return strings.HasPrefix(p.Endpoint, "https://") }

// count counts the members that participate and have pods like this.
func count(s *cluster.Snapshot, like func(*cluster.Pod) bool) int {
	n := 0
	for _, o := range s.Ordinals {
		if o.Class == v1alpha1.ClassParticipating && like(o.Pod) {
			n++
		}
	}
	return n
}

// tellOfTLS tells in an event of what has changed in the condition.
func (r *Reconciler) tellOfTLS(etcd *v1alpha1.Etcd, before, after *v1alpha1.EtcdStatus) {
	c := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionTLSReady)
	b := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionTLSReady)
	switch {
	case c == nil || b != nil && b.Reason == c.Reason && (c.Reason != v1alpha1.ReasonSecretInvalid || b.Message == c.Message):
		return
	case c.Reason == v1alpha1.ReasonSecretInvalid:
		r.Recorder.Eventf(etcd, nil, corev1.EventTypeWarning, c.Reason, "CheckSecrets", "%s", c.Message)
	default:
		r.Recorder.Eventf(etcd, nil, corev1.EventTypeNormal, c.Reason, "SwitchTLS", "%s", c.Message)
	}
}
