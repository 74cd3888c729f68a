// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet/store"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const operatorNamespace = "operator"

// world is some Etcds with a task each that needs a slot.
type world struct {
	t     *testing.T
	api   client.WithWatch
	clock *clocktesting.FakeClock
	limit int
	n     int
	// lost is how often the ledger was.
	lost int
}

func newWorld(t *testing.T, n, limit int) *world {
	t.Helper()
	// The fake client maps all kinds of its scheme at each write.
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), limit: limit, n: n}
	policy := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "policy", Generation: 1}}
	policy.Spec.MaxConcurrent = ptr.To(intstr.FromInt32(int32(limit)))
	policy.Spec.Canary.Count = ptr.To(int32(0))
	policy.Spec.Soak = &metav1.Duration{}
	objects := []client.Object{policy}
	for i := range n {
		ns, etcd, task := w.objects(i)
		objects = append(objects, ns, etcd, task)
	}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Etcd{}, &v1alpha1.EtcdOperatorTask{}, &v1alpha1.EtcdFleetPolicy{}).WithObjects(objects...).Build()
	return w
}

func namespaceOf(i int) string { return fmt.Sprintf("ns%d", i) }

func (w *world) objects(i int) (*corev1.Namespace, *v1alpha1.Etcd, *v1alpha1.EtcdOperatorTask) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i), Name: "main", UID: types.UID(fmt.Sprintf("etcd%d", i))}}
	etcd.Spec.Replicas, etcd.Status.ClusterID = 3, "1"
	for _, condition := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady} {
		etcd.Status.Conditions.Set(metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Well"})
	}
	task := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespaceOf(i), Name: "task", UID: types.UID(fmt.Sprintf("task%d", i)),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "main", UID: etcd.UID}},
	}}
	task.Spec.Type, task.Spec.OwnerEtcdReference.Name = v1alpha1.OnDemandMaintenance, "main"
	task.Status.State = v1alpha1.TaskStatePending
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(i)}}, etcd, task
}

// operator is one of several operators, whose writes are disturbed.
type operator struct {
	*Controller
	world  *world
	client client.WithWatch
	// backwards: the last task asks first.
	backwards bool
	// hidden: its cache shows no policy.
	hidden bool
	// write is called before each write, and carries it out.
	write func(do func() error) error
	// hasRead is called after a task was read, and before it is asked about.
	hasRead func()
}

func (w *world) operator() *operator {
	o := &operator{world: w, write: func(do func() error) error { return do() }, hasRead: func() {}}
	disturbed := func(do func() error) error {
		err := o.write(do)
		w.judge()
		return err
	}
	o.client = interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, policies := list.(*v1alpha1.EtcdFleetPolicyList); policies && o.hidden {
				return nil
			}
			return c.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return disturbed(func() error {
				err := c.Create(ctx, object, options...)
				// The fake client counts the versions of each object from 1: an object that is made again must not have one of the lost one.
				for i := 0; err == nil && i < 20*w.lost; i++ {
					object.SetAnnotations(map[string]string{"version": fmt.Sprint(i)})
					err = c.Update(ctx, object)
				}
				return err
			})
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return disturbed(func() error { return c.Update(ctx, object, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return disturbed(func() error { return c.Patch(ctx, object, patch, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
			return disturbed(func() error { return c.SubResource(name).Update(ctx, object, options...) })
		},
	})
	o.Controller = New(o.client, w.api, operatorNamespace, w.clock, events.NewFakeRecorder(1000), NewMetrics(prometheus.NewRegistry()))
	return o
}

// start does what the task engine does with a task that has its turn: it asks, and writes the start on what it has read.
func (o *operator) start(i int) {
	ctx := o.world.t.Context()
	task, etcd := &v1alpha1.EtcdOperatorTask{}, &v1alpha1.Etcd{}
	if o.world.api.Get(ctx, types.NamespacedName{Namespace: namespaceOf(i), Name: "task"}, task) != nil || task.Status.State != v1alpha1.TaskStatePending {
		return
	}
	if err := o.world.api.Get(ctx, types.NamespacedName{Namespace: namespaceOf(i), Name: "main"}, etcd); err != nil {
		o.world.t.Fatal(err)
	}
	o.hasRead()
	if wait, err := o.Ask(ctx, tasks.Task{Object: task, Etcd: etcd}); wait != nil || err != nil {
		return
	}
	status.RecordAdmission(task, "", "", o.world.clock.Now())
	_ = o.client.Status().Update(ctx, task)
}

// all starts what may start, and looks at the fleet. What is too late, or refused, is tried again in the next round.
func (o *operator) all() {
	for i := range o.world.n {
		if o.backwards {
			i = o.world.n - 1 - i
		}
		o.start(i)
	}
	_, _ = o.Reconcile(o.world.t.Context(), ctrl.Request{})
	o.world.clock.Step(2 * time.Second)
}

// running returns the tasks that run, and succeeded counts those that have succeeded.
func (w *world) running() []int { return w.in(v1alpha1.TaskStateInProgress) }
func (w *world) succeeded() int { return len(w.in(v1alpha1.TaskStateSucceeded)) }

func (w *world) in(state v1alpha1.TaskState) (all []int) {
	for i := range w.n {
		task := &v1alpha1.EtcdOperatorTask{}
		if w.api.Get(w.t.Context(), types.NamespacedName{Namespace: namespaceOf(i), Name: "task"}, task) == nil && task.Status.State == state {
			all = append(all, i)
		}
	}
	return all
}

// finish ends the tasks that run.
func (w *world) finish() {
	for _, i := range w.running() {
		task := &v1alpha1.EtcdOperatorTask{}
		if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: namespaceOf(i), Name: "task"}, task); err != nil {
			w.t.Fatal(err)
		}
		task.Status.State = v1alpha1.TaskStateSucceeded
		if err := w.api.Status().Update(w.t.Context(), task); err != nil {
			w.t.Fatal(err)
		}
	}
}

// judge counts tasks and slots after each write of any operator.
func (w *world) judge() {
	w.t.Helper()
	if n := len(w.running()); n > w.limit {
		w.t.Errorf("%d tasks run", n)
	}
	object := &corev1.ConfigMap{}
	if w.api.Get(w.t.Context(), types.NamespacedName{Namespace: operatorNamespace, Name: store.Name}, object) != nil {
		return
	}
	l := &fleet.Ledger{}
	if json.Unmarshal([]byte(object.Data[store.Key]), l) != nil {
		return
	}
	used := 0
	for i := range l.Holders {
		if l.Holders[i].UsesSlot() {
			used++
		}
	}
	if used > w.limit {
		w.t.Errorf("the ledger has %d holders", used)
	}
}

// lose deletes the ledger.
func (w *world) lose() {
	w.lost++
	_ = w.api.Delete(w.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: store.Name}})
}

var errLost = errors.New("the answer is lost")

// One operator is disturbed at each of its writes: its answer or its request is lost, it is killed, or it is paused there while another
// one takes over, for which the ledger may also be lost. At no moment do more tasks run, or hold slots, than there are slots; and in
// the end each task has run.
func TestTwoOperatorsAndALedger(t *testing.T) {
	disturbances := map[string]func(w *world, do func() error, other *operator) error{
		"answer lost":  func(_ *world, do func() error, _ *operator) error { _ = do(); return errLost },
		"request lost": func(*world, func() error, *operator) error { return errLost },
		"paused":       func(_ *world, do func() error, other *operator) error { other.all(); return do() },
		"paused, and tasks end": func(w *world, do func() error, other *operator) error {
			other.all()
			w.finish()
			other.all()
			return do()
		},
		"paused, and the ledger lost": func(w *world, do func() error, other *operator) error {
			w.lose()
			other.all()
			return do()
		},
		"the ledger lost":            func(w *world, do func() error, _ *operator) error { w.lose(); return do() },
		"the ledger lost afterwards": func(w *world, do func() error, _ *operator) error { err := do(); w.lose(); return err },
	}
	for name, disturb := range disturbances {
		for _, limit := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, limit %d", name, limit), func(t *testing.T) {
				at := 0
				for disturbed(t, limit, at, disturb) {
					at++
				}
				if t.Logf("%d writes were disturbed", at); at < newWrites {
					t.Errorf("only %d writes were disturbed: each of 3 tasks is granted, started and released", at)
				}
			})
		}
	}
}

// newWrites is how many writes an operator has to do at least for the tasks of three clusters.
const newWrites = 6

// disturbed runs two operators until all tasks have run, the first of which is disturbed at the write of a number. It reports whether
// there was such a write.
func disturbed(t *testing.T, limit, at int, disturb func(w *world, do func() error, other *operator) error) bool {
	t.Helper()
	w := newWorld(t, 3, limit)
	o, other := w.operator(), w.operator()
	other.backwards = true
	writes := 0
	o.write = func(do func() error) error {
		if writes++; writes-1 == at {
			return disturb(w, do, other)
		}
		return do()
	}
	for round := 0; round < 12 && w.succeeded() < w.n; round++ {
		o.all()
		w.finish()
	}
	if n := w.succeeded(); n < w.n {
		t.Errorf("write %d: only %d tasks have succeeded", at, n)
	}
	return writes > at
}
