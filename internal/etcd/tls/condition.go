// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tls

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition returns the condition TLSReady: whether members and clients connect as the spec says, or else how far the change is.
// The Snapshot is nil if there is no StatefulSet.
func (p Plan) Condition(etcd *v1alpha1.Etcd, s *cluster.Snapshot) metav1.Condition {
	no := func(reason, message string, args ...any) metav1.Condition {
		return conditions.False(v1alpha1.ConditionTLSReady, reason, message, args...)
	}
	yes := func(reason, message string, args ...any) metav1.Condition {
		return conditions.True(v1alpha1.ConditionTLSReady, reason, message, args...)
	}
	peers := etcd.PeerTLS() != nil
	switch {
	case p.Problem != nil:
		return no(v1alpha1.ReasonSecretInvalid, "%s. The spec is not applied until this is fixed.", strings.ReplaceAll(p.Problem.Error(), "\n", "; "))
	case p.Managed.Problem != nil:
		return no(v1alpha1.ReasonCertificatesNotRenewed, "%s. Until this is fixed, the members keep the certificates that they have.", strings.ReplaceAll(p.Managed.Problem.Error(), "\n", "; "))
	case s == nil:
		return no(v1alpha1.ReasonCertificatesRollout, "There is no StatefulSet yet.")
	case s.Replicas() == 0:
		return yes(v1alpha1.ReasonHibernated, "The Etcd has no replicas.")
	case peers && p.Stage != component.PeerTLSOn && !everyMemberAt(s, p.Stage):
		return no(v1alpha1.ReasonCertificatesRollout, "First of two rollouts: %d of %d members have the certificates for TLS among members and participate. Peers use plaintext until then.%s",
			count(s, func(p *cluster.Pod) bool { return p.PeerTLS != "" }), s.Replicas(), p.startedWithOthers(s))
	case peers && p.Stage != component.PeerTLSOn:
		return no(v1alpha1.ReasonPeerURLsAdded, "Every member can connect to its peers with TLS; each is about to be listed with both its peer URLs. A second rollout follows.")
	case peers && !everyMemberAt(s, component.PeerTLSOn):
		return no(v1alpha1.ReasonPeerTLSRollout, "%d of %d members listen for peers with TLS and participate.%s",
			count(s, func(p *cluster.Pod) bool { return p.PeerTLS == v1alpha1.TLSOn }), s.Replicas(), p.startedWithOthers(s))
	case peers && len(peerURLChanges(component.PeerTLSOn, s)) > 0:
		return no(v1alpha1.ReasonPeerURLsRemoved, "Every member listens with TLS; the plaintext peer URLs are about to be removed.")
	}
	if withTLS := count(s, overTLS); etcd.ClientTLS() != nil && withTLS < s.Replicas() {
		return no(v1alpha1.ReasonCertificatesRollout, "%d of %d members listen for clients with TLS and participate.%s", withTLS, s.Replicas(), p.startedWithOthers(s))
	}
	first := fmt.Sprintf("The first certificate to expire is that in Secret %s, at %s.%s", p.Facts.ExpiresIn, p.Facts.Expires.UTC().Format(time.RFC3339), p.startedWithOthers(s))
	return yes(v1alpha1.ReasonTLSInUse, "%s", strings.Join(slices.Concat([]string{first}, p.Facts.Remarks, p.Managed.Remarks), " "))
}

// startedWithOthers returns a remark on members that were started with other CAs than those of the Secrets: they trust no certificate of a new one.
// It is not known of pods without a record, such as those of etcd-druid.
func (p Plan) startedWithOthers(s *cluster.Snapshot) string {
	others := s.CountOrdinals(func(o cluster.Ordinal) bool {
		return o.Pod != nil && o.Pod.Authorities != "" && o.Pod.Authorities != p.Facts.Authorities
	})
	if others == 0 {
		return ""
	}
	return fmt.Sprintf(" %d of %d members were started with other CAs than those in the Secrets, and refuse certificates of new ones until a rollout has restarted them.", others, s.Replicas())
}

func overTLS(p *cluster.Pod) bool { return strings.HasPrefix(p.Endpoint, "https://") }

// count returns the number of members that participate and whose pod satisfies a condition.
func count(s *cluster.Snapshot, like func(*cluster.Pod) bool) int {
	return s.CountOrdinals(func(o cluster.Ordinal) bool { return o.Class == v1alpha1.ClassParticipating && like(o.Pod) })
}
