// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
)

// A task of a type that this mode of the operator does not carry out is rejected on arrival, and keeps no other from running: not
// even one that would preempt it, or that another mode has admitted.
func TestUnavailableTypesAreRejectedOnArrival(t *testing.T) {
	s := newServer(t)
	recovery := func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Type = v1alpha1.QuorumLossRecovery }
	s.add(t, "a", running)
	s.add(t, "b", pending, recovery)
	s.add(t, "c", running, recovery)
	e := newEngine(t, s)
	e.execute = step
	e.Registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Unavailable: &tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrNotInExecutorMode, Message: "not here"}}
	e.look()
	e.look()
	for _, name := range []string{"b", "c"} {
		rejected := s.get(t, name)
		e.Expect(rejected.Status.State).To(Equal(v1alpha1.TaskStateRejected), name)
		e.Expect(rejected.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrNotInExecutorMode))
		e.Expect(rejected.Status.LastErrors[0].Description).To(Equal("not here"))
	}
	e.Expect(e.performed).To(ContainElement("a"))
}
