// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/controller/upkeep"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var (
	noon  = metav1.NewTime(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	later = metav1.NewTime(noon.Add(time.Minute))
)

// served is an Etcd whose cluster has served and is well.
func served(replicas int32) *v1alpha1.Etcd {
	etcd := &v1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main", Generation: 1},
		Spec:       v1alpha1.EtcdSpec{Replicas: replicas},
	}
	etcd.Status = nextStatus(etcd, observation{snapshot: snapshotOf(int(replicas)), current: true, now: noon})
	return etcd
}

func TestConditions(t *testing.T) {
	type want struct {
		status  metav1.ConditionStatus
		reason  string
		message string
	}
	allReady := want{metav1.ConditionTrue, v1alpha1.ReasonAllMembersReady, "Every member participates."}
	allUpdated := want{metav1.ConditionTrue, v1alpha1.ReasonAllMembersUpdated, "Every pod is at the newest template."}
	for _, tc := range []struct {
		name    string
		fresh   bool // the cluster has not served yet
		with    func() *cluster.Snapshot
		ready   want
		members want
		updated want
	}{
		{
			name:    "well",
			with:    func() *cluster.Snapshot { return snapshotOf(3) },
			ready:   want{metav1.ConditionTrue, v1alpha1.ReasonQuorate, "3 of 3 voters serve."},
			members: allReady, updated: allUpdated,
		}, {
			name:    "no StatefulSet",
			fresh:   true,
			with:    func() *cluster.Snapshot { return nil },
			ready:   want{metav1.ConditionUnknown, v1alpha1.ReasonNoMembersInStatus, "There is no StatefulSet yet."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "There is no StatefulSet yet."},
			updated: want{metav1.ConditionFalse, v1alpha1.ReasonRolloutPending, "There is no StatefulSet yet."},
		}, {
			name:  "first start",
			fresh: true,
			with: func() *cluster.Snapshot {
				s := snapshotOf(1)
				away(s, 0, v1alpha1.ClassStarting, "")
				unreachable(s)
				return s
			},
			ready:   want{metav1.ConditionUnknown, v1alpha1.ReasonNoMembersInStatus, "The cluster has not served yet."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-0 is Starting."},
			updated: allUpdated,
		}, {
			name: "one member dead",
			with: func() *cluster.Snapshot {
				s := snapshotOf(3)
				away(s, 1, v1alpha1.ClassDead, "CrashLoopBackOff")
				return s
			},
			ready:   want{metav1.ConditionTrue, v1alpha1.ReasonQuorate, "2 of 3 voters serve."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-1 is Dead (CrashLoopBackOff)."},
			updated: allUpdated,
		}, {
			name: "quorum lost",
			with: func() *cluster.Snapshot {
				s := snapshotOf(3)
				away(s, 1, v1alpha1.ClassMissing, "")
				away(s, 2, v1alpha1.ClassUnready, "")
				return s
			},
			ready:   want{metav1.ConditionFalse, v1alpha1.ReasonQuorumLost, "1 of 3 voters serve, and a quorum takes 2."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-1 is Missing; etcd-main-2 is Unready."},
			updated: allUpdated,
		}, {
			name: "no leader",
			with: func() *cluster.Snapshot {
				s := snapshotOf(3)
				s.Cluster.LeaderKnown = false
				return s
			},
			ready:   want{metav1.ConditionFalse, v1alpha1.ReasonQuorumLost, "3 of 3 voters serve, and a quorum takes 2."},
			members: allReady, updated: allUpdated,
		}, {
			name: "ready pods, and the operator cannot reach them",
			with: func() *cluster.Snapshot {
				s := snapshotOf(3)
				unreachable(s)
				return s
			},
			ready:   want{metav1.ConditionUnknown, v1alpha1.ReasonNoMemberAnswers, "3 pods are ready, and no member answers the operator: let it reach the client port of the pods."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-0 is Unready; etcd-main-1 is Unready; etcd-main-2 is Unready."},
			updated: allUpdated,
		}, {
			name: "nothing answers, nothing is ready",
			with: func() *cluster.Snapshot {
				s := snapshotOf(1)
				away(s, 0, v1alpha1.ClassDead, "")
				unreachable(s)
				return s
			},
			ready:   want{metav1.ConditionFalse, v1alpha1.ReasonQuorumLost, "No member answers."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-0 is Dead."},
			updated: allUpdated,
		}, {
			name: "one pod outdated",
			with: func() *cluster.Snapshot {
				s := snapshotOf(3)
				s.Ordinals[2].Pod.Revision = "old"
				return s
			},
			ready:   want{metav1.ConditionTrue, v1alpha1.ReasonQuorate, "3 of 3 voters serve."},
			members: allReady,
			updated: want{metav1.ConditionFalse, v1alpha1.ReasonRolloutPending, "2 of 3 pods are at the newest template."},
		}, {
			name:    "asleep",
			with:    func() *cluster.Snapshot { return snapshotOf(0) },
			ready:   want{metav1.ConditionFalse, v1alpha1.ReasonHibernated, "The Etcd has no replicas."},
			members: want{metav1.ConditionTrue, v1alpha1.ReasonHibernated, "The Etcd has no replicas."},
			updated: want{metav1.ConditionTrue, v1alpha1.ReasonHibernated, "The Etcd has no replicas."},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := served(3)
			if tc.fresh {
				etcd.Status = v1alpha1.EtcdStatus{}
			}
			status := nextStatus(etcd, observation{snapshot: tc.with(), current: true, lostFor: confirmLoss, now: later})
			for conditionType, w := range map[string]want{
				v1alpha1.ConditionReady: tc.ready, v1alpha1.ConditionAllMembersReady: tc.members, v1alpha1.ConditionAllMembersUpdated: tc.updated,
			} {
				c := meta.FindStatusCondition(status.Conditions, conditionType)
				g.Expect(want{c.Status, c.Reason, c.Message}).To(Equal(w), conditionType)
			}
			g.Expect(*status.Ready).To(Equal(tc.members.status == metav1.ConditionTrue && tc.updated.status == metav1.ConditionTrue))
		})
	}
}

// A rollout has not ended before its last pod is back; a pod that is evicted does not begin one; and a
// template that the StatefulSet controller has not seen changes nothing yet.
func TestAllMembersUpdatedDoesNotWobble(t *testing.T) {
	g := NewWithT(t)
	etcd := served(3)
	updated := func() bool {
		return meta.IsStatusConditionTrue(etcd.Status.Conditions, v1alpha1.ConditionAllMembersUpdated)
	}
	see := func(current bool, change func(*cluster.Snapshot)) {
		s := snapshotOf(3)
		change(s)
		etcd.Status = nextStatus(etcd, observation{snapshot: s, current: current, now: later})
	}
	missing := func(s *cluster.Snapshot) { away(s, 1, v1alpha1.ClassMissing, "") }
	see(true, missing)
	g.Expect(updated()).To(BeTrue(), "evicted")

	etcd.Generation = 2
	see(false, func(s *cluster.Snapshot) { s.StatefulSet.Observed = false })
	g.Expect(updated()).To(BeTrue(), "not seen")
	g.Expect(etcd.Status.ObservedGeneration).To(Equal(int64(1)), "what the status says is of the spec before")

	see(true, func(s *cluster.Snapshot) { s.Ordinals[1].Pod.Revision = "old" })
	g.Expect(updated()).To(BeFalse(), "outdated")
	g.Expect(etcd.Status.ObservedGeneration).To(Equal(int64(2)))
	g.Expect(etcd.Status.Rollout).To(Equal(&v1alpha1.CurrentRollout{TargetRevision: "new"}))

	see(true, missing)
	g.Expect(updated()).To(BeFalse(), "the last pod is on its way")
	g.Expect(etcd.Status.Rollout).NotTo(BeNil())

	see(true, func(*cluster.Snapshot) {})
	g.Expect(updated()).To(BeTrue(), "it is back")
	g.Expect(etcd.Status.Rollout).To(BeNil())
}

// While leadership passes from one member to another nobody should be woken up.
func TestReadyDoesNotWobble(t *testing.T) {
	g := NewWithT(t)
	etcd := served(3)
	s := snapshotOf(3)
	s.Cluster.LeaderKnown = false
	ready := func(lostFor time.Duration) bool {
		status := nextStatus(etcd, observation{snapshot: s, lostFor: lostFor, now: later})
		return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady)
	}
	g.Expect(ready(confirmLoss - 1)).To(BeTrue())
	g.Expect(ready(confirmLoss)).To(BeFalse())
	etcd.Status.Conditions = nil
	g.Expect(ready(0)).To(BeFalse(), "it has never been ready")
}

func TestMemoryOfALostQuorum(t *testing.T) {
	g := NewWithT(t)
	var m memory
	key := types.NamespacedName{Name: "etcd-main"}
	g.Expect(m.lostFor(key, true, noon.Time)).To(BeZero())
	g.Expect(m.lostFor(key, false, noon.Time)).To(BeZero())
	g.Expect(m.lostFor(key, false, later.Time)).To(Equal(time.Minute))
	g.Expect(m.lostFor(key, true, later.Time)).To(BeZero())
	g.Expect(m.lostFor(key, false, later.Time)).To(BeZero())
}

func TestClusterIDIsRecordedOnce(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	s := snapshotOf(3)
	s.Cluster.LeaderKnown = false
	etcd.Status = nextStatus(etcd, observation{snapshot: s, now: noon})
	g.Expect(etcd.Status.ClusterID).To(BeEmpty(), "it has not served")

	etcd.Status = nextStatus(etcd, observation{snapshot: snapshotOf(3), now: noon})
	g.Expect(etcd.Status.ClusterID).To(Equal("cafe"))

	other := snapshotOf(3)
	other.Cluster.ID = 0xbeef
	g.Expect(nextStatus(etcd, observation{snapshot: other, now: noon}).ClusterID).To(Equal("cafe"))
}

func TestMembers(t *testing.T) {
	g := NewWithT(t)
	etcd := served(3)
	g.Expect(etcd.Status.Members[0]).To(Equal(v1alpha1.Member{
		Name: "etcd-main-0", ID: "1", Role: v1alpha1.RoleLeader, Status: v1alpha1.MemberReady, LastTransitionTime: noon,
	}))
	s := snapshotOf(3)
	away(s, 1, v1alpha1.ClassMissing, "")
	next := nextStatus(etcd, observation{snapshot: s, current: true, now: later})
	g.Expect(next.Members[1]).To(Equal(v1alpha1.Member{
		Name: "etcd-main-1", ID: "2", Role: v1alpha1.RoleUnknown, Status: v1alpha1.MemberNotReady, Reason: "Missing", LastTransitionTime: later,
	}), "it keeps its ID")
	g.Expect(next.Members[2].LastTransitionTime).To(Equal(noon))
	g.Expect([]int32{next.Replicas, next.CurrentReplicas, next.ReadyReplicas, next.UpdatedReplicas}).To(Equal([]int32{3, 2, 2, 2}))

	s = snapshotOf(3)
	unreachable(s)
	next = nextStatus(etcd, observation{snapshot: s, current: true, now: later})
	g.Expect(next.Members[0].Status).To(Equal(v1alpha1.MemberUnknown))
}

func TestLastErrors(t *testing.T) {
	g := NewWithT(t)
	etcd := served(3)
	etcd.Status = nextStatus(etcd, observation{snapshot: snapshotOf(3), specErr: errors.New("applying Service a: no"), now: later})
	g.Expect(etcd.Status.LastErrors).To(Equal([]v1alpha1.LastError{{Code: v1alpha1.ErrApply, Description: "applying Service a: no", ObservedAt: later}}))
	etcd.Status = nextStatus(etcd, observation{snapshot: snapshotOf(3), now: later})
	g.Expect(etcd.Status.LastErrors).To(BeEmpty())
}

func TestPollAfter(t *testing.T) {
	g := NewWithT(t)
	g.Expect(pollAfter(&served(3).Status)).To(Equal(pollWell))
	g.Expect(pollAfter(&served(0).Status)).To(Equal(pollWell))
	etcd := served(3)
	s := snapshotOf(3)
	away(s, 1, v1alpha1.ClassUnready, "")
	status := nextStatus(etcd, observation{snapshot: s, now: later})
	g.Expect(pollAfter(&status)).To(Equal(pollTroubled))
}

// Only what somebody may wait for is worth a write at once.
func TestSaysMore(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.EtcdStatus)
		want   bool
	}{
		{"nothing", func(*v1alpha1.EtcdStatus) {}, false},
		{"numbers", func(s *v1alpha1.EtcdStatus) { s.ReadyReplicas, s.UpdatedReplicas = 1, 1 }, false},
		{"members", func(s *v1alpha1.EtcdStatus) { s.Members[0].Role = v1alpha1.RoleFollower }, false},
		{"wording", func(s *v1alpha1.EtcdStatus) { s.Conditions[0].Message = "other" }, false},
		{"condition", func(s *v1alpha1.EtcdStatus) { s.Conditions[0].Status = metav1.ConditionUnknown }, true},
		{"another condition", func(s *v1alpha1.EtcdStatus) { s.Conditions = append(s.Conditions, metav1.Condition{Type: "New"}) }, true},
		{"generation", func(s *v1alpha1.EtcdStatus) { s.ObservedGeneration++ }, true},
		{"cluster ID", func(s *v1alpha1.EtcdStatus) { s.ClusterID = "beef" }, true},
		{"rollout", func(s *v1alpha1.EtcdStatus) { s.Rollout = &v1alpha1.CurrentRollout{TargetRevision: "newer"} }, true},
		{"error", func(s *v1alpha1.EtcdStatus) { s.LastErrors = []v1alpha1.LastError{{Code: v1alpha1.ErrApply}} }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			before := served(3).Status
			after := *before.DeepCopy()
			tc.change(&after)
			g.Expect(saysMore(&before, &after)).To(Equal(tc.want))
		})
	}
}

// An error that lasts keeps its time, so that a status that tells the same is not written again.
func TestErrorsThatLast(t *testing.T) {
	g := NewWithT(t)
	etcd := served(3)
	failing := observation{snapshot: snapshotOf(3), specErr: errors.New("no"), now: noon}
	etcd.Status = nextStatus(etcd, failing)
	g.Expect(etcd.Status.LastErrors).To(ConsistOf(v1alpha1.LastError{Code: v1alpha1.ErrApply, Description: "no", ObservedAt: noon}))
	failing.now = later
	g.Expect(nextStatus(etcd, failing)).To(Equal(etcd.Status))
	failing.specErr = fmt.Errorf("applying: %w", &tasks.CodedError{Code: v1alpha1.ErrPeerURLs, Err: errors.New("refused")})
	g.Expect(nextStatus(etcd, failing).LastErrors).To(ConsistOf(v1alpha1.LastError{Code: v1alpha1.ErrPeerURLs, Description: "applying: refused", ObservedAt: later}))
	failing.specErr = nil
	g.Expect(nextStatus(etcd, failing).LastErrors).To(BeEmpty())
}

// A schedule that is none is reported in the status, and the rest of the spec is carried out.
func TestBadSchedule(t *testing.T) {
	g := NewWithT(t)
	etcd := served(3)
	etcd.Spec.Etcd.DefragmentationSchedule = ptr.To("5-2 * * * *")
	_, err := upkeep.DefragmentationSchedule(etcd)
	g.Expect(err).To(HaveOccurred())
	status := nextStatus(etcd, observation{snapshot: snapshotOf(3), current: true, scheduleErr: err, now: noon})
	g.Expect(status.LastErrors).To(HaveLen(1))
	g.Expect(status.LastErrors[0].Code).To(Equal(v1alpha1.ErrSchedule))
	g.Expect(status.LastErrors[0].Description).To(ContainSubstring("spec.etcd.defragmentationSchedule"))
	g.Expect(status.ObservedGeneration).To(Equal(etcd.Generation))
}
