// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Rollouts is what the two rollout types have in common: what they need to know about the StatefulSet before they run. It asks no member:
// one that hangs would delay every task of the Etcd.
type Rollouts[C interface{ Target() rollout.Target }] struct {
	// Client reads from the cache and writes to the API server, and Live reads from it.
	Client client.Client
	Live   client.Reader
	// Rule decides whose pods the operator replaces.
	Rule replacer.Rule
}

// WorkKey implements Methods. Two rollouts to the same revision are the same work, and so are two restarts of the same pods. A task that
// names no revision is for the current one.
func (r Rollouts[C]) WorkKey(ctx context.Context, task Typed[C]) (string, error) {
	if target := task.Config.Target().Of(task.Object); target.Restart {
		return r.restartKey(ctx, task.Task)
	} else if target.Revision != "" {
		return target.Revision, nil
	}
	set, foreign, err := r.statefulSet(ctx, r.Client, task.Task)
	if set == nil || foreign != nil || err != nil {
		return "", err
	}
	return set.Status.UpdateRevision, nil
}

// restartKey is the work key of a restart. A restart leaves pods alone that are newer than itself, such as those that it has replaced, and
// a later one replaces them, too. While no pod is newer, restarts have the same key, so that only one of them waits.
func (r Rollouts[C]) restartKey(ctx context.Context, task Task) (string, error) {
	const all = "restart"
	some := all + " " + string(task.Object.UID)
	if s := task.Object.Status.Rollout; s != nil && len(s.Pods) > 0 {
		return some, nil
	}
	set, foreign, err := r.statefulSet(ctx, r.Client, task)
	if err != nil {
		return "", err
	} else if set == nil || foreign != nil {
		return all, nil
	}
	for i := range ptr.Deref(set.Spec.Replicas, 1) {
		pod, err := lookup.Get[corev1.Pod](ctx, r.Client, "pod", client.ObjectKey{Namespace: set.Namespace, Name: fmt.Sprintf("%s-%d", set.Name, i)})
		switch {
		case err != nil:
			return "", coded.Error(v1alpha1.ErrObserve, err)
		case pod != nil && pod.CreationTimestamp.After(task.Object.CreationTimestamp.Time):
			return some, nil
		}
	}
	return all, nil
}

// Superseded implements Methods: a task for a revision is outdated once the StatefulSet has another one. A restart is not. A cache that
// lags must not end a task.
func (r Rollouts[C]) Superseded(ctx context.Context, task Typed[C]) (string, error) {
	target := task.Config.Target().Of(task.Object)
	if target.Restart || target.Revision == "" {
		return "", nil
	}
	for _, reader := range []client.Reader{r.Client, r.Live} {
		set, foreign, err := r.statefulSet(ctx, reader, task.Task)
		if set == nil || foreign != nil || err != nil {
			return "", err
		}
		if set.Status.ObservedGeneration < set.Generation || set.Status.UpdateRevision == target.Revision {
			return "", nil
		}
		if reader == r.Live {
			return rollout.SupersededMessage(set.Name, target.Revision, set.Status.UpdateRevision), nil
		}
	}
	return "", nil
}

// Admit implements Methods: there must be a StatefulSet of the Etcd, and nothing else may replace its pods. A cache that lags may admit a
// task, which then decides on live reads, but never rejects one.
func (r Rollouts[C]) Admit(ctx context.Context, task Typed[C]) (Verdict, error) {
	v, err := r.admit(ctx, r.Client, task.Task)
	if err == nil && v.Outcome != Continue {
		v, err = r.admit(ctx, r.Live, task.Task)
	}
	return v, err
}

func (r Rollouts[C]) admit(ctx context.Context, reader client.Reader, task Task) (Verdict, error) {
	set, foreign, err := r.statefulSet(ctx, reader, task)
	switch {
	case err != nil:
		return Verdict{}, err
	case set == nil:
		return Rejected(v1alpha1.ErrStatefulSetNotFound, "Etcd %s has no StatefulSet yet: create the task again once it exists", task.Etcd.Name), nil
	case foreign != nil:
		return Rejected(v1alpha1.ErrForeignObject, "%s", foreign), nil
	}
	if objection := r.Rule.Objection(task.Etcd, set); objection != "" {
		code := v1alpha1.ErrForeignObject
		if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
			code = v1alpha1.ErrStrategy
		}
		return Rejected(code, "%s", objection), nil
	}
	return Verdict{Outcome: Continue, Message: rollout.OnDeleteMessage(set.Name)}, nil
}

// statefulSet reads the StatefulSet with the name of the Etcd; nil if there is none. If it is not the Etcd's own, foreign says whose it is.
func (r Rollouts[C]) statefulSet(ctx context.Context, reader client.Reader, task Task) (set *appsv1.StatefulSet, foreign *ownership.Foreign, err error) {
	set, err = lookup.Get[appsv1.StatefulSet](ctx, reader, "StatefulSet", task.Object.EtcdKey())
	if err != nil || set == nil {
		return nil, nil, coded.Error(v1alpha1.ErrObserve, err)
	}
	return set, r.Rule.Foreign(task.Etcd, "StatefulSet", set), nil
}
