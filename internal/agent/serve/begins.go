// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// recordTimeout bounds how long the record of where a cluster begins may take.
const recordTimeout = 10 * time.Second

// Begins returns a function that records in the lease of full snapshots at which revision a cluster begins: a datadir.Recorder. A lease that is not
// there is an error: the operator makes it.
func Begins(config *rest.Config, namespace, name string) (func(ctx context.Context, at func(began int64) int64) (int64, error), error) {
	l, err := newLease(config, namespace, name, 0)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, at func(began int64) int64) (revision int64, err error) {
		ctx, cancel := context.WithTimeout(ctx, recordTimeout)
		defer cancel()
		err = l.update(ctx, func(lease *coordinationv1.Lease) *coordinationv1.Lease {
			began := backup.ParseBegan(lease.Annotations[v1alpha1.AnnotationBeganAt])
			if revision = at(began); revision <= began {
				return nil
			}
			next := &coordinationv1.Lease{}
			metav1.SetMetaDataAnnotation(&next.ObjectMeta, v1alpha1.AnnotationBeganAt, strconv.FormatInt(revision, 10))
			return next
		})
		return revision, err
	}, nil
}
