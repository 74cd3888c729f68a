// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	firstBackoff = 10 * time.Second
	maxBackoff   = 10 * time.Minute
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
	attempt, wait := 1, time.Duration(0)
	for i := range p.tasks {
		t := &p.tasks[i]
		if t.Spec.Type != v1alpha1.QuorumAwareRollout {
			continue // who may create only other types neither delays rollouts nor counts them
		}
		number, own := strings.CutPrefix(t.Name, p.prefix())
		// What follows has been added because another task had the name.
		number, _, _ = strings.Cut(number, "-")
		n, err := strconv.Atoi(number)
		if !own || err != nil || n < attempt {
			continue
		}
		attempt = n + 1
		wait = 0
		if t.Status.CompletedAt != nil && !endedWell(t) {
			wait = max(t.Status.CompletedAt.Add(backoff(n)).Sub(now), 0)
		}
	}
	return p.task(attempt), wait
}

// prefix of the name of a task. The name is a function of what is to be done, so that two operators, or one
// with a cache that lags, do not create two tasks. The revision alone would not do: a template that is rolled
// back brings an old revision again.
func (p pending) prefix() string {
	h := fnv.New32a()
	// A hash never fails to write.
	_, _ = h.Write([]byte(p.set))
	hash := p.revision[strings.LastIndex(p.revision, "-")+1:]
	return fmt.Sprintf("%s-rollout-%s-%s-", p.etcd.Name, hash, rand.SafeEncodeString(fmt.Sprint(h.Sum32())))
}

func (p pending) task(attempt int) *v1alpha1.EtcdOperatorTask {
	return etcdtasks.New(p.etcd, fmt.Sprintf("%s%d", p.prefix(), attempt), v1alpha1.EtcdOperatorTaskSpec{
		Type:    v1alpha1.QuorumAwareRollout,
		Config:  "targetRevision: " + p.revision + "\n",
		Suspend: p.etcd.Annotations[v1alpha1.AnnotationRollout] == v1alpha1.RolloutManual || p.inheritsSuspend(),
	})
}

// inheritsSuspend: the rollout that this one follows was suspended, and has not run to its end. One that was rejected on
// arrival was none: the engine had not made the Etcd its owner.
func (p pending) inheritsSuspend() bool {
	var newest *v1alpha1.EtcdOperatorTask
	for i := range p.tasks {
		t := &p.tasks[i]
		if t.Status.State == v1alpha1.TaskStateRejected && !etcdtasks.IsOwned(t, p.etcd) {
			continue
		}
		if t.Spec.Type.IsRollout() && (newest == nil || queue.Compare(t, newest) > 0) {
			newest = t
		}
	}
	return newest != nil && newest.Spec.Suspend && (!newest.Status.State.IsFinal() || superseded(newest))
}

func endedWell(t *v1alpha1.EtcdOperatorTask) bool {
	return t.Status.State == v1alpha1.TaskStateSucceeded || superseded(t)
}

func superseded(t *v1alpha1.EtcdOperatorTask) bool {
	n := len(t.Status.LastErrors)
	return t.Status.State == v1alpha1.TaskStateRejected && n > 0 && t.Status.LastErrors[n-1].Code == v1alpha1.ErrSuperseded
}

// backoff is how long to wait after an attempt that did not end well.
func backoff(attempt int) time.Duration {
	d := firstBackoff
	for range attempt - 1 {
		if d *= 2; d > maxBackoff {
			return maxBackoff
		}
	}
	return d
}
