// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/hibernation"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/scale"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/tls"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var (
	noon  = metav1.NewTime(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	later = metav1.NewTime(noon.Add(time.Minute))
)

// served returns an Etcd with a healthy cluster of three that has served.
func served() *v1alpha1.Etcd {
	etcd := &v1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main", Generation: 1},
		Spec:       v1alpha1.EtcdSpec{Replicas: 3},
	}
	etcd.Status = Next(observed(etcd, clustertest.Healthy(3), noon))
	return etcd
}

// observed returns an observation of an Etcd whose newest spec is applied.
func observed(etcd *v1alpha1.Etcd, s *cluster.Snapshot, now metav1.Time) Input {
	return Input{State: &state.State{Etcd: etcd, Snapshot: s}, TLS: &tls.Plan{}, Size: &scale.Size{}, Settled: true, Now: now}
}

// unsettled returns an observation of an Etcd whose newest spec is not applied yet.
func unsettled(etcd *v1alpha1.Etcd, s *cluster.Snapshot, now metav1.Time) Input {
	o := observed(etcd, s, now)
	o.Settled = false
	return o
}

func TestConditions(t *testing.T) {
	type want struct {
		status  metav1.ConditionStatus
		reason  string
		message string
	}
	const noStatefulSet = -1
	allReady := want{metav1.ConditionTrue, v1alpha1.ReasonAllMembersReady, "Every member participates."}
	allUpdated := want{metav1.ConditionTrue, v1alpha1.ReasonAllMembersUpdated, "Every pod is at the newest template."}
	for _, tc := range []struct {
		name    string
		fresh   bool                    // the cluster has not served yet
		size    int                     // of the cluster, whose members are healthy before the change
		change  func(*cluster.Snapshot) // nil for none
		ready   want
		members want
		updated want
	}{
		{
			name:    "well",
			size:    3,
			ready:   want{metav1.ConditionTrue, v1alpha1.ReasonQuorate, "3 of 3 voters serve."},
			members: allReady, updated: allUpdated,
		}, {
			name:    "no StatefulSet",
			fresh:   true,
			size:    noStatefulSet,
			ready:   want{metav1.ConditionUnknown, v1alpha1.ReasonNoMembersInStatus, "There is no StatefulSet yet."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "There is no StatefulSet yet."},
			updated: want{metav1.ConditionFalse, v1alpha1.ReasonRolloutPending, "There is no StatefulSet yet."},
		}, {
			name:  "first start",
			fresh: true,
			size:  1,
			change: func(s *cluster.Snapshot) {
				clustertest.Away(s, 0, v1alpha1.ClassStarting, "")
				clustertest.Unreachable(s)
			},
			ready:   want{metav1.ConditionUnknown, v1alpha1.ReasonNoMembersInStatus, "The cluster has not served yet."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-0 is Starting."},
			updated: allUpdated,
		}, {
			name:    "one member dead",
			size:    3,
			change:  func(s *cluster.Snapshot) { clustertest.Away(s, 1, v1alpha1.ClassDead, "CrashLoopBackOff") },
			ready:   want{metav1.ConditionTrue, v1alpha1.ReasonQuorate, "2 of 3 voters serve."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-1 is Dead (CrashLoopBackOff)."},
			updated: allUpdated,
		}, {
			name: "quorum lost",
			size: 3,
			change: func(s *cluster.Snapshot) {
				clustertest.Away(s, 1, v1alpha1.ClassMissing, "")
				clustertest.Away(s, 2, v1alpha1.ClassUnready, "")
			},
			ready:   want{metav1.ConditionFalse, v1alpha1.ReasonQuorumLost, "1 of 3 voters serve; quorum is 2."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-1 is Missing; etcd-main-2 is Unready."},
			updated: allUpdated,
		}, {
			name:    "no leader",
			size:    3,
			change:  func(s *cluster.Snapshot) { s.Cluster.LeaderKnown = false },
			ready:   want{metav1.ConditionFalse, v1alpha1.ReasonQuorumLost, "3 of 3 voters serve; quorum is 2."},
			members: allReady, updated: allUpdated,
		}, {
			name:    "ready pods, unreachable from the operator",
			size:    3,
			change:  clustertest.Unreachable,
			ready:   want{metav1.ConditionUnknown, v1alpha1.ReasonNoMemberAnswers, "3 pods are ready, but no member answers the operator: allow operator traffic to the pods' client port."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-0 is Unready; etcd-main-1 is Unready; etcd-main-2 is Unready."},
			updated: allUpdated,
		}, {
			name: "pods whose probes pass, and that are not ready, unreachable from the operator",
			size: 3,
			change: func(s *cluster.Snapshot) {
				clustertest.Unreachable(s)
				for i := range s.Ordinals {
					s.Ordinals[i].Pod.AllContainersReady = false
				}
			},
			ready:   want{metav1.ConditionUnknown, v1alpha1.ReasonNoMemberAnswers, "The probes of 3 members pass, but no member answers the operator: allow operator traffic to the pods' client port."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-0 is Unready; etcd-main-1 is Unready; etcd-main-2 is Unready."},
			updated: allUpdated,
		}, {
			name: "the only node is lost",
			size: 1,
			change: func(s *cluster.Snapshot) {
				clustertest.Unreachable(s)
				s.Ordinals[0].Pod.Ready, s.Ordinals[0].Pod.AllContainersReady, s.Ordinals[0].Pod.NodeLost = false, false, true
			},
			ready:   want{metav1.ConditionFalse, v1alpha1.ReasonQuorumLost, "No member answers."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-0 is Unready."},
			updated: allUpdated,
		}, {
			name: "ready pods with TLS, unreachable from the operator",
			size: 1,
			change: func(s *cluster.Snapshot) {
				clustertest.Unreachable(s)
				s.Ordinals[0].Pod.Endpoint = "https://a"
			},
			ready:   want{metav1.ConditionUnknown, v1alpha1.ReasonNoMemberAnswers, "1 pods are ready, but no member answers the operator: allow operator traffic to the pods' client port. Or they refuse its certificate: TLSReady says whether they were started with the CAs in their Secrets."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-0 is Unready."},
			updated: allUpdated,
		}, {
			name: "nothing answers, nothing is ready",
			size: 1,
			change: func(s *cluster.Snapshot) {
				clustertest.Away(s, 0, v1alpha1.ClassDead, "")
				clustertest.Unreachable(s)
			},
			ready:   want{metav1.ConditionFalse, v1alpha1.ReasonQuorumLost, "No member answers."},
			members: want{metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, "etcd-main-0 is Dead."},
			updated: allUpdated,
		}, {
			name:    "one pod outdated",
			size:    3,
			change:  func(s *cluster.Snapshot) { s.Ordinals[2].Pod.Revision = "old" },
			ready:   want{metav1.ConditionTrue, v1alpha1.ReasonQuorate, "3 of 3 voters serve."},
			members: allReady,
			updated: want{metav1.ConditionFalse, v1alpha1.ReasonRolloutPending, "2 of 3 pods are at the newest template."},
		}, {
			name:    "hibernated",
			size:    0,
			ready:   want{metav1.ConditionFalse, v1alpha1.ReasonHibernated, "The Etcd has no replicas."},
			members: want{metav1.ConditionTrue, v1alpha1.ReasonHibernated, "The Etcd has no replicas."},
			updated: want{metav1.ConditionTrue, v1alpha1.ReasonHibernated, "The Etcd has no replicas."},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := served()
			if tc.fresh {
				etcd.Status = v1alpha1.EtcdStatus{}
			}
			o := observed(etcd, nil, later)
			if tc.size != noStatefulSet {
				o.Snapshot = clustertest.Healthy(tc.size)
			}
			if tc.change != nil {
				tc.change(o.Snapshot)
			}
			if tc.size == 0 {
				etcd.Spec.Replicas = 0
			}
			o.LostFor = confirmLoss
			status := Next(o)
			for conditionType, w := range map[string]want{
				v1alpha1.ConditionReady: tc.ready, v1alpha1.ConditionAllMembersReady: tc.members, v1alpha1.ConditionAllMembersUpdated: tc.updated,
			} {
				c := status.Conditions.Find(conditionType)
				g.Expect(want{c.Status, c.Reason, c.Message}).To(Equal(w), conditionType)
			}
			g.Expect(*status.Ready).To(Equal(tc.members.status == metav1.ConditionTrue && tc.updated.status == metav1.ConditionTrue))
		})
	}
}

// A rollout has not ended before its last pod is ready; an evicted pod does not start one; and a template that the
// StatefulSet controller has not observed changes nothing yet.
func TestAllMembersUpdatedDoesNotFlap(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	updated := func() bool {
		return etcd.Status.Conditions.IsTrue(v1alpha1.ConditionAllMembersUpdated)
	}
	see := func(current bool, change func(*cluster.Snapshot)) {
		s := clustertest.Healthy(3)
		change(s)
		o := observed(etcd, s, later)
		o.Settled = current
		etcd.Status = Next(o)
	}
	missing := func(s *cluster.Snapshot) { clustertest.Away(s, 1, v1alpha1.ClassMissing, "") }
	see(true, missing)
	g.Expect(updated()).To(BeTrue(), "evicted")

	etcd.Generation = 2
	see(false, func(s *cluster.Snapshot) { s.StatefulSet.Observed = false })
	g.Expect(updated()).To(BeTrue(), "not seen")
	g.Expect(etcd.Status.ObservedGeneration).To(Equal(int64(1)), "the status still reflects the previous spec")

	see(true, func(s *cluster.Snapshot) { s.Ordinals[1].Pod.Revision = "old" })
	g.Expect(updated()).To(BeFalse(), "outdated")
	g.Expect(etcd.Status.ObservedGeneration).To(Equal(int64(2)))
	g.Expect(etcd.Status.Rollout).To(Equal(&v1alpha1.CurrentRollout{TargetRevision: "new"}))

	see(true, missing)
	g.Expect(updated()).To(BeFalse(), "the last pod is starting")
	g.Expect(etcd.Status.Rollout).NotTo(BeNil())

	see(true, func(*cluster.Snapshot) {})
	g.Expect(updated()).To(BeTrue(), "the last pod is ready")
	g.Expect(etcd.Status.Rollout).To(BeNil())
}

// A change of leadership must not trigger an alert.
func TestReadyDoesNotFlap(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	s := clustertest.Healthy(3)
	s.Cluster.LeaderKnown = false
	ready := func(lostFor time.Duration) bool {
		o := unsettled(etcd, s, later)
		o.LostFor = lostFor
		status := Next(o)
		return status.Conditions.IsTrue(v1alpha1.ConditionReady)
	}
	g.Expect(ready(confirmLoss - 1)).To(BeTrue())
	g.Expect(ready(confirmLoss)).To(BeFalse())
	etcd.Status.Conditions = nil
	g.Expect(ready(0)).To(BeFalse(), "the cluster has never been ready")
}

func TestClusterIDIsRecordedOnce(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	s := clustertest.Healthy(3)
	s.Cluster.LeaderKnown = false
	etcd.Status = Next(unsettled(etcd, s, noon))
	g.Expect(etcd.Status.ClusterID).To(BeEmpty(), "the cluster has not served")

	etcd.Status = Next(unsettled(etcd, clustertest.Healthy(3), noon))
	g.Expect(etcd.Status.ClusterID).To(Equal("cafe"))

	other := clustertest.Healthy(3)
	other.Cluster.ID = 0xbeef
	g.Expect(Next(unsettled(etcd, other, noon)).ClusterID).To(Equal("cafe"))
}

func TestMembers(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	g.Expect(etcd.Status.Members[0]).To(Equal(v1alpha1.Member{
		Name: "etcd-main-0", ID: "1", Role: v1alpha1.MemberRoleLeader, Status: v1alpha1.MemberReady, Reason: "Participating", LastTransitionTime: noon,
	}))
	s := clustertest.Healthy(3)
	clustertest.Away(s, 1, v1alpha1.ClassMissing, "")
	next := Next(observed(etcd, s, later))
	g.Expect(next.Members[1]).To(Equal(v1alpha1.Member{
		Name: "etcd-main-1", ID: "2", Status: v1alpha1.MemberNotReady, Reason: "Missing", LastTransitionTime: later,
	}), "the member keeps its ID")
	g.Expect(next.Members[2].LastTransitionTime).To(Equal(noon))
	g.Expect([]int32{next.Replicas, next.CurrentReplicas, next.ReadyReplicas, next.UpdatedReplicas}).To(Equal([]int32{3, 2, 2, 2}))

	s = clustertest.Healthy(3)
	clustertest.Unreachable(s)
	next = Next(observed(etcd, s, later))
	g.Expect(next.Members[0].Status).To(Equal(v1alpha1.MemberUnknown))
}

func TestLastErrors(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	o := unsettled(etcd, clustertest.Healthy(3), later)
	o.Failures = []Failure{{Code: v1alpha1.ErrApply, Err: errors.New("applying Service a: no")}}
	etcd.Status = Next(o)
	g.Expect(etcd.Status.LastErrors).To(Equal([]v1alpha1.LastError{{Code: v1alpha1.ErrApply, Description: "applying Service a: no", ObservedAt: later}}))
	etcd.Status = Next(unsettled(etcd, clustertest.Healthy(3), later))
	g.Expect(etcd.Status.LastErrors).To(BeEmpty())
}

// Only changes that a client may wait for are written at once.
func TestSaysMore(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.EtcdStatus)
		want   bool
	}{
		{"nothing", func(*v1alpha1.EtcdStatus) {}, false},
		{"numbers", func(s *v1alpha1.EtcdStatus) { s.ReadyReplicas, s.UpdatedReplicas = 1, 1 }, false},
		{"members", func(s *v1alpha1.EtcdStatus) { s.Members[0].Role = v1alpha1.MemberRoleMember }, false},
		{"wording", func(s *v1alpha1.EtcdStatus) { s.Conditions[0].Message = "other" }, false},
		{"condition", func(s *v1alpha1.EtcdStatus) { s.Conditions[0].Status = metav1.ConditionUnknown }, true},
		{"another condition", func(s *v1alpha1.EtcdStatus) {
			s.Conditions = append(s.Conditions, v1alpha1.Condition{Condition: metav1.Condition{Type: "New"}})
		}, true},
		{"generation", func(s *v1alpha1.EtcdStatus) { s.ObservedGeneration++ }, true},
		{"cluster ID", func(s *v1alpha1.EtcdStatus) { s.ClusterID = "beef" }, true},
		{"rollout", func(s *v1alpha1.EtcdStatus) { s.Rollout = &v1alpha1.CurrentRollout{TargetRevision: "newer"} }, true},
		{"error", func(s *v1alpha1.EtcdStatus) { s.LastErrors = []v1alpha1.LastError{{Code: v1alpha1.ErrApply}} }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			before := served().Status
			after := *before.DeepCopy()
			tc.change(&after)
			g.Expect(SaysMore(&before, &after)).To(Equal(tc.want))
		})
	}
}

// A persistent error keeps its time, so that an unchanged status is not written again.
func TestErrorsThatLast(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	failing := unsettled(etcd, clustertest.Healthy(3), noon)
	failing.Failures = []Failure{{Code: v1alpha1.ErrApply, Err: errors.New("no")}}
	etcd.Status = Next(failing)
	g.Expect(etcd.Status.LastErrors).To(ConsistOf(v1alpha1.LastError{Code: v1alpha1.ErrApply, Description: "no", ObservedAt: noon}))
	g.Expect(etcd.Status.Conditions.Find(v1alpha1.ConditionReconciled)).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Message", "no.")))
	failing.Now = later
	g.Expect(Next(failing)).To(Equal(etcd.Status))
	failing.Failures[0].Err = fmt.Errorf("applying: %w", coded.Error(v1alpha1.ErrPeerURLs, errors.New("refused")))
	g.Expect(Next(failing).LastErrors).To(ConsistOf(v1alpha1.LastError{Code: v1alpha1.ErrPeerURLs, Description: "applying: refused", ObservedAt: later}))
	failing.Failures = nil
	etcd.Status = Next(failing)
	g.Expect(etcd.Status.LastErrors).To(BeEmpty())
	g.Expect(etcd.Status.Conditions.IsTrue(v1alpha1.ConditionReconciled)).To(BeTrue())
}

// An invalid schedule is reported in the status, and the rest of the spec is carried out.
func TestBadSchedule(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Spec.Etcd.DefragmentationSchedule = ptr.To("5-2 * * * *")
	_, err := component.DefragmentationSchedule(etcd)
	g.Expect(err).To(HaveOccurred())
	o := observed(etcd, clustertest.Healthy(3), noon)
	o.ScheduleErr = err
	status := Next(o)
	g.Expect(status.LastErrors).To(HaveLen(1))
	g.Expect(status.LastErrors[0].Code).To(Equal(v1alpha1.ErrSchedule))
	g.Expect(status.LastErrors[0].Description).To(ContainSubstring("spec.etcd.defragmentationSchedule"))
	g.Expect(status.ObservedGeneration).To(Equal(etcd.Generation))
}

// An error of any stage is reported along with the observed members; the status of stages not reached stays unchanged.
func TestPartOfAnObservation(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{}
	o := observed(etcd, clustertest.Healthy(3), noon)
	o.Size = &scale.Size{Reason: v1alpha1.ReasonScalingOut, Why: "3 of 5 members: the next one is added"}
	etcd.Status = Next(o)
	before := map[string]metav1.Condition{}
	for _, c := range etcd.Status.Conditions {
		before[c.Type] = c.Condition
	}
	s := clustertest.Healthy(3)
	clustertest.Away(s, 1, v1alpha1.ClassMissing, "")
	etcd.Status = Next(Input{
		State: &state.State{Etcd: etcd, Snapshot: s}, Now: later, Failures: []Failure{{Code: v1alpha1.ErrApply, Err: errors.New("scaling: no")}},
	})
	g.Expect(etcd.Status.Members[1].Status).To(Equal(v1alpha1.MemberNotReady))
	g.Expect(etcd.Status.LastErrors).To(ConsistOf(HaveField("Description", "scaling: no")))
	g.Expect(etcd.Status.LastOperation.State).To(Equal(v1alpha1.OperationError))
	for _, kept := range []string{v1alpha1.ConditionScaled, v1alpha1.ConditionTLSReady} {
		g.Expect(*etcd.Status.Conditions.Find(kept)).To(Equal(before[kept]))
	}
}

// A reconcile that ended before its observation adds its errors and leaves the rest unchanged.
func TestInterrupted(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	g.Expect(Interrupted(etcd, nil, later)).To(Equal(etcd.Status))
	o := observed(etcd, clustertest.Healthy(3), noon)
	o.ScheduleErr = errors.New("no such month")
	etcd.Status = Next(o)
	members := etcd.Status.Members
	etcd.Status = Interrupted(etcd, []Failure{{Code: v1alpha1.ErrObserve, Err: errors.New("listing pods: timeout")}}, later)
	g.Expect(etcd.Status.LastErrors).To(Equal([]v1alpha1.LastError{
		{Code: v1alpha1.ErrObserve, Description: "listing pods: timeout", ObservedAt: later},
		{Code: v1alpha1.ErrSchedule, Description: "no such month", ObservedAt: noon},
	}))
	g.Expect(etcd.Status.Members).To(Equal(members))
	g.Expect(etcd.Status.Conditions.IsTrue(v1alpha1.ConditionReady)).To(BeTrue())
	again := Interrupted(etcd, []Failure{{Code: v1alpha1.ErrObserve, Err: errors.New("listing pods: timeout")}}, metav1.NewTime(later.Add(time.Minute)))
	g.Expect(again).To(Equal(etcd.Status), "an unchanged status is not written again")
}

// While a reconcile waits for long, the status does not go on saying that the members are ready: they are not observed. It says it once.
func TestInterruptedByAWait(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Status = Next(observed(etcd, clustertest.Healthy(3), noon))
	g.Expect(*etcd.Status.Ready).To(BeTrue())
	waits := []Failure{{Code: v1alpha1.ErrObserve, Err: errors.New("its pods have no owner"), Waits: true}}
	etcd.Status = Interrupted(etcd, waits, later)
	for _, name := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady} {
		g.Expect(etcd.Status.Conditions.Find(name)).To(HaveValue(And(HaveField("Status", metav1.ConditionUnknown), HaveField("Reason", v1alpha1.ReasonNotObserved),
			HaveField("Message", "The members are not observed: its pods have no owner."))))
	}
	g.Expect(*etcd.Status.Ready).To(BeFalse())
	g.Expect(etcd.Status.Conditions.Find(v1alpha1.ConditionStalled)).To(HaveValue(HaveField("Message", "its pods have no owner.")))
	g.Expect(Interrupted(etcd, waits, metav1.NewTime(later.Add(time.Minute)))).To(Equal(etcd.Status), "an unchanged status is not written again")
	etcd.Status = Next(observed(etcd, clustertest.Healthy(3), later))
	g.Expect(etcd.Status.Conditions.IsTrue(v1alpha1.ConditionReady)).To(BeTrue())
	g.Expect(*etcd.Status.Ready).To(BeTrue())
	g.Expect(etcd.Status.LastErrors).To(BeEmpty())
}

// From the record to the restored cluster.
func TestHibernationInTheStatus(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.UID, etcd.Status.ClusterID, etcd.Spec.Replicas = etcdUID, "cafe", 0
	step := func(change func(*Input)) v1alpha1.EtcdStatus {
		o := observed(etcd, nil, noon)
		change(&o)
		etcd.Status = Next(o)
		return etcd.Status
	}
	nothing := func(*Input) {}
	recording := func(record *v1alpha1.Hibernation) func(*Input) {
		return func(o *Input) {
			o.Hibernation = &hibernation.View{Record: record, Condition: conditions.False(v1alpha1.ConditionHibernated, v1alpha1.ReasonHibernating, "deleting")}
		}
	}
	restoring := func(o *Input) { o.WakeUp = &hibernation.WakeUp{Restores: true} }
	record := &v1alpha1.Hibernation{ID: "job", Snapshot: "p/v2/Full-x", Revision: 42, ClusterID: "cafe"}
	g.Expect(step(nothing).Hibernation).To(BeNil())
	g.Expect(step(recording(record)).Hibernation).To(Equal(record))
	other := record.DeepCopy()
	other.ID = "other"
	g.Expect(step(recording(other)).Hibernation).To(Equal(record), "the record does not change")
	g.Expect(step(nothing).Hibernation).To(Equal(record), "the record stays")
	g.Expect(etcd.Status.Recovery).To(BeNil())

	etcd.Spec.Replicas = 3
	g.Expect(step(nothing).Recovery).To(BeNil(), "the claims are deleted first")
	g.Expect(step(restoring).Recovery).To(Equal(&v1alpha1.ClusterRecovery{
		TaskUID: "job", Member: "etcd-main-0", Source: v1alpha1.RecoverFromBackup, PreviousClusterID: "cafe", Revision: 42,
	}))

	// One member serves, and the others are learners.
	id := member.ClusterID(etcdUID+"-job", "etcd-main-0=http"+memberURL0)
	one := serving(3, id)
	one.Ordinals[1].Role = v1alpha1.RoleLearner
	step(func(o *Input) { restoring(o); o.Snapshot = one })
	g.Expect(etcd.Status.ClusterID).To(Equal(id))
	g.Expect(etcd.Status.Hibernation).To(BeNil())
	g.Expect(etcd.Status.Recovery).NotTo(BeNil())
	for _, c := range etcd.Status.Conditions {
		g.Expect(c.Type).NotTo(Equal(v1alpha1.ConditionHibernated))
	}
	g.Expect(step(func(o *Input) { o.Snapshot = serving(3, id) }).Recovery).To(BeNil())
}

// While no member runs, although they are to, nothing says that the Etcd has no replicas, or what kept a member from starting before.
func TestStoppedMembers(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Spec.Replicas = 0
	step := func(s *cluster.Snapshot, why string) {
		o := observed(etcd, s, later)
		if why != "" {
			o.Size = &scale.Size{Reason: v1alpha1.ReasonWakingUp, Why: why}
		}
		etcd.Status = Next(o)
	}
	says := func(conditionType string, status metav1.ConditionStatus, reason, message string) {
		g.ExpectWithOffset(1, etcd.Status.Conditions.Find(conditionType)).To(HaveValue(And(
			HaveField("Status", status), HaveField("Reason", reason), HaveField("Message", message))), conditionType)
	}
	step(clustertest.Healthy(0), "")
	says(v1alpha1.ConditionScaled, metav1.ConditionTrue, v1alpha1.ReasonHibernated, "The Etcd has no replicas.")
	says(v1alpha1.ConditionDataVolumesReady, metav1.ConditionTrue, v1alpha1.ReasonHibernated, "The Etcd has no replicas.")

	etcd.Spec.Replicas = 3
	for why, message := range map[string]string{
		"":                    "The cluster wakes up, and no member has been started yet.",
		"waiting for the Job": "The cluster wakes up, and no member has been started yet: waiting for the Job.",
	} {
		step(clustertest.Healthy(0), why)
		says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWakingUp, message)
		says(v1alpha1.ConditionScaled, metav1.ConditionFalse, v1alpha1.ReasonWakingUp, message)
		says(v1alpha1.ConditionDataVolumesReady, metav1.ConditionUnknown, v1alpha1.ReasonWakingUp, message)
	}

	held := clustertest.Healthy(0)
	held.StatefulSet.HeldAtZeroBy = "task"
	step(held, "")
	const task = "A task has stopped all members, and will start them again."
	says(v1alpha1.ConditionScaled, metav1.ConditionFalse, v1alpha1.ReasonHeldAtZero, task)
	says(v1alpha1.ConditionDataVolumesReady, metav1.ConditionUnknown, v1alpha1.ReasonHeldAtZero, task)
}

// What a reconcile did not find out keeps its error: a Secret that could not be read, owners that were not checked, and a
// stage that was skipped.
func TestErrorsOfWhatIsNotKnown(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Status.LastErrors = []v1alpha1.LastError{
		{Code: v1alpha1.ErrApply, Description: "a", ObservedAt: noon}, {Code: v1alpha1.ErrForeignObject, Description: "f", ObservedAt: noon},
		{Code: v1alpha1.ErrTLSSecret, Description: "t", ObservedAt: noon},
	}
	o := observed(etcd, clustertest.Healthy(3), later)
	o.TLS, o.Open = nil, []v1alpha1.ErrorCode{v1alpha1.ErrApply}
	next := Next(o)
	g.Expect(next.LastErrors).To(Equal(etcd.Status.LastErrors))
	g.Expect(next.LastOperation.State).To(Equal(v1alpha1.OperationError))
	o.TLS, o.Open, o.OwnersChecked = &tls.Plan{}, nil, true
	g.Expect(Next(o).LastErrors).To(BeEmpty())
}

// A user who may scale the StatefulSet has scaled it to more replicas than are observed: the status says so, and no longer what the
// members were last seen to be.
func TestTooManyReplicas(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd-main"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	before := Next(Input{State: &state.State{Etcd: etcd, Snapshot: clustertest.Healthy(3)}})
	etcd.Status = before
	g.Expect(before.Conditions.IsTrue(v1alpha1.ConditionReady)).To(BeTrue())
	set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](math.MaxInt32)}}
	next := Next(Input{State: &state.State{Etcd: etcd, StatefulSet: set, TooManyReplicas: true}})
	const message = "StatefulSet ns/etcd-main was scaled to 2147483647 replicas, and members are observed up to 100 only: scale it back to the number of members, 3."
	for conditionType, status := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionReady: metav1.ConditionUnknown, v1alpha1.ConditionAllMembersReady: metav1.ConditionUnknown,
		v1alpha1.ConditionAllMembersUpdated: metav1.ConditionUnknown, v1alpha1.ConditionScaled: metav1.ConditionFalse,
	} {
		c := next.Conditions.Find(conditionType)
		g.Expect(c).To(HaveValue(And(HaveField("Status", status), HaveField("Reason", v1alpha1.ReasonTooManyReplicas), HaveField("Message", message))), conditionType)
	}
	g.Expect(next.Ready).To(HaveValue(BeFalse()))
	g.Expect(next.ClusterSize).To(Equal(int32(3)), "it stays what it was")
}

// How many vote is recorded by what a quorum lists, and outlives it: it is what is known of a cluster that no operator reaches.
func TestVotersAreRecorded(t *testing.T) {
	g, etcd := NewWithT(t), served()
	s := clustertest.Healthy(3)
	s.Cluster.Voters = s.Cluster.Voters[:1]
	g.Expect(Next(observed(etcd, s, noon)).Voters).To(Equal(int32(1)), "two have yet to join")
	etcd.Status.Voters = 1
	lost := clustertest.Healthy(3)
	for i := range lost.Ordinals {
		clustertest.Away(lost, i, v1alpha1.ClassDead, "")
	}
	lost.Cluster.LeaderKnown, lost.Cluster.Leader = false, 0
	g.Expect(Next(observed(etcd, lost, later)).Voters).To(Equal(int32(1)), "no quorum says so")
	unlisted := clustertest.Healthy(3)
	unlisted.Cluster.Voters = nil
	g.Expect(Next(observed(etcd, unlisted, later)).Voters).To(Equal(int32(1)), "no voter has returned the list")
	unreachable := clustertest.Healthy(3)
	clustertest.Unreachable(unreachable)
	g.Expect(Next(observed(etcd, unreachable, later)).Voters).To(Equal(int32(1)))
	g.Expect(Next(observed(etcd, clustertest.Healthy(3), later)).Voters).To(Equal(int32(3)))
}
