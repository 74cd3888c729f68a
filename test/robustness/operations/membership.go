// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// membership are the changes of the member list. A cluster of one member that loses its volume loses what is in no backup, whoever operates
// it, and what is compared at the end is what was acknowledged.
func membership() []Operation {
	return []Operation{
		{Name: "scale out and in", Run: by((*Cluster).outAndIn)},
		{Name: "scale to one and back", Run: by((*Cluster).toOneAndBack), Not: aloneNot},
		{Name: "surge of the only member", Run: by((*Cluster).surge), Not: aloneNot},
	}
}

// aloneNot are faults that take the only data of a cluster of one member.
var aloneNot = []string{"volume lost", "volume lost and no promotion"}

// outAndIn adds two members, and removes them; or the other way round where five are as many as there may be.
func (c *Cluster) outAndIn(ctx context.Context) error {
	other := c.Members + 2
	if other > 5 {
		other = c.Members - 2
	}
	if err := c.resize(ctx, other); err != nil {
		return err
	}
	return c.resize(ctx, c.Members)
}

func (c *Cluster) toOneAndBack(ctx context.Context) error {
	if err := c.resize(ctx, 1); err != nil {
		return err
	}
	return c.resize(ctx, c.Members)
}

// surge replaces the pod of the only member by way of a second one.
func (c *Cluster) surge(ctx context.Context) error {
	if err := c.patch(ctx, func(e *v1alpha1.Etcd) { e.Spec.SurgePolicy = v1alpha1.SurgeSingleMember }); err != nil {
		return err
	}
	if err := c.resize(ctx, 1); err != nil {
		return err
	}
	if err := task(v1alpha1.QuorumAwareRollout, "restart: true")(ctx, c); err != nil {
		return err
	}
	return c.resize(ctx, c.Members)
}

// resize asks for so many members, agrees to one, and waits until there are so many.
func (c *Cluster) resize(ctx context.Context, n int) error {
	err := c.patch(ctx, func(e *v1alpha1.Etcd) {
		e.Spec.Replicas = int32(n)
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationAllowSingleMember, "true")
	})
	if err != nil {
		return err
	}
	return until(ctx, fmt.Sprintf("there are %d members", n), func(ctx context.Context) error {
		etcd, err := c.etcd(ctx)
		if err != nil {
			return err
		}
		set, err := c.statefulSet(ctx)
		if err != nil {
			return err
		}
		return resized(etcd, *set.Spec.Replicas, n)
	})
}

// resized returns nil once an Etcd says that its cluster has so many members, and its StatefulSet as many replicas.
func resized(etcd *v1alpha1.Etcd, replicas int32, n int) error {
	if int(etcd.Status.ClusterSize) != n || int(replicas) != n {
		return fmt.Errorf("the cluster has %d members, and the StatefulSet %d replicas", etcd.Status.ClusterSize, replicas)
	}
	return ready(etcd, v1alpha1.ConditionScaled, v1alpha1.ConditionAllMembersReady)
}
