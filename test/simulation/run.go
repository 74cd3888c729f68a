// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Result is what has become of a seed.
type Result struct {
	Trace  *loop.Trace
	Broken []string
	// Operations were carried out, of which Faulted with a fault in between; Injected are the faults by name.
	Operations, Faulted int
	Injected            map[string]int
	Lasted              time.Duration
}

// operations is how many operations a seed has.
const operations = 4

// bound is within what time all has to end once the last fault has.
const bound = 30 * time.Minute

// Run runs a seed, in a bubble.
func Run(t *testing.T, seed uint64) (r Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, err := New(seed, 5)
		if err != nil {
			t.Fatal(err)
		}
		s := &session{chaos: newChaos(t, w), random: w.Random("users")}
		s.run()
		for _, o := range append([]*operator(nil), w.operators...) {
			o.kill()
		}
		w.Close()
		r = Result{Trace: w.Trace, Broken: w.Broken, Operations: s.done, Faulted: s.faulted, Injected: w.faults.injected, Lasted: w.Now()}
	})
	return r
}

// session is what users do in a run.
type session struct {
	*chaos
	random        *rand.Rand
	done, faulted int
}

func (s *session) run() {
	s.Create([]int32{3, 3, 5}[s.random.IntN(3)])
	s.start()
	s.await("the Etcd serves")
	s.chaos.run()
	for i := range operations {
		if len(s.Broken) > 0 {
			return
		}
		before := s.total()
		s.operate(i)
		s.linger(time.Duration(20+s.random.IntN(180)) * time.Second)
		s.done++
		if s.total() > before {
			s.faulted++
		}
	}
	s.over = true
	s.Loop.Run(s.Now()+10*time.Minute, func() bool { return s.open == 0 || len(s.Broken) > 0 })
	s.await("all operations end, after the last fault")
}

func (s *session) total() (n int) {
	for _, times := range s.faults.injected {
		n += times
	}
	return n
}

// linger lets time pass.
func (s *session) linger(d time.Duration) {
	s.Loop.Run(s.Now()+d, func() bool { return len(s.Broken) > 0 })
}

// await waits until all is done, and complains if it takes too long.
func (s *session) await(what string) {
	s.Loop.Run(s.Now()+bound, func() bool { return len(s.Broken) > 0 || s.Unfinished() == "" })
	if waits := s.Unfinished(); len(s.Broken) == 0 && waits != "" {
		s.broke("it did not come about within %s that %s: %s", bound, what, waits)
	}
}

// operate has a user begin an operation.
func (s *session) operate(i int) {
	name := fmt.Sprintf("task-%d", i)
	switch s.random.IntN(4) {
	case 0:
		s.Task(name, v1alpha1.QuorumAwareRollout, "restart: true")
	case 1:
		s.Task(name, v1alpha1.OnDemandMaintenance, "{etcdCompaction: true, etcdDefragmentation: true}")
	default:
		s.Log("user", "changes the pod template")
		edit(s.World, Namespace, Name, "", func(e *v1alpha1.Etcd) { e.Spec.Annotations = map[string]string{"changed": name} })
	}
}

func (w *World) podMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: Namespace, Name: name}
}
