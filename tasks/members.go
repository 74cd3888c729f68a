// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NeverSuperseded is what types have in common whose tasks nothing makes outdated.
type NeverSuperseded[C any] struct{}

// Superseded implements Methods.
func (NeverSuperseded[C]) Superseded(context.Context, Typed[C]) (string, error) { return "", nil }

// Unobserved is what follows from an error of an observation: a task without a StatefulSet ends with an outcome, and any other error is returned.
func Unobserved(outcome Outcome, err error) (Verdict, error) {
	if errors.Is(err, observe.ErrNoStatefulSet) {
		return Verdict{Outcome: outcome, Code: v1alpha1.ErrStatefulSetNotFound, Message: err.Error()}, nil
	}
	return Verdict{}, coded.Error(v1alpha1.ErrObserve, err)
}

// AwaitStatefulSet is what follows from an error of an observation for a task that waits while there is no StatefulSet: one with another
// claim template may be about to replace it.
func AwaitStatefulSet(err error) (Verdict, error) {
	v, err := Unobserved(Continue, err)
	v.Reason, v.RequeueAfter = v1alpha1.ReasonRetrying, time.Second
	return v, err
}

// LiveEtcd returns the Etcd of a task as the API server has it: a cache may not show yet what its spec or its status says.
func LiveEtcd(ctx context.Context, live client.Reader, task Task) (*v1alpha1.Etcd, error) {
	etcd, key := &v1alpha1.Etcd{}, client.ObjectKeyFromObject(task.Etcd)
	err := live.Get(ctx, key, etcd)
	if err == nil && etcd.UID != task.Etcd.UID {
		err = fmt.Errorf("it is another one now, with UID %s", etcd.UID)
	}
	if err != nil {
		return nil, coded.Error(v1alpha1.ErrObserve, fmt.Errorf("reading Etcd %s: %w", key, err))
	}
	return etcd, nil
}

// AdmitWithQuorum admits a task if its cluster has a quorum.
func AdmitWithQuorum(ctx context.Context, observer observe.Interface, live client.Reader, etcd *v1alpha1.Etcd) (Verdict, error) {
	s, err := observer.Observe(ctx, live, etcd)
	if err != nil {
		return Unobserved(Reject, err)
	}
	serving := fmt.Sprintf("%d of %d voters serve", s.ServingVoters(), len(s.Cluster.Voters))
	if !s.HasQuorum() {
		return Rejected(v1alpha1.ErrNoQuorum, "the cluster has no quorum: %s, and it takes %d", serving, s.Quorum()), nil
	}
	return Verdict{Outcome: Continue, Message: serving}, nil
}
