// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// crowd is an Etcd with many tasks, as a cache has them. Its statuses are written at no cost.
type crowd struct {
	client.Client
	etcd   *v1alpha1.Etcd
	all    []*v1alpha1.EtcdOperatorTask
	writes int
	// refused is a task whose status is not written.
	refused types.UID
}

func (c *crowd) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.etcd.DeepCopyInto(into.(*v1alpha1.Etcd))
	return nil
}

// List copies, as a cache does, unless it is told that no caller writes to what it returns.
func (c *crowd) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	given := (&client.ListOptions{}).ApplyOptions(options)
	list := into.(*v1alpha1.EtcdOperatorTaskList)
	list.Items = make([]v1alpha1.EtcdOperatorTask, len(c.all))
	for i, t := range c.all {
		if given.UnsafeDisableDeepCopy != nil && *given.UnsafeDisableDeepCopy {
			list.Items[i] = *t
		} else {
			t.DeepCopyInto(&list.Items[i])
		}
	}
	return nil
}

func (c *crowd) Status() client.SubResourceWriter { return crowdStatus{c} }

type crowdStatus struct{ *crowd }

func (c crowdStatus) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return nil
}

func (c crowdStatus) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return nil
}

func (c crowdStatus) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return nil
}

func (c crowdStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	t := o.(*v1alpha1.EtcdOperatorTask)
	if t.UID == c.refused {
		return errors.New("the API server is away")
	}
	for i, known := range c.all {
		if known.UID == t.UID {
			c.all[i] = t.DeepCopy()
		}
	}
	c.writes++
	return nil
}

// notes is a config of any fields.
type notes map[string]string

func (*notes) Default()        {}
func (*notes) Validate() error { return nil }

// decoder is a handler that counts what it decodes. Its tasks do not get ahead.
type decoder struct {
	actor
	decodes, keys int
}

func (d *decoder) Decode(config string) (any, error) {
	d.decodes++
	return taskconfig.Decode[notes](config)
}

func (d *decoder) WorkKey(_ context.Context, task tasks.Task) (string, error) {
	d.keys++
	return task.Object.Name, nil
}

func newCrowd(pending, finished int) *crowd {
	c := &crowd{etcd: &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: mainKey.Namespace, Name: mainKey.Name, UID: "etcd", CreationTimestamp: metav1.Time{Time: epoch}}}}
	add := func(n int, state v1alpha1.TaskState) {
		// The cache keeps no config of a task that has ended.
		var config strings.Builder
		for line := 0; line < 1000 && !state.IsFinal(); line++ {
			fmt.Fprintf(&config, "key-%04d-of-task-%05d: %s\n", line, n, strings.Repeat("x", 34))
		}
		name := fmt.Sprintf("task-%05d", n)
		t := &v1alpha1.EtcdOperatorTask{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: mainKey.Namespace, Name: name, UID: types.UID(name), ResourceVersion: "7", CreationTimestamp: metav1.Time{Time: epoch.Add(time.Duration(n) * time.Second)},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: mainKey.Name, UID: "etcd"}},
			},
			Spec:   v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.OnDemandSnapshot, Config: config.String(), OwnerEtcdReference: v1alpha1.EtcdReference{Name: mainKey.Name}},
			Status: v1alpha1.EtcdOperatorTaskStatus{State: state},
		}
		if state.IsFinal() {
			t.Status.CompletedAt = &metav1.Time{Time: epoch.Add(time.Hour)}
		}
		c.all = append(c.all, t)
	}
	for n := range finished {
		add(n, v1alpha1.TaskStateSucceeded)
	}
	for n := range pending {
		add(finished+n, "")
	}
	return c
}

func (c *crowd) engine(h tasks.Handler) *Reconciler {
	return &Reconciler{
		Client: c, Live: c, Registry: tasks.Registry{v1alpha1.OnDemandSnapshot: {Handler: h}}, Locker: &lock.Locks{},
		Recorder: &events.FakeRecorder{}, Metrics: NewMetrics(prometheus.NewRegistry()), Clock: clocktesting.NewFakePassiveClock(epoch.Add(time.Hour)),
	}
}

// However many tasks there are of an Etcd, a reconcile of it is short. Their configs have 58 KiB.
func TestManyTasks(t *testing.T) {
	for _, n := range []struct{ pending, finished, rejected int }{{40, 0, 0}, {200, 0, 150}, {200, 10_000, 150}, {2_000, 0, 1950}} {
		t.Run(fmt.Sprintf("%d pending and %d finished", n.pending, n.finished), func(t *testing.T) {
			g := NewWithT(t)
			c, h := newCrowd(n.pending, n.finished), &decoder{}
			r := c.engine(h)
			passes, decodes := 0, 0
			var longest time.Duration
			for settled := false; !settled; passes++ {
				h.decodes, h.keys, c.writes = 0, 0, 0
				began := time.Now()
				_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: mainKey})
				took := time.Since(began)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(c.writes).To(BeNumerically("<=", maxLine+maxTurnedAway), "others wait for the API server too")
				g.Expect(h.keys).To(BeNumerically("<=", maxLine))
				decodes += h.decodes
				longest = max(longest, took)
				settled = c.writes == 0
				if passes == 0 || settled {
					t.Logf("pass %d: %d decodes, %d work keys, %d writes, %s", passes+1, h.decodes, h.keys, c.writes, took.Round(100*time.Microsecond))
				}
			}
			t.Logf("%d passes, the longest %s", passes, longest.Round(100*time.Microsecond))
			g.Expect(decodes).To(BeNumerically("<=", maxLine), "each config once")
			rejected := 0
			for _, t := range c.all {
				if t.Status.State == v1alpha1.TaskStateRejected {
					rejected++
					g.Expect(t.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrTooManyTasks))
				}
			}
			g.Expect(rejected).To(Equal(n.rejected))
		})
	}
}

// A recovery is not turned away, whatever else waits.
func TestRecoveryIsNeverTurnedAway(t *testing.T) {
	g := NewWithT(t)
	c, h := newCrowd(60, 0), &decoder{}
	recovery := c.all[59]
	recovery.Spec.Type = v1alpha1.QuorumLossRecovery
	r := c.engine(h)
	r.Registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Handler: h}
	for range 3 {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: mainKey})
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(c.all[59].Status.State).To(Equal(v1alpha1.TaskStateInProgress))
	g.Expect(c.all[58].Status.State).To(Equal(v1alpha1.TaskStateRejected))
}
