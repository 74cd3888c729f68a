// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/attempts"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	for i := range p.tasks {
		t := &p.tasks[i]
		if !t.Spec.Type.IsRollout() || t.Status.State.IsFinal() || t.DeletionTimestamp != nil {
			continue
		}
		if rollout.TargetOf(t).Reaches(p.revision) {
			return true
		}
	}
	return false
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
	return fmt.Sprintf("%s-rollout-%s-%s-", p.etcd.Name, hash, attempts.Hash(p.set))
}

func (p pending) task(attempt int) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       p.etcd.Namespace,
			Name:            fmt.Sprintf("%s%d", p.prefix(), attempt),
			Labels:          map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: p.etcd.Name},
			OwnerReferences: []metav1.OwnerReference{etcdtasks.Owner(p.etcd)},
		},
		Spec: v1alpha1.EtcdOperatorTaskSpec{
			Type:               v1alpha1.QuorumAwareRollout,
			Config:             "targetRevision: " + p.revision + "\n",
			OwnerEtcdReference: v1alpha1.EtcdReference{Name: p.etcd.Name},
			Suspend:            p.etcd.Annotations[v1alpha1.AnnotationRollout] == v1alpha1.RolloutManual || attempts.InheritSuspend(p.etcd, p.tasks, v1alpha1.TaskType.IsRollout),
		},
	}
}
