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

// NeverSuperseded implements Superseded for types whose tasks never become outdated.
type NeverSuperseded[C any] struct{}

// Superseded implements Methods.
func (NeverSuperseded[C]) Superseded(context.Context, Typed[C]) (string, error) { return "", nil }

// Unobserved turns an error of an observation into a verdict: without a StatefulSet, the task ends with an outcome. It returns any other
// error.
func Unobserved(outcome Outcome, err error) (Verdict, error) {
	if errors.Is(err, observe.ErrNoStatefulSet) {
		return Verdict{Outcome: outcome, Code: v1alpha1.ErrStatefulSetNotFound, Message: err.Error()}, nil
	}
	return Verdict{}, coded.Error(v1alpha1.ErrObserve, err)
}

// AwaitStatefulSet is Unobserved for a task that waits while there is no StatefulSet: one with another claim template may be about to
// replace it.
func AwaitStatefulSet(err error) (Verdict, error) {
	v, err := Unobserved(Continue, err)
	v.Reason, v.RequeueAfter = v1alpha1.ReasonRetrying, time.Second
	return v, err
}

// LiveEtcd reads the Etcd of a task from the API server, since the cache may lag behind its spec and status.
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

// AdmitWithQuorum admits a task if its cluster is the operator's to work on, and has a quorum.
func AdmitWithQuorum(ctx context.Context, observer observe.Interface, live client.Reader, etcd *v1alpha1.Etcd) (Verdict, error) {
	s, err := observer.Observe(ctx, live, etcd)
	if err != nil {
		return Unobserved(Reject, err)
	}
	if foreign := s.StatefulSet.Foreign; foreign != "" {
		return Rejected(v1alpha1.ErrForeignObject, "%s", foreign), nil
	}
	serving := fmt.Sprintf("%d of %d voters serve", s.ServingVoters(), len(s.Cluster.Voters))
	if !s.HasQuorum() {
		return Rejected(v1alpha1.ErrNoQuorum, "the cluster has no quorum: %s, and it takes %d", serving, s.Quorum()), nil
	}
	return Verdict{Outcome: Continue, Message: serving}, nil
}

// GoesOn says what goes on after the end of a task that has chosen what a cluster starts from; empty for any other.
func GoesOn(t *v1alpha1.EtcdOperatorTask) string {
	if !t.SetsAside() {
		return ""
	}
	says, r := ". ", t.Status.Recovery
	if r.Phase == v1alpha1.RecoveryStarting {
		// The Etcd controller may not have recorded it.
		says += fmt.Sprintf("If status.recovery of Etcd %s names the task, the", t.Spec.OwnerEtcdReference.Name)
	} else {
		says += "The"
	}
	says += " members go on to start from what it has chosen"
	if r.Restore == nil {
		return says
	}
	if r.Restore.Fenced {
		says += ". Clients are let in, also while no quorum votes"
	}
	return says + ". To go back to what the members had before, undo the task once a quorum serves"
}
