// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/attempts"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
)

// pending is a template change that pods still have to follow.
type pending struct {
	etcd *v1alpha1.Etcd
	// set is the UID of the StatefulSet; a revision hash means nothing beyond it.
	set      types.UID
	revision string
	// tasks are all tasks of the Etcd.
	tasks []v1alpha1.EtcdOperatorTask
}

// covered reports whether a task that has not ended brings the pods to the revision. One that a user created
// counts.
func (p pending) covered() bool {
	return slices.ContainsFunc(p.tasks, func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Spec.Type.IsRollout() && !t.Status.State.IsFinal() && t.DeletionTimestamp == nil && rollout.TargetOf(&t).Reaches(p.revision)
	})
}

// next is the task to create, and how long to wait before that.
func (p pending) next(now time.Time) (*v1alpha1.EtcdOperatorTask, time.Duration) {
	attempt, wait := attempts.Next(p.tasks, v1alpha1.QuorumAwareRollout, p.prefix(), now)
	return p.task(attempt), wait
}

// prefix of the name of a task. The name is a function of what is to be done, so that two operators, or one
// with a cache that lags, do not create two tasks. The revision alone would not do: a template that is rolled
// back brings an old revision again.
func (p pending) prefix() string {
	hash := p.revision[strings.LastIndex(p.revision, "-")+1:]
	return fmt.Sprintf("%s-rollout-%s-%s-", p.etcd.Name, hash, ownership.Suffix(p.set))
}

func (p pending) task(attempt int) *v1alpha1.EtcdOperatorTask {
	return etcdtasks.New(p.etcd, fmt.Sprintf("%s%d", p.prefix(), attempt), v1alpha1.EtcdOperatorTaskSpec{
		Type:    v1alpha1.QuorumAwareRollout,
		Config:  "targetRevision: " + p.revision + "\n",
		Suspend: p.etcd.Annotations[v1alpha1.AnnotationRollout] == v1alpha1.RolloutManual || attempts.InheritSuspend(p.etcd, p.tasks, v1alpha1.TaskType.IsRollout),
	})
}
