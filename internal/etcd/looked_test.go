// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	. "github.com/onsi/gomega"
)

// When members were last asked for what the status says is known without a write: after a reconcile that finds nothing new, and not after one
// that fails.
func TestLookedIsWhenTheStatusWasConfirmed(t *testing.T) {
	s := sceneOf(t, nil)
	s.Expect(s.reconciler.Looked(s.etcd())).To(BeZero(), "nothing was reconciled")
	s.settle()
	s.written()
	for range 3 {
		s.clock.SetTime(s.clock.Now().Add(time.Minute))
		_, err := s.once()
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(s.reconciler.Looked(s.etcd())).To(Equal(s.clock.Now()))
	}
	s.Expect(s.written()).To(BeEmpty())

	before := s.clock.Now()
	s.clock.SetTime(before.Add(time.Minute))
	s.failsAt = s.requests + 1
	_, err := s.once()
	s.Expect(err).To(HaveOccurred())
	s.Expect(s.reconciler.Looked(s.etcd())).To(Equal(before), "what was found is not in the status")

	e, other := s.etcd(), s.etcd()
	other.UID = "another"
	s.Expect(s.reconciler.Looked(other)).To(BeZero(), "an Etcd of the same name")
	s.Expect(s.world.Delete(t.Context(), e)).To(Succeed())
	_, err = s.once()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.reconciler.Looked(e)).To(BeZero())
}

// An alarm is in the status once etcd has raised it, by one write, and gone once it is disarmed. While it lasts, nothing is written, and members
// are looked at as often as in a healthy cluster.
func TestAnAlarmIsReported(t *testing.T) {
	s := sceneOf(t, nil)
	s.settle()
	s.written()
	s.world.Members.Raise(etcdclient.AlarmNoSpace, 1)
	result := s.settle()
	s.Expect(s.condition(v1alpha1.ConditionAlarmRaised)).To(HaveValue(And(HaveField("Reason", v1alpha1.ReasonAlarmNoSpace),
		HaveField("Message", HavePrefix("Alarm NOSPACE of "+s.world.Members.Names[1]+": ")))))
	s.Expect(s.writes).To(HaveLen(1))
	s.Expect(result.RequeueAfter).To(Equal(pollHealthy))
	s.world.Members.Disarm()
	s.settle()
	s.Expect(s.condition(v1alpha1.ConditionAlarmRaised)).To(BeNil())
	s.Expect(s.writes).To(HaveLen(2))
}
