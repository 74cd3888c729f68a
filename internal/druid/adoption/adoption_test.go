// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slow are members that take a while to answer.
type slow struct {
	clock    *clocktesting.FakePassiveClock
	takes    time.Duration
	snapshot *cluster.Snapshot
}

func (s slow) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	s.clock.SetTime(s.clock.Now().Add(s.takes))
	return s.snapshot, nil
}

// watched is a clock that looks at the lock of an Etcd when it is asked how old something is.
type watched struct {
	*clocktesting.FakePassiveClock
	locked func() bool
	found  *[]bool
}

func (w watched) Since(t time.Time) time.Duration {
	*w.found = append(*w.found, w.locked())
	return w.FakePassiveClock.Since(t)
}

// An operator that was paused adopts nothing, and hands nothing back, on what it read before: another may have.
func TestAdoptionRestsOnFreshReads(t *testing.T) {
	for name, tc := range map[string]struct {
		operation string
		takes     time.Duration
		// adopted before and after.
		before, after bool
	}{
		"adopt":                     {v1alpha1.OperationAdopt, time.Second, false, true},
		"adopt, by an old read":     {v1alpha1.OperationAdopt, state.MaxReadAge + time.Second, false, false},
		"hand back":                 {v1alpha1.OperationHandBack, time.Second, true, false},
		"hand back, by an old read": {v1alpha1.OperationHandBack, state.MaxReadAge + time.Second, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			g, now := NewWithT(t), clocktesting.NewFakePassiveClock(noon)
			f := adoptable()
			f.etcd.Annotations = map[string]string{v1alpha1.AnnotationOperation: tc.operation}
			f.set.Namespace, f.set.UID = f.etcd.Namespace, "set"
			f.set.OwnerReferences = apitest.ControlledBy(f.etcd)
			if tc.before {
				f.set.Annotations = map[string]string{v1alpha1.AnnotationAdoptedBy: string(f.etcd.UID)}
			}
			api := apitest.API(f.etcd, f.set)
			locks, locked := &lock.Locks{}, []bool{}
			a := Adopter{
				Access: state.Access{Client: api, API: api, Observer: slow{now, tc.takes, f.snapshot}, Locker: locks,
					Clock: watched{now, func() bool { return apitest.Locked(locks, f.etcd) }, &locked}},
				Images:      configv1alpha1.Images{Etcd: "etcd:v3.6.16", EtcdAgent: "agent:v1"},
				QuorumAware: true, Enabled: true,
			}
			_, err := a.reconcile(t.Context(), &state.State{Etcd: f.etcd, StatefulSet: f.set})
			g.Expect(err).To(MatchError(state.ErrBehind))
			g.Expect(locked).To(HaveExactElements(true), "the wait for the lock counts, too")
			live := &appsv1.StatefulSet{}
			g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(f.set), live)).To(Succeed())
			if tc.after {
				g.Expect(live.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationAdoptedBy, string(f.etcd.UID)))
			} else {
				g.Expect(live.Annotations).NotTo(HaveKey(v1alpha1.AnnotationAdoptedBy))
			}
		})
	}
}
