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
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
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
	recoveries    int
}

func (s *session) run() {
	s.Create([]int32{3, 3, 5}[s.random.IntN(3)])
	s.start()
	s.await("the Etcd serves")
	s.chaos.run()
	s.help()
	for i := range operations {
		if len(s.Broken) > 0 {
			return
		}
		before := s.total()
		s.operate(i)
		s.pass(time.Duration(20+s.random.IntN(180))*time.Second, func() bool { return false })
		s.done++
		if s.total() > before {
			s.faulted++
		}
	}
	s.over = true
	s.pass(10*time.Minute, func() bool { return s.open == 0 })
	s.await("all operations end, after the last fault")
}

func (s *session) total() (n int) {
	for _, times := range s.faults.injected {
		n += times
	}
	return n
}

// help has a user recover the cluster when its quorum has been lost for a while; for good or not, the user cannot know.
func (s *session) help() {
	s.After(time.Duration(20+s.random.IntN(60))*time.Second, "user", "", func() {
		s.help()
		if q := s.judge.quorate; q.is || s.Now()-q.at < time.Minute {
			return
		}
		for _, t := range apiserver.Of[*v1alpha1.EtcdOperatorTask](s.API.Live()) {
			if t.Spec.Type != v1alpha1.QuorumLossRecovery || t.Status.State.IsFinal() {
				continue
			}
			// As docs/recovery.md says for a survivor that is lost again: another one once this one is deleted.
			if r := t.Status.Recovery; r != nil && (r.Phase == v1alpha1.RecoveryGrowing || r.Phase == v1alpha1.RecoveryStarting && time.Since(r.PhaseSince.Time) > 3*time.Minute) {
				s.Log("user", "deletes task "+t.Name)
				s.remove(t)
			}
			return
		}
		s.recoveries++
		s.Task(fmt.Sprintf("recovery-%d", s.recoveries), v1alpha1.QuorumLossRecovery, "")
	})
}

// pass lets time pass, until something is broken or done.
func (s *session) pass(d time.Duration, done func() bool) {
	if !s.Loop.Run(s.Now()+d, func() bool { return len(s.Broken) > 0 || done() }) {
		s.broke("what happens at this moment never ends")
	}
}

// await waits until all is done, and complains if it takes too long.
func (s *session) await(what string) {
	s.pass(bound, func() bool { return s.Unfinished() == "" })
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
