// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Resize changes the number of members, and agrees to one.
func (c Cluster) Resize(ctx context.Context, members int32) error {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}},"spec":{"replicas":%d}}`, v1alpha1.AnnotationAllowSingleMember, members)
	if err := c.Client.Patch(ctx, etcd, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("changing the replicas of Etcd %s: %w", c.Key(), err)
	}
	return nil
}

// WaitSize waits until the members are those that the spec asks for, and the pods of others are gone.
func (c Cluster) WaitSize(ctx context.Context, members int32, note Note) error {
	return until(ctx, waitTimeout, fmt.Sprintf("%d members of Etcd %s", members, c.Key()), note, func(ctx context.Context) (string, error) {
		etcd := &v1alpha1.Etcd{}
		if err := c.Client.Get(ctx, c.Key(), etcd); err != nil {
			return "", fmt.Errorf("reading Etcd %s: %w", c.Key(), err)
		}
		scaled := etcd.Status.Conditions.Find(v1alpha1.ConditionScaled)
		switch {
		case etcd.Status.ObservedGeneration < etcd.Generation || scaled == nil:
			return "the operator has not applied the newest spec", nil
		case scaled.Status != metav1.ConditionTrue || etcd.Status.ClusterSize != members:
			return scaled.Message, nil
		}
		if pod, err := c.Pod(ctx, int(members)); err == nil {
			return pod.Name + " is not gone yet", nil
		} else if !apierrors.IsNotFound(err) {
			return "", err
		}
		return "", nil
	})
}
