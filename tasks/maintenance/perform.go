// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// detail is the Detail of a tasks.Step of this type.
type detail struct {
	step Step
	in   Input
}

// Perform implements tasks.Handler. It only starts operations whose duration depends on the size of a database, and Execute follows them,
// so that they hold neither a worker of the operator nor the lock of the Etcd.
func (h *Handler) Perform(ctx context.Context, task tasks.Task, step tasks.Step) error {
	d := step.Detail.(detail)
	members := d.in.Snapshot.Ordinals
	asked := members[d.step.Ordinal]
	lasting := func(timeout time.Duration, do func(context.Context) error) {
		h.calls.Start(ctx, task.Object.UID, d.step.name(members), timeout, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, do(ctx)
		})
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	switch d.step.Action {
	case compact:
		lasting(lastingTimeout, func(ctx context.Context) error { return h.compact(ctx, task.Etcd, d) })
		return nil
	case defragment:
		lasting(defragmentTimeout(task.Etcd), func(ctx context.Context) error {
			return h.at(ctx, task.Etcd, asked, func(c etcdclient.Client) error { return c.Defragment(ctx) })
		})
		return nil
	case moveLeader:
		to := members[d.step.Successor].MemberID
		return coded.Error(v1alpha1.ErrMoveLeader, h.at(ctx, task.Etcd, asked, func(c etcdclient.Client) error { return c.MoveLeader(ctx, to) }))
	case disarm:
		return coded.Error(v1alpha1.ErrMaintenance, h.at(ctx, task.Etcd, asked, func(c etcdclient.Client) error { return c.Disarm(ctx, d.step.Alarm) }))
	}
	return fmt.Errorf("performing %s: no such action", d.step.Action)
}

// defragmentTimeout returns how long to wait for a member. etcd finishes a defragmentation that it has begun.
func defragmentTimeout(etcd *v1alpha1.Etcd) time.Duration {
	return ptr.Deref(etcd.Spec.Etcd.EtcdDefragTimeout, metav1.Duration{Duration: lastingTimeout}).Duration
}

// commitsUntilFree is how many commits it takes until a member reports the space that a compaction has freed as free.
const commitsUntilFree = 3

// compact sends the request to every voter: the first one makes the cluster compact, and each answers once it has done so itself.
// Defragmenting a database before that would free less. A member commits with each answer. Of 60 compactions on a busy machine, 9 showed no
// free space after the first commit, since the previous state was still being read, 8 after the second, and none after the third. Without
// writes, there are no other commits.
func (h *Handler) compact(ctx context.Context, etcd *v1alpha1.Etcd, d detail) error {
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	for i, o := range d.in.Snapshot.Ordinals {
		if _, reads := d.in.Databases[i]; !reads || o.Role == v1alpha1.RoleLearner {
			continue
		}
		all.Go(func() {
			err := h.at(ctx, etcd, o, func(c etcdclient.Client) error {
				for range commitsUntilFree {
					if err := c.Compact(ctx, d.step.Revision); err != nil {
						return err
					}
				}
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	all.Wait()
	return failed
}

// databases queries all members that answered, in parallel. Members that do not answer now are left out.
func (h *Handler) databases(ctx context.Context, etcd *v1alpha1.Etcd, snapshot *cluster.Snapshot) map[int]etcdclient.Database {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		found = map[int]etcdclient.Database{}
	)
	for i, o := range snapshot.Ordinals {
		if !o.Answers {
			continue
		}
		all.Go(func() {
			_ = h.at(ctx, etcd, o, func(c etcdclient.Client) error {
				db, err := c.Database(ctx)
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					found[i] = db
				}
				return err
			})
		})
	}
	all.Wait()
	return found
}

func (h *Handler) alarms(ctx context.Context, etcd *v1alpha1.Etcd, leader cluster.Ordinal) ([]etcdclient.Alarm, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var alarms []etcdclient.Alarm
	err := h.at(ctx, etcd, leader, func(c etcdclient.Client) (err error) {
		alarms, err = c.Alarms(ctx)
		return err
	})
	return alarms, err
}

// at calls a function with a client of a member.
func (h *Handler) at(ctx context.Context, etcd *v1alpha1.Etcd, o cluster.Ordinal, do func(etcdclient.Client) error) error {
	c, err := h.Credentials.Dial(ctx, h.Dialer, etcd, o.Name, o.Pod.Endpoint)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", o.Name, err)
	}
	return errors.Join(do(c), c.Close())
}
