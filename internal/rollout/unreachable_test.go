// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

const timersGrace = 30 * time.Second

func TestProbesVouchOnceTheyHavePassedForLong(t *testing.T) {
	g := NewWithT(t)
	snapshot := seen(0, 0)
	snapshot.Cluster.LeaderKnown = true
	timers := Timers{NotServingSince: map[types.UID]time.Time{"pod": noon}}
	g.Expect(timers.Vouched(snapshot, noon.Add(VouchAfter-time.Second), timersGrace)).To(BeEmpty())
	g.Expect(timers.Vouched(snapshot, noon.Add(VouchAfter), timersGrace)).To(Equal([]int{0}))
	g.Expect(timers.Vouched(snapshot, noon.Add(VouchAfter), time.Hour)).To(BeEmpty(), "a longer grace period counts")
	g.Expect(Timers{}.Vouched(snapshot, noon.Add(VouchAfter), timersGrace)).To(BeEmpty(), "never seen")

	leaderless := seen(0, 0)
	g.Expect(timers.Vouched(leaderless, noon.Add(VouchAfter), timersGrace)).To(BeEmpty())
	snapshot.Ordinals[0].Answers = true
	g.Expect(timers.Vouched(snapshot, noon.Add(VouchAfter), timersGrace)).To(BeEmpty(), "a member that answers speaks for itself")
}

func TestTheOperatorIsCutOffAfterTheGracePeriod(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Timers{NoAnswerSince: noon}.CutOff(noon.Add(timersGrace-time.Second), timersGrace)).To(BeFalse())
	g.Expect(Timers{NoAnswerSince: noon}.CutOff(noon.Add(timersGrace), timersGrace)).To(BeTrue())
	g.Expect(Timers{}.CutOff(noon, timersGrace)).To(BeFalse())
}

func TestAContainerHasRunForTheGracePeriod(t *testing.T) {
	g := NewWithT(t)
	timers := Timers{Running: map[types.UID]Running{"pod": {Since: noon}}}
	o := seen(0, 0).Ordinals[0]
	g.Expect(timers.HasRun(&o, noon.Add(timersGrace-time.Second), timersGrace)).To(BeFalse())
	g.Expect(timers.HasRun(&o, noon.Add(timersGrace), timersGrace)).To(BeTrue())
	o.Class = v1alpha1.ClassTerminating
	g.Expect(timers.HasRun(&o, noon.Add(timersGrace), timersGrace)).To(BeFalse(), "it is going")
	g.Expect(timers.HasRun(&cluster.Ordinal{Class: v1alpha1.ClassMissing}, noon.Add(timersGrace), timersGrace)).To(BeFalse())
}
