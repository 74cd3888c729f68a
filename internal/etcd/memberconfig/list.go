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

// List brings the initial cluster in the ConfigMap to the members of the StatefulSet's ordinals, or to all that the cluster is known to have
// if someone has scaled the StatefulSet down. It is part of what is applied, but not only a change of the spec changes their number: a member
// that joins for a while has to find itself there, and the one beside it must not take itself for the only one.
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

// lists reports whether the ConfigMap of a cluster that has served lists another number of members than the StatefulSet runs, with all that the
// cluster is known to have, and the one that a recovery began with: by that one, members know the recovered cluster. Each is listed with one URL.
func lists(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, config *corev1.ConfigMap) bool {
	if etcd.Status.ClusterID == "" || set == nil || config == nil || ptr.Deref(set.Spec.Replicas, 0) == 0 {
		return false
	}
	listed := strings.Count(config.Data[member.KeyBootstrap], "://")
	return listed > 0 && listed != int(component.Reaching(etcd, *set.Spec.Replicas))
}
