// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

const grace = 30 * time.Second

func TestProbesVouchOnceTheyHavePassedForLong(t *testing.T) {
	g := NewWithT(t)
	snapshot := seen(0, 0)
	snapshot.Cluster.LeaderKnown = true
	timers := Timers{NotServingSince: map[types.UID]time.Time{"pod": noon}}
	g.Expect(timers.Vouched(snapshot, noon.Add(VouchAfter-time.Second), grace)).To(BeEmpty())
	g.Expect(timers.Vouched(snapshot, noon.Add(VouchAfter), grace)).To(Equal([]int{0}))
	g.Expect(timers.Vouched(snapshot, noon.Add(VouchAfter), time.Hour)).To(BeEmpty(), "a longer grace period counts")
	g.Expect(Timers{}.Vouched(snapshot, noon.Add(VouchAfter), grace)).To(BeEmpty(), "never seen")

	leaderless := seen(0, 0)
	g.Expect(timers.Vouched(leaderless, noon.Add(VouchAfter), grace)).To(BeEmpty())
	snapshot.Ordinals[0].Answers = true
	g.Expect(timers.Vouched(snapshot, noon.Add(VouchAfter), grace)).To(BeEmpty(), "a member that answers speaks for itself")
}

func TestTheOperatorIsCutOffAfterTheGracePeriod(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Timers{NoAnswerSince: noon}.CutOff(noon.Add(grace-time.Second), grace)).To(BeFalse())
	g.Expect(Timers{NoAnswerSince: noon}.CutOff(noon.Add(grace), grace)).To(BeTrue())
	g.Expect(Timers{}.CutOff(noon, grace)).To(BeFalse())
}

func TestAContainerHasRunForTheGracePeriod(t *testing.T) {
	g := NewWithT(t)
	timers := Timers{Running: map[types.UID]Run{"pod": {Since: noon}}}
	o := seen(0, 0).Ordinals[0]
	g.Expect(timers.HasRun(&o, noon.Add(grace-time.Second), grace)).To(BeFalse())
	g.Expect(timers.HasRun(&o, noon.Add(grace), grace)).To(BeTrue())
	o.Class = v1alpha1.ClassTerminating
	g.Expect(timers.HasRun(&o, noon.Add(grace), grace)).To(BeFalse(), "it is going")
	g.Expect(timers.HasRun(&cluster.Ordinal{Class: v1alpha1.ClassMissing}, noon.Add(grace), grace)).To(BeFalse())
}
