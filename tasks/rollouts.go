// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Rollouts is what the two rollout types have in common: what they need to know of the StatefulSet before they run. No member
// is asked for it, since members that hang would delay every task of the Etcd.
type Rollouts struct {
	// Client reads from the cache, and Live from the API server.
	Client, Live client.Reader
	Rule         replacer.Rule
}

// WorkKey returns what identifies the work of a task that is for a revision: that revision, or the current one where the task
// has not fixed any.
func (r Rollouts) WorkKey(ctx context.Context, task Task, revision string) (string, error) {
	if revision != "" {
		return revision, nil
	}
	set, foreign, err := r.statefulSet(ctx, r.Client, task)
	if set == nil || foreign != nil || err != nil {
		return "", err
	}
	return set.Status.UpdateRevision, nil
}

// Superseded implements Handler for a task that is for a revision. A cache that lags must not end a task.
func (r Rollouts) Superseded(ctx context.Context, task Task, revision string) (string, error) {
	if revision == "" {
		return "", nil
	}
	for _, reader := range []client.Reader{r.Client, r.Live} {
		set, foreign, err := r.statefulSet(ctx, reader, task)
		if set == nil || foreign != nil || err != nil {
			return "", err
		}
		if set.Status.ObservedGeneration < set.Generation || set.Status.UpdateRevision == revision {
			return "", nil
		}
		if reader == r.Live {
			return rollout.SupersededMessage(set.Name, revision, set.Status.UpdateRevision), nil
		}
	}
	return "", nil
}

// Admit implements Handler: there must be a StatefulSet of the Etcd, and nothing else may replace its pods.
func (r Rollouts) Admit(ctx context.Context, task Task) (Verdict, error) {
	set, foreign, err := r.statefulSet(ctx, r.Live, task)
	switch {
	case err != nil:
		return Verdict{}, err
	case set == nil:
		return Verdict{Outcome: Reject, Code: v1alpha1.ErrStatefulSetNotFound, Message: fmt.Sprintf(
			"Etcd %s has no StatefulSet yet: create the task again once it exists", task.Etcd.Name)}, nil
	case foreign != nil:
		return Verdict{Outcome: Reject, Code: v1alpha1.ErrForeignObject, Message: foreign.String()}, nil
	}
	if objection := r.Rule.Objection(task.Etcd, set); objection != "" {
		code := v1alpha1.ErrForeignObject
		if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
			code = v1alpha1.ErrStrategy
		}
		return Verdict{Outcome: Reject, Code: code, Message: objection}, nil
	}
	return Verdict{Outcome: Continue, Message: rollout.OnDeleteMessage(set.Name)}, nil
}

// statefulSet reads the StatefulSet with the name of the Etcd; nil when there is none. Foreign says whose it is, where it is not
// the Etcd's own.
func (r Rollouts) statefulSet(ctx context.Context, reader client.Reader, task Task) (set *appsv1.StatefulSet, foreign *ownership.Foreign, err error) {
	set, key := &appsv1.StatefulSet{}, task.Object.EtcdKey()
	if err := reader.Get(ctx, key, set); apierrors.IsNotFound(err) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, &v1alpha1.CodedError{Code: v1alpha1.ErrObserve, Err: fmt.Errorf("reading StatefulSet %s: %w", key, err)}
	}
	return set, r.Rule.Foreign(task.Etcd, "StatefulSet", set), nil
}
