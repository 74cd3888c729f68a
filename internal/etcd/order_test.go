// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// What the model of a controller of Etcds takes, for an Etcd of three members without backups. Workers and requests a second are a quarter of
// the operator's defaults.
const (
	modelWorkers = 20
	// modelRequest is the time between two requests to the API server that all workers share.
	modelRequest = time.Second / 100
	// The look that creates the objects, and the one that finds all members ready. TestRequestsOfANewEtcd counts them.
	requestsToCreate, requestsWhenReady = 40, 15
	// Without the ten objects beside the StatefulSet that exist by then.
	requestsToCreateAgain = requestsToCreate - 10
	podStart              = 3 * time.Second
	// How long a look takes that asks the API server for nothing.
	quickly, slowly = 100 * time.Millisecond, 1100 * time.Millisecond
)

// modeled is a model of the controller of Etcds: its queue, its handlers and its priorities are real, and what it looks at is not.
type modeled struct {
	t *testing.T
	// observing is how long a look takes at least.
	observing time.Duration
	queue     workqueue.TypedRateLimitingInterface[reconcile.Request]

	mu sync.Mutex
	// looks and requests that have begun, and when the next request may be made.
	looks, requests int
	next            time.Time
	etcds           map[reconcile.Request]*modelEtcd
	// ready are the requests that had been made each time that an Etcd became ready.
	ready []int
}

type modelEtcd struct {
	tried, created, started, up bool
	// looked is how many looks had begun when the first look at it did.
	looked int
}

// runModel runs the controller for a while, beside what does something to it.
func runModel(t *testing.T, length, observing time.Duration, beside func(m *modeled)) *modeled {
	m := &modeled{t: t, observing: observing, etcds: map[reconcile.Request]*modelEtcd{}}
	synctest.Test(t, func(t *testing.T) {
		options := controller.Options(modelWorkers)
		options.Reconciler, options.Logger, options.SkipNameValidation = reconcile.Func(m.look), logr.Discard(), ptr.To(true)
		c, err := ctrlcontroller.NewUnmanaged("etcd", options)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			m.queue = q
			go beside(m)
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		if err := c.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	return m
}

// create creates Etcds at once.
func (m *modeled) create(name string, n, namespaces int) {
	for i := range n {
		r := requestFor(fmt.Sprintf("%s-%d", name, i%namespaces), fmt.Sprint(i))
		m.add(r, &modelEtcd{})
		etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, Generation: 1}}
		enqueueEtcd().Create(m.t.Context(), event.CreateEvent{Object: etcd}, m.queue)
	}
}

func (m *modeled) add(r reconcile.Request, e *modelEtcd) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.etcds[r] = e
}

// begun is how many looks have begun.
func (m *modeled) begun() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looks
}

func requestFor(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// request makes requests to the API server, one after the other, each when it is its turn among those of all workers.
func (m *modeled) request(n int) {
	for range n {
		m.mu.Lock()
		m.requests++
		now := time.Now()
		if m.next.Before(now) {
			m.next = now
		}
		wait := m.next.Sub(now)
		m.next = m.next.Add(modelRequest)
		m.mu.Unlock()
		<-time.After(wait)
	}
}

func (m *modeled) look(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	m.mu.Lock()
	e := m.etcds[r]
	m.looks++
	if e.looked == 0 {
		e.looked = m.looks
	}
	creates, becomesReady, requests := !e.created, e.started && !e.up, requestsToCreate
	if e.tried {
		requests = requestsToCreateAgain
	}
	e.tried = true
	m.mu.Unlock()
	<-time.After(m.observing)
	switch {
	case creates:
		// All but the first read, and the writes of the StatefulSet and of the status, which come last, have to be done before the reads are
		// too old.
		m.request(1)
		began := time.Now()
		m.request(requests - 3)
		// The objects that it has created are events.
		m.queue.Add(r)
		if time.Since(began) > state.MaxReadAge {
			// What it has read is too old to start members.
			return reconcile.Result{RequeueAfter: retryConflict, Priority: priorityOf(retryConflict, false)}, nil
		}
		m.request(2)
		m.mu.Lock()
		e.created = true
		m.mu.Unlock()
		time.AfterFunc(podStart, func() { m.podIsReady(ctx, e, r) })
	case becomesReady:
		m.request(requestsWhenReady)
		m.mu.Lock()
		e.up = true
		m.ready = append(m.ready, m.requests)
		m.mu.Unlock()
	}
	after := pollTroubled
	if e.up {
		after = pollHealthy
	}
	return reconcile.Result{RequeueAfter: after, Priority: priorityOf(after, false)}, nil
}

func (m *modeled) podIsReady(ctx context.Context, e *modelEtcd, r reconcile.Request) {
	m.mu.Lock()
	e.started = true
	m.mu.Unlock()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Labels: map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentStatefulSet, v1alpha1.LabelPartOf: r.Name}}}
	ready := pod.DeepCopy()
	ready.ResourceVersion = "2"
	afterwards(etcdOfPod).Update(ctx, event.UpdateEvent{ObjectOld: pod, ObjectNew: ready}, m.queue)
}

// Of many Etcds that are created at once, those that were begun are finished before others are begun: each takes the requests that it
// needs, beside those of the ones that are under way, and not those of all.
func TestWhatIsBegunIsFinishedFirst(t *testing.T) {
	const n = 250
	for name, c := range map[string]struct {
		namespaces int
		observing  time.Duration
	}{
		"in a namespace each":                         {n, quickly},
		"in a namespace each, and all looks are slow": {n, slowly},
		"in one namespace":                            {1, quickly},
		"in one namespace, and all looks are slow":    {1, slowly},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m := runModel(t, 5*time.Minute, c.observing, func(m *modeled) { m.create("new", n, c.namespaces) })
			g.Expect(m.ready).To(HaveLen(n))
			// Some have to be begun twice: the API server is asked for others, too.
			const each = requestsToCreate + requestsWhenReady + requestsToCreateAgain
			// Each worker is at one, and was at another before, while the members of others start.
			underWay := 2*modelWorkers*(requestsToCreate+requestsWhenReady) + int((podStart+settle+2*c.observing)/modelRequest)
			for _, k := range []int{1, 10, 100, n} {
				t.Logf("%d are ready after %d requests", k, m.ready[k-1])
				g.Expect(m.ready[k-1]).To(BeNumerically("<=", k*each+underWay), "%d of %d", k, n)
			}
			t.Logf("%d requests in all", m.requests)
			g.Expect(m.requests).To(BeNumerically("<=", n*each))
		})
	}
}

// While Etcds are created, one that exists is looked at before all that are not begun, once something of it has changed.
func TestAChangeComesBeforeNewEtcds(t *testing.T) {
	g := NewWithT(t)
	changed := &modelEtcd{created: true, started: true, up: true}
	var before int
	runModel(t, time.Minute, quickly, func(m *modeled) {
		m.create("new", 250, 250)
		<-time.After(10 * time.Second)
		serving := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "serving", Name: "main", Generation: 2}, Status: v1alpha1.EtcdStatus{ObservedGeneration: 1}}
		serving.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue})
		m.add(requestFor("serving", "main"), changed)
		before = m.begun()
		enqueueEtcd().Update(m.t.Context(), event.UpdateEvent{ObjectOld: &v1alpha1.Etcd{}, ObjectNew: serving}, m.queue)
	})
	g.Expect(changed.looked-before).To(And(BeNumerically(">", 0), BeNumerically("<=", modelWorkers)), "looks that come first")
}

// Etcds whose pods do not start, and that keep all workers busy with looks that show nothing new, do not keep new ones from being created.
func TestNewEtcdsAreBegunBesideThoseThatAreStuck(t *testing.T) {
	const stuck, n = 500, 10
	g := NewWithT(t)
	var before int
	m := runModel(t, 30*time.Second, quickly, func(m *modeled) {
		for i := range stuck {
			r := requestFor(fmt.Sprintf("stuck-%d", i), "main")
			m.add(r, &modelEtcd{created: true})
			m.queue.Add(r)
		}
		<-time.After(10 * time.Second)
		before = m.begun()
		m.create("new", n, n)
	})
	g.Expect(m.ready).To(HaveLen(n))
	for i := range n {
		first := m.etcds[requestFor(fmt.Sprintf("new-%d", i), fmt.Sprint(i))].looked
		g.Expect(first - before).To(And(BeNumerically(">", 0), BeNumerically("<=", stuck+n+modelWorkers)))
	}
}

// counted counts requests that read.
type counted struct {
	client.Reader
	requests *int
}

func (c counted) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	*c.requests++
	return c.Reader.Get(ctx, key, into, options...)
}

func (c counted) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	*c.requests++
	return c.Reader.List(ctx, into, options...)
}

// The model above takes as many requests as the controller does.
func TestRequestsOfANewEtcd(t *testing.T) {
	s, reads := sceneOf(t, nil), 0
	s.reconciler.API = counted{s.reconciler.API, &reads}
	look := func() int {
		before := reads + len(s.writes)
		_, err := s.once()
		s.Expect(err).NotTo(HaveOccurred())
		return reads + len(s.writes) - before
	}
	s.Expect(look()).To(Equal(requestsToCreate))
	_, err := s.world.Step(t.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.clock.SetTime(s.clock.Now().Add(pollTroubled))
	s.Expect(look()).To(Equal(requestsWhenReady))
	s.Expect(s.etcd().Status.Ready).To(HaveValue(BeTrue()))
}
