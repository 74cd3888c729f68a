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

// pending is a template change that some pods have yet to follow.
type pending struct {
	etcd *v1alpha1.Etcd
	// set is the UID of the StatefulSet, outside of which a revision hash has no meaning.
	set      types.UID
	revision string
	// tasks are all tasks of the Etcd.
	tasks []v1alpha1.EtcdOperatorTask
}

// covered reports whether a task that has not ended brings the pods to the revision. A task that a user created counts as well.
func (p pending) covered() bool {
	return slices.ContainsFunc(p.tasks, func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Spec.Type.IsRollout() && !t.Status.State.IsFinal() && t.DeletionTimestamp == nil && rollout.TargetOf(&t).Reaches(p.revision)
	})
}

// next returns the task to create, and how long to wait before that.
func (p pending) next(now time.Time) (*v1alpha1.EtcdOperatorTask, time.Duration) {
	attempt, wait := attempts.Next(p.tasks, v1alpha1.QuorumAwareRollout, p.prefix(), now)
	return p.task(attempt), wait
}

// prefix returns the beginning of the task's name. The name is derived from what is to be done, so that two operators, or one with a stale
// cache, do not create two tasks. The revision alone does not suffice: rolling a template back brings back an old revision.
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
