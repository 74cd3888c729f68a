// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/inmemory"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var mainKey = types.NamespacedName{Namespace: inmemory.Namespace, Name: inmemory.Name}

// scene is the controller of Etcds in front of a cluster in memory.
type scene struct {
	*WithT
	t          *testing.T
	world      *inmemory.World
	operator   *inmemory.Operator
	clock      *clocktesting.FakePassiveClock
	recorder   *events.FakeRecorder
	reconciler *Reconciler
	adoption   state.Adoption
	// failsAt is the number of the request that fails, of those that were made; 0 for none.
	requests, failsAt int
	rounds            int
	writes            []disturb.Write
}

// Reconcile implements state.Adopter.
func (s *scene) Reconcile(context.Context, *state.State) (state.Adoption, error) {
	return s.adoption, nil
}

// sceneOf returns the scene of an Etcd of three members, whose objects nobody has made yet.
func sceneOf(t *testing.T, change func(*v1alpha1.Etcd)) *scene {
	t.Helper()
	s := &scene{WithT: NewWithT(t), t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)), recorder: events.NewFakeRecorder(1000)}
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: mainKey.Namespace, Name: mainKey.Name}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	if change != nil {
		change(etcd)
	}
	var err error
	s.world, err = inmemory.New(etcd, s.clock.Now)
	s.Expect(err).NotTo(HaveOccurred())
	s.operator = &inmemory.Operator{World: s.world, Decide: func(w disturb.Write) disturb.Fate {
		s.writes = append(s.writes, w)
		return disturb.Answered
	}}
	live, cache := faulty{s.operator.Live(), s}, faulty{s.operator.Client(), s}
	credentials := &certificates.Credentials{Reader: live, Clock: s.clock}
	observer := observe.New(s.operator, s.clock, observe.WithCredentials(credentials))
	s.reconciler = &Reconciler{
		Access: state.Access{Client: cache, API: live, Observer: observer, Locker: &lock.Locks{}, Clock: s.clock},
		Dialer: s.operator, Credentials: credentials, Source: observer.Source, ThroughSource: observer.ThroughSource, Recorder: s.recorder,
		Images: configv1alpha1.Images{Etcd: "etcd:v1", EtcdAgent: "agent:v1"}, QuorumAwareUpdates: true,
		Adopter: func(*Reconciler) state.Adopter { return s },
	}
	return s
}

// once reconciles the Etcd once, with a cache that is up to date.
func (s *scene) once() (ctrl.Result, error) {
	s.operator.Deliver()
	return s.reconciler.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: mainKey})
}

// calmRounds is for how many rounds nothing may happen. A detail of the status is written after ten seconds.
const calmRounds = 4

// settle lets the operator and the cluster go on until neither has anything to do, and returns how the last reconcile ended.
func (s *scene) settle() ctrl.Result {
	s.t.Helper()
	var result ctrl.Result
	for calm := 0; calm < calmRounds; calm++ {
		var err error
		writes := len(s.writes)
		result, err = s.once()
		s.Expect(err).NotTo(HaveOccurred())
		changed, err := s.world.Step(s.t.Context())
		s.Expect(err).NotTo(HaveOccurred())
		if changed || len(s.writes) > writes {
			calm = 0
		}
		s.clock.SetTime(s.clock.Now().Add(5 * time.Second))
		s.rounds++
		s.Expect(s.rounds).To(BeNumerically("<", 200), "it does not come to rest: %v", s.writes)
	}
	return result
}

func (s *scene) etcd() *v1alpha1.Etcd {
	e := &v1alpha1.Etcd{}
	s.Expect(s.world.Get(s.t.Context(), mainKey, e)).To(Succeed())
	return e
}

// change changes the Etcd, as a user does.
func (s *scene) change(change func(*v1alpha1.Etcd)) {
	e := s.etcd()
	change(e)
	s.Expect(s.world.Update(s.t.Context(), e)).To(Succeed())
}

// set returns the StatefulSet; nil if there is none.
func (s *scene) set() *appsv1.StatefulSet {
	set, err := s.world.StatefulSet(s.t.Context())
	s.Expect(err).NotTo(HaveOccurred())
	return set
}

// written returns the kinds of what was written since the last call, each once and in order.
func (s *scene) written() (kinds []string) {
	seen := map[string]bool{}
	for _, w := range s.writes {
		if what := w.Verb + " " + w.Kind; !seen[what] {
			seen[what] = true
			kinds = append(kinds, what)
		}
	}
	s.writes = nil
	return kinds
}

func (s *scene) condition(conditionType string) *metav1.Condition {
	return s.etcd().Status.Conditions.Find(conditionType)
}

// faulty is a client of which one request fails.
type faulty struct {
	client.Client
	scene *scene
}

func (f faulty) fails() error {
	if f.scene.requests++; f.scene.requests == f.scene.failsAt {
		return errBroken
	}
	return nil
}

func (f faulty) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Client.Get(ctx, key, into, options...)
}

func (f faulty) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Client.List(ctx, into, options...)
}

func (f faulty) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Client.Create(ctx, o, options...)
}

func (f faulty) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.PatchOption) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Client.Patch(ctx, o, p, options...)
}

func (f faulty) Apply(ctx context.Context, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Client.Apply(ctx, config, options...)
}

func (f faulty) Status() client.SubResourceWriter { return faultyStatus{f.Client.Status(), f} }

type faultyStatus struct {
	client.SubResourceWriter
	of faulty
}

func (f faultyStatus) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
	if err := f.of.fails(); err != nil {
		return err
	}
	return f.SubResourceWriter.Patch(ctx, o, p, options...)
}
