// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package firststart

import (
	"context"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bootstrapping is the input of the decision on an Etcd that records no cluster and whose members run.
type bootstrapping struct {
	set *appsv1.StatefulSet
	// claims of its members, and of those that it may have had.
	claims []corev1.PersistentVolumeClaim
	// permitted: the members may already begin the cluster. served: a record says that the cluster has served.
	permitted, served bool
}

// inherits reports whether the members are beginning their cluster without a permission, because an earlier operator gave none or the
// ConfigMap was deleted: each claim was made for this StatefulSet, and nothing says that the cluster has served. It is pure.
func (b bootstrapping) inherits() bool {
	return !b.permitted && !b.served && state.Awake(b.set) && !slices.ContainsFunc(b.claims, func(c corev1.PersistentVolumeClaim) bool {
		return c.CreationTimestamp.Before(&b.set.CreationTimestamp)
	})
}

// inherit permits members that are beginning their cluster to do so. Otherwise members without data would wait for the others, and if those
// do not serve, a person would have to stop the members before the volumes can be surveyed.
func (s Starter) inherit(ctx context.Context, st *state.State, objects *apply.Session) error {
	if b, err := s.bootstrapping(ctx, s.Client, st.Etcd, st.StatefulSet, st.Manager); err != nil || !b.inherits() {
		return err
	}
	reads := s.Live()
	etcd, err := reads.Etcd(ctx, st.Etcd)
	if err != nil {
		return err
	}
	set, err := state.StatefulSet(ctx, reads, etcd)
	if err != nil {
		return err
	}
	if b, err := s.bootstrapping(ctx, reads, etcd, set, st.Manager); err != nil || !b.inherits() {
		return err
	}
	if owned, err := objects.Owned(ctx); err != nil || !owned {
		return err
	}
	return s.permit(ctx, reads, etcd, objects.Manager, member.FirstStart{})
}

func (s Starter) bootstrapping(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, manager string) (bootstrapping, error) {
	b := bootstrapping{set: set}
	config, err := memberconfig.ConfigMap(ctx, reader, etcd, manager)
	if err != nil {
		return b, err
	}
	permit, clusterID := written(etcd, config)
	// Without a ConfigMap, its earlier content is unknown.
	b.permitted, b.served = permit != nil, config == nil || clusterID != "" || etcd.Status.ClusterID != "" || etcd.Status.ClusterSize > 0
	if b.permitted || b.served {
		return b, nil
	}
	if b.claims, err = s.claims(ctx, reader, etcd); err != nil {
		return b, err
	}
	for i := range int32(survey.MaxMembers) {
		renewed, err := s.renewed(ctx, reader, etcd, i)
		if err != nil {
			return b, err
		}
		b.served = b.served || renewed
	}
	return b, nil
}

// renewed reports whether a member has renewed its lease, and so has known a leader.
func (s Starter) renewed(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, ordinal int32) (bool, error) {
	lease, err := lookup.Get[coordinationv1.Lease](ctx, reader, "lease", client.ObjectKey{Namespace: etcd.Namespace, Name: etcd.MemberName(etcd.PodName(ordinal))})
	if err != nil || lease == nil {
		return false, err
	}
	return ownership.Of(etcd, "Lease", lease) == nil && ptr.Deref(lease.Spec.HolderIdentity, "") != "", nil
}
