// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// fleet is some healthy Etcds beside others whose members hang.
type fleet struct {
	healthy, hanging int
	// namespaces are those of the hanging ones, and together: a healthy one is in the first of them.
	namespaces int
	together   bool
}

const (
	// A look at a cluster that hangs takes hangs, and is repeated after hangingPoll.
	hangs, hangingPoll = 3 * time.Second, 2 * time.Second
	// A look at a healthy one takes quick, and is repeated after healthyPoll with low priority.
	quick, healthyPoll = 10 * time.Millisecond, 30 * time.Second
)

// watched counts the looks.
type watched struct {
	mu             sync.Mutex
	healthy, hangs int
	// late is how late the latest look at a healthy one began after it was due.
	late time.Duration
	due  map[reconcile.Request]time.Time
}

func (w *watched) reconcile(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
	if r.Name != "healthy" {
		<-time.After(hangs)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hangs++
		return reconcile.Result{RequeueAfter: hangingPoll, Priority: ptr.To(0)}, nil
	}
	w.mu.Lock()
	w.healthy++
	if due, ok := w.due[r]; ok {
		w.late = max(w.late, time.Since(due))
	}
	w.mu.Unlock()
	<-time.After(quick)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due[r] = time.Now().Add(healthyPoll)
	return reconcile.Result{RequeueAfter: healthyPoll, Priority: ptr.To(handler.LowPriority)}, nil
}

// watch runs a controller for a while.
func watch(t *testing.T, f fleet, options controller.Options, length time.Duration) *watched {
	w := &watched{due: map[reconcile.Request]time.Time{}}
	synctest.Test(t, func(t *testing.T) {
		options.Reconciler, options.Logger, options.SkipNameValidation = reconcile.Func(w.reconcile), logr.Discard(), ptr.To(true)
		c, err := controller.NewUnmanaged("fair", options)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			add := q.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts
			for i := range f.hanging {
				add(priorityqueue.AddOpts{}, request(fmt.Sprintf("bad-%d", i%f.namespaces), fmt.Sprint(i)))
			}
			for i := range f.healthy {
				namespace := fmt.Sprintf("good-%d", i)
				if f.together && i == 0 {
					namespace = "bad-0"
				}
				add(priorityqueue.AddOpts{Priority: ptr.To(handler.LowPriority)}, request(namespace, "healthy"))
			}
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
	return w
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// 20 healthy Etcds are looked at as often beside 300 that hang as they are alone, whether those are in one namespace or in many, and
// soon after a look is due.
func TestHealthyEtcdsKeepTheirLooks(t *testing.T) {
	const workers, length = 80, 150*time.Second - 1
	for name, f := range map[string]fleet{
		"alone":                 {healthy: 20},
		"in one namespace":      {healthy: 20, hanging: 300, namespaces: 1},
		"in one with them":      {healthy: 20, hanging: 300, namespaces: 1, together: true},
		"in three namespaces":   {healthy: 20, hanging: 300, namespaces: 3},
		"in as many namespaces": {healthy: 20, hanging: 300, namespaces: 300},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := watch(t, f, Options(workers), length)
			t.Logf("%d looks at healthy Etcds, the latest %s late; %d at those that hang", w.healthy, w.late, w.hangs)
			g.Expect(w.healthy).To(BeNumerically(">=", 100))
			g.Expect(w.late).To(BeNumerically("<", 100*time.Millisecond))
			if f.hanging > 0 {
				// A third of the workers is at them all the time.
				g.Expect(w.hangs).To(BeNumerically("~", int(length/hangs)*workers/3, 300))
			}
		})
	}
}

// What is held back keeps the highest priority that it was added with, is given out once its share permits, and by then only once.
func TestHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		q := newFairQueue("fair", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](), 2)
		defer q.ShutDown()
		take := func() (reconcile.Request, int) {
			o, priority, _ := q.GetWithPriority()
			return o, priority
		}
		add := func(priority int, name string) {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priority)}, request("ns", name))
			synctest.Wait()
		}
		add(0, "first")
		first, _ := take()
		got := make(chan string, 10)
		go func() {
			for {
				o, _, shutdown := q.GetWithPriority()
				if shutdown {
					return
				}
				got <- o.Name
				q.Done(o)
			}
		}()
		add(0, "second")
		add(-1, "third")
		add(1, "third")
		add(-1, "sixth")
		add(-2, "fifth")
		q.AddAfter(request("ns", "fifth"), time.Hour)
		add(-1, "fourth")
		q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(2), After: time.Hour}, request("ns", "fourth"))
		q.Add(request("ns", "second"))
		synctest.Wait()
		g.Expect(got).To(BeEmpty(), "one of two workers works for the namespace")
		q.AddWithOpts(priorityqueue.AddOpts{}, request("other", "overtakes"))
		synctest.Wait()
		g.Expect(got).To(Receive(Equal("overtakes")))
		q.Done(first)
		synctest.Wait()
		g.Expect(got).To(Receive(Equal("fourth")))
		g.Expect(got).To(Receive(Equal("third")))
		g.Expect(got).To(Receive(Equal("second")))
		g.Expect(got).To(Receive(Equal("fifth")))
		g.Expect(got).To(Receive(Equal("sixth")))
		g.Expect(got).To(BeEmpty())
		g.Expect(q.shares).To(Equal(shares{free: 2, all: 2, of: map[string]int{}}))
		g.Expect(q.working).To(BeEmpty())
		g.Expect(q.held).To(BeEmpty())
	})
}

// A healthy Etcd that was slow once is looked at however many unhurried looks are due.
func TestUnhurriedLooksLeaveTheShareOfSlowOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 9
		q := newFairQueue("fair", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](), workers)
		var looks atomic.Int32
		for range workers {
			go func() {
				for {
					o, priority, shutdown := q.GetWithPriority()
					if shutdown {
						return
					}
					if priority == handler.LowPriority && looks.Add(1) == 1 {
						<-time.After(slowAfter)
					}
					<-time.After(slowAfter / 2)
					q.AddWithOpts(priorityqueue.AddOpts{After: 2 * slowAfter, Priority: &priority}, o)
					q.Done(o)
				}
			}()
		}
		q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(handler.LowPriority)}, request("healthy", "main"))
		synctest.Wait()
		for i := range 10 * workers {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(Unhurried)}, request(fmt.Sprint(i), "main"))
		}
		<-time.After(time.Minute)
		NewWithT(t).Expect(looks.Load()).To(BeNumerically(">", 20))
		q.ShutDown()
		<-time.After(time.Minute)
	})
}

// What is unhurried has the share of what is slow, without having been slow; once it has changed, it is given out at once.
func TestUnhurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		const workers = 9
		q := newFairQueue("fair", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](), workers)
		defer q.ShutDown()
		got := make(chan string, workers)
		for range workers {
			go func() {
				if o, _, shutdown := q.GetWithPriority(); !shutdown {
					got <- o.Namespace
				}
			}()
		}
		for i := range workers {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(Unhurried)}, request(fmt.Sprint(i), "new"))
		}
		synctest.Wait()
		g.Expect(got).To(HaveLen(workers / 3))
		first := []string{<-got, <-got, <-got}
		for i := range workers {
			if changed := fmt.Sprint(i); !slices.Contains(first, changed) {
				q.Add(request(changed, "new"))
				synctest.Wait()
				g.Expect(got).To(HaveLen(1))
				g.Expect(<-got).To(Equal(changed))
				break
			}
		}
	})
}
