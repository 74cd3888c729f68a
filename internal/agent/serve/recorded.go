// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"strconv"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// Recorded returns a function that reads the newest snapshot that leases record, first that of full snapshots and then that of deltas, and where a
// person lets the store end nevertheless.
func Recorded(config *rest.Config, namespace string, names ...string) (func(context.Context) (backup.Record, error), error) {
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for leases: %w", err)
	}
	return func(ctx context.Context) (record backup.Record, err error) {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		accepted := int64(0)
		for _, name := range names {
			lease, err := client.Leases(namespace).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return backup.Record{}, fmt.Errorf("reading lease %s/%s: %w", namespace, name, err)
			}
			r, err := backup.ParseRecord(ptr.Deref(lease.Spec.HolderIdentity, ""), ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time)
			if err != nil {
				return backup.Record{}, fmt.Errorf("reading lease %s/%s: %w", namespace, name, err)
			}
			record = record.Continued(r)
			if n, err := strconv.ParseInt(lease.Annotations[v1alpha1.AnnotationAcceptRevision], 10, 64); err == nil {
				accepted = n
			}
		}
		if record != (backup.Record{}) {
			record.Accepted = accepted
		}
		return record, nil
	}, nil
}
