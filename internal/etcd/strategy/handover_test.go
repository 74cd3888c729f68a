// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package strategy

import (
	"context"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// looks are observations, each of a cluster of its own.
type looks struct {
	n       int
	observe func(look int) *cluster.Snapshot
}

func (l *looks) Observe(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	l.n++
	return apitest.Members(func() *cluster.Snapshot { return l.observe(l.n) }).Observe(ctx, reader, etcd)
}

// handingOver is an Etcd of three members whose StatefulSet has the update strategy OnDelete, while the feature gate is off.
type handingOver struct {
	*WithT
	etcd   *v1alpha1.Etcd
	set    *appsv1.StatefulSet
	client client.WithWatch
	clock  *clocktesting.FakePassiveClock
	keeper *Keeper
}

func newHandingOver(t *testing.T, observe func(look int) *cluster.Snapshot) *handingOver {
	h := &handingOver{WithT: NewWithT(t), clock: clocktesting.NewFakePassiveClock(noon)}
	h.etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd-main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	h.set = apitest.StatefulSet(h.etcd, 3)
	h.set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	h.client = apitest.API(h.etcd, h.set)
	h.keeper = &Keeper{Access: state.Access{Client: h.client, API: h.client, Observer: &looks{observe: observe}, Locker: &lock.Locks{}, Clock: h.clock}}
	return h
}

// through has the keeper use a client that does something else.
func (h *handingOver) through(funcs interceptor.Funcs) {
	c := interceptor.NewClient(h.client, funcs)
	h.keeper.Client, h.keeper.API = c, c
}

func (h *handingOver) reconcile(t *testing.T) (waits bool, err error) {
	objects := &apply.Objects{Writer: apply.Writer{Client: h.keeper.Client, Live: h.keeper.API}, Clock: h.clock}
	session, err := objects.Begin(t.Context(), h.etcd, h.set, "")
	h.Expect(err).NotTo(HaveOccurred())
	return h.keeper.Reconcile(t.Context(), &state.State{Etcd: h.etcd, StatefulSet: h.set}, session)
}

// strategy of the StatefulSet now.
func (h *handingOver) strategy(t *testing.T) appsv1.StatefulSetUpdateStrategyType {
	live := &appsv1.StatefulSet{}
	h.Expect(h.client.Get(t.Context(), client.ObjectKeyFromObject(h.set), live)).To(Succeed())
	return live.Spec.UpdateStrategy.Type
}

// each reconciles with each of the requests failing.
func (h *handingOver) each(t *testing.T) {
	t.Helper()
	api, observe := h.client, h.keeper.Observer.(*looks).observe
	apitest.EachRequestFails(t, api, func(failing client.WithWatch) error {
		h.keeper = &Keeper{Access: state.Access{Client: failing, API: failing, Observer: &looks{observe: observe}, Locker: &lock.Locks{}, Clock: h.clock}, QuorumAware: h.keeper.QuorumAware}
		waits, err := h.reconcile(t)
		h.Expect(err == nil && waits).To(BeFalse())
		return err
	})
	h.keeper = &Keeper{Access: state.Access{Client: api, API: api, Observer: &looks{observe: observe}, Locker: &lock.Locks{}, Clock: h.clock}, QuorumAware: h.keeper.QuorumAware}
}

func TestHandOver(t *testing.T) {
	h := newHandingOver(t, func(int) *cluster.Snapshot { return clustertest.Healthy(3) })
	h.each(t)
	waits, err := h.reconcile(t)
	h.Expect(waits).To(BeFalse())
	h.Expect(err).To(MatchError(state.ErrBehind))
	h.Expect(h.strategy(t)).To(Equal(appsv1.RollingUpdateStatefulSetStrategyType))
}

// A task that held the lock until now may have deleted a pod: whether the StatefulSet controller may take the next one is
// decided again, while no task can act.
func TestHandOverIsDecidedAgainUnderTheLock(t *testing.T) {
	var h *handingOver
	locked := false
	h = newHandingOver(t, func(look int) *cluster.Snapshot {
		if look == 1 {
			return clustertest.Healthy(3)
		}
		locked = apitest.Locked(h.keeper.Locker, h.etcd)
		return missing(1)
	})
	waits, err := h.reconcile(t)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(waits).To(BeTrue())
	h.Expect(locked).To(BeTrue(), "the second decision is made under the lock")
	h.Expect(h.strategy(t)).To(Equal(appsv1.OnDeleteStatefulSetStrategyType))
}

// An operator that was paused does not hand over on what it saw before, and none does on a StatefulSet that has changed since it
// was read.
func TestHandOverOnWhatHasChanged(t *testing.T) {
	t.Run("the operator is paused", func(t *testing.T) {
		var h *handingOver
		h = newHandingOver(t, func(look int) *cluster.Snapshot {
			if look == 2 {
				h.clock.SetTime(noon.Add(state.MaxReadAge + time.Second))
			}
			return clustertest.Healthy(3)
		})
		waits, err := h.reconcile(t)
		h.Expect(err).NotTo(HaveOccurred())
		h.Expect(waits).To(BeTrue())
		h.Expect(h.strategy(t)).To(Equal(appsv1.OnDeleteStatefulSetStrategyType))
	})
	t.Run("the StatefulSet changes", func(t *testing.T) {
		h := newHandingOver(t, func(int) *cluster.Snapshot { return clustertest.Healthy(3) })
		h.through(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			changed := &appsv1.StatefulSet{}
			h.Expect(c.Get(ctx, client.ObjectKeyFromObject(h.set), changed)).To(Succeed())
			changed.Labels["changed"] = "by another"
			h.Expect(c.Update(ctx, changed)).To(Succeed())
			return c.Patch(ctx, o, p, options...)
		}})
		_, err := h.reconcile(t)
		h.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		h.Expect(h.strategy(t)).To(Equal(appsv1.OnDeleteStatefulSetStrategyType))
	})
}

// What the gate asks for otherwise is done at once, under the lock where it stops the StatefulSet controller.
func TestStrategyIsCorrected(t *testing.T) {
	rolling := appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To(int32(2))}}
	for name, tc := range map[string]struct {
		quorumAware bool
		want        appsv1.StatefulSetUpdateStrategy
		locked      bool
	}{
		"gate on":               {true, appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}, true},
		"gate off, pods spared": {false, appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To(int32(0))}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHandingOver(t, func(int) *cluster.Snapshot { return missing(1) })
			h.set.Spec.UpdateStrategy = rolling
			h.set.ResourceVersion = ""
			h.client = apitest.API(h.etcd, h.set)
			h.keeper.QuorumAware = tc.quorumAware
			h.keeper.Client, h.keeper.API = h.client, h.client
			h.Expect(h.keeper.Wanted()).To(Equal(tc.want.Type))
			h.each(t)
			locked := false
			h.through(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				locked = apitest.Locked(h.keeper.Locker, h.etcd)
				return c.Patch(ctx, o, p, options...)
			}})
			waits, err := h.reconcile(t)
			h.Expect(err).To(MatchError(state.ErrBehind))
			h.Expect(waits).To(BeFalse())
			h.Expect(locked).To(Equal(tc.locked))
			live := &appsv1.StatefulSet{}
			h.Expect(h.client.Get(t.Context(), client.ObjectKeyFromObject(h.set), live)).To(Succeed())
			h.Expect(live.Spec.UpdateStrategy).To(Equal(tc.want))
		})
	}
}

// Of an Etcd whose objects are not all its own, or whose StatefulSet is gone, nothing is changed.
func TestStrategyOfWhatIsForeign(t *testing.T) {
	for name, quorumAware := range map[string]bool{"to OnDelete": true, "to RollingUpdate": false} {
		t.Run(name, func(t *testing.T) {
			h := newHandingOver(t, func(int) *cluster.Snapshot { return clustertest.Healthy(3) })
			h.keeper.QuorumAware = quorumAware
			if quorumAware {
				h.set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
				h.Expect(h.client.Update(t.Context(), h.set)).To(Succeed())
			}
			before := h.strategy(t)
			foreign := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd-main"}}
			h.Expect(h.client.Create(t.Context(), foreign)).To(Succeed())
			waits, err := h.reconcile(t)
			h.Expect(err).NotTo(HaveOccurred())
			h.Expect(waits).To(Equal(!quorumAware))
			h.Expect(h.strategy(t)).To(Equal(before))

			h.Expect(h.client.Delete(t.Context(), foreign)).To(Succeed())
			h.Expect(h.client.Delete(t.Context(), h.set.DeepCopy())).To(Succeed())
			_, err = h.reconcile(t)
			h.Expect(err).NotTo(HaveOccurred())
		})
	}
	h := newHandingOver(t, func(int) *cluster.Snapshot { return nil })
	waits, err := h.reconcile(t)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(waits).To(BeTrue(), "its members cannot be observed")
	waits, err = h.keeper.Reconcile(t.Context(), &state.State{Etcd: h.etcd}, nil)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(waits).To(BeFalse(), "there is no StatefulSet")
}

// A member that has been away for long is remembered from one reconcile to the next, and forgotten with its Etcd.
func TestAbsenceIsRemembered(t *testing.T) {
	for name, forgets := range map[string]bool{"remembered": false, "forgotten": true} {
		t.Run(name, func(t *testing.T) {
			var h *handingOver
			h = newHandingOver(t, func(int) *cluster.Snapshot {
				s := missing(2)
				s.At = h.clock.Now()
				return s
			})
			for h.clock.Now().Sub(noon) < progressDeadline {
				waits, err := h.reconcile(t)
				h.Expect(err).NotTo(HaveOccurred())
				h.Expect(waits).To(BeTrue())
				h.clock.SetTime(h.clock.Now().Add(10 * time.Second))
			}
			if forgets {
				h.keeper.Forget(client.ObjectKeyFromObject(h.etcd))
			}
			waits, err := h.reconcile(t)
			h.Expect(waits).To(Equal(forgets))
			h.Expect(err == nil).To(Equal(forgets))
		})
	}
}
