// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package memberconfig

import (
	"context"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// List writes the initial cluster into the ConfigMap: a member for each ordinal of the StatefulSet, or all that the cluster is known to
// have if someone has scaled the StatefulSet down. Applying the spec writes it as well, but the number of members also changes without the
// spec: a second member that stands in must find itself in the list, and the first must not take itself for the only one.
func (i Writer) List(ctx context.Context, etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, objects *apply.Session) error {
	config, err := ConfigMap(ctx, i.Client, etcd, objects.Manager)
	if err != nil || !lists(etcd, set, config) {
		return err
	}
	if owned, err := objects.Owned(ctx); err != nil || !owned {
		return err
	}
	reads := i.Live()
	if set, err = state.StatefulSet(ctx, reads, etcd); err != nil {
		return err
	}
	if config, err = ConfigMap(ctx, reads, etcd, objects.Manager); err != nil || !lists(etcd, set, config) || ownership.Of(etcd, "ConfigMap", config) != nil {
		return err
	}
	bootstrap, err := component.Bootstrap(etcd, *set.Spec.Replicas, component.PeerTLS(config.Annotations[v1alpha1.AnnotationPeerTLS]))
	if err != nil {
		return fmt.Errorf("listing the members of Etcd %s/%s: %w", etcd.Namespace, etcd.Name, err)
	}
	if err := reads.Fresh(ctx); err != nil {
		return err
	}
	return i.patch(ctx, config, map[string]any{member.KeyBootstrap: bootstrap})
}

// lists reports whether the list in the ConfigMap of a cluster that has served has the wrong length. It must have a member for each ordinal of
// the StatefulSet, all members that the cluster is known to have, and the one that a recovery began with, from which members derive the ID of
// the recovered cluster. Each member has one URL.
func lists(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, config *corev1.ConfigMap) bool {
	if etcd.Status.ClusterID == "" || set == nil || config == nil || ptr.Deref(set.Spec.Replicas, 0) == 0 {
		return false
	}
	listed := strings.Count(config.Data[member.KeyBootstrap], "://")
	return listed > 0 && listed != int(component.Reaching(etcd, *set.Spec.Replicas))
}
