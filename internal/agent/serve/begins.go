// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// recordTimeout bounds how long the record of where a cluster begins may take.
const recordTimeout = 10 * time.Second

// Begins returns a function that records in the lease of full snapshots at which revision a cluster begins: a datadir.Recorder. A lease that is not
// there is an error, since the operator makes it, and so is one that is foreign to the Etcd, of which namespace, name and UID are known.
func Begins(config *rest.Config, etcd *v1alpha1.Etcd, name string) (func(ctx context.Context, token string, at func(began int64, again bool) int64) (int64, error), error) {
	l, err := newLease(config, etcd.Namespace, name, 0)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, token string, at func(began int64, again bool) int64) (revision int64, err error) {
		ctx, cancel := context.WithTimeout(ctx, recordTimeout)
		defer cancel()
		var foreign *ownership.Foreign
		err = l.update(ctx, func(lease *coordinationv1.Lease) (next *coordinationv1.Lease) {
			// The label of its manager may be that of etcd-druid already, which the Etcd is handed back to.
			if foreign = nil; !metav1.IsControlledBy(lease, etcd) {
				foreign = ownership.Of(etcd, "Lease", lease)
			}
			if foreign != nil {
				return nil
			}
			revision, next = begins(lease, token, at)
			return next
		})
		switch {
		case foreign != nil:
			return 0, errors.New(foreign.String())
		case apierrors.IsNotFound(err):
			return 0, missing(etcd.Namespace, name, err)
		}
		return revision, err
	}, nil
}

// begins returns at which revision a cluster begins by what a lease records, and what to write of it; nil if that is there.
func begins(lease *coordinationv1.Lease, token string, at func(began int64, again bool) int64) (int64, *coordinationv1.Lease) {
	began, with := backup.ParseBegan(lease.Annotations[v1alpha1.AnnotationBeganAt]), lease.Annotations[v1alpha1.AnnotationBeganWith]
	revision := at(began, token != "" && token == with)
	if revision <= began && (token == "" || token == with) {
		return revision, nil
	}
	next := &coordinationv1.Lease{}
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, v1alpha1.AnnotationBeganAt, strconv.FormatInt(max(revision, began), 10))
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, v1alpha1.AnnotationBeganWith, token)
	return revision, next
}

// missing says what to do about a lease that someone has deleted.
func missing(namespace, name string, err error) error {
	return fmt.Errorf("Lease %s/%s does not exist: the operator recreates it, unless the annotation %s or %s of the Etcd suspends that; then remove the annotation (%w)",
		namespace, name, v1alpha1.AnnotationSuspendSpecReconcile, v1alpha1.AnnotationIgnoreReconciliation, err)
}
