// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/equality"
)

// alarming returns a healthy cluster with alarms.
func alarming(alarms ...cluster.Alarm) *cluster.Snapshot {
	s := clustertest.Healthy(3)
	s.Cluster.Alarms = alarms
	return s
}

func TestAlarms(t *testing.T) {
	const noSpace = `a database has reached its quota, and etcd accepts no writes except deletions. Free space and disarm the alarm with "kubectl etcdtask defrag etcd-main -n shoot-a --compaction"; if that frees too little, delete keys or raise spec.etcd.quota first.`
	const corrupt = "the data of members differs, and etcd accepts no writes. Find the member that differs, replace it by one with the data of the others, and disarm the alarm (etcdctl alarm disarm)."
	for name, c := range map[string]struct {
		alarms          []cluster.Alarm
		reason, message string
	}{
		"none":                    {nil, "", ""},
		"NOSPACE":                 {[]cluster.Alarm{{Kind: "NOSPACE", Member: "m-1"}}, v1alpha1.ReasonAlarmNoSpace, "Alarm NOSPACE of m-1: " + noSpace},
		"NOSPACE of two":          {[]cluster.Alarm{{Kind: "NOSPACE", Member: "m-0"}, {Kind: "NOSPACE", Member: "m-1"}}, v1alpha1.ReasonAlarmNoSpace, "Alarm NOSPACE of m-0, m-1: " + noSpace},
		"CORRUPT, as in etcd 3.5": {[]cluster.Alarm{{Kind: "CORRUPT"}}, v1alpha1.ReasonAlarmCorrupt, "Alarm CORRUPT of a member that etcd does not name: " + corrupt},
		"the worst comes first": {[]cluster.Alarm{{Kind: "DISK_SLOW", Member: "m-0"}, {Kind: "NOSPACE", Member: "m-0"}, {Kind: "CORRUPT", Member: "m-2"}}, v1alpha1.ReasonAlarmCorrupt,
			"Alarm CORRUPT of m-2: " + corrupt + " Alarm NOSPACE of m-0: " + noSpace + " Alarm DISK_SLOW of m-0: see the documentation of etcd."},
		"one that a newer etcd has": {[]cluster.Alarm{{Kind: "DISK_SLOW", Member: "m-0"}, {Kind: "DISK_SLOW", Member: "m-1"}}, v1alpha1.ReasonAlarmUnknown, "Alarm DISK_SLOW of m-0, m-1: see the documentation of etcd."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := served()
			etcd.Status = Next(observed(etcd, alarming(c.alarms...), noon))
			found := etcd.Status.Conditions.Find(v1alpha1.ConditionAlarmRaised)
			if c.reason == "" {
				g.Expect(found).To(BeNil(), "it is absent when all is well")
				return
			}
			g.Expect(etcd.Status.Conditions.IsTrue(v1alpha1.ConditionAlarmRaised)).To(BeTrue())
			g.Expect(found).To(HaveValue(And(HaveField("Reason", c.reason), HaveField("Message", c.message))))
			g.Expect(etcd.Status.Conditions.IsTrue(v1alpha1.ConditionUpToDate)).To(BeTrue(), "the spec is carried out")
			again := Next(observed(etcd, alarming(c.alarms...), later))
			g.Expect(equality.Semantic.DeepEqual(again, etcd.Status)).To(BeTrue(), "nothing is written while nothing changes")
			g.Expect(SaysMore(&etcd.Status, &again)).To(BeFalse())
			disarmed := Next(observed(etcd, alarming(), later))
			g.Expect(disarmed.Conditions.Find(v1alpha1.ConditionAlarmRaised)).To(BeNil())
			g.Expect(SaysMore(&etcd.Status, &disarmed)).To(BeTrue(), "it is written at once")
		})
	}
}

// An alarm stays until a member that serves does not have it.
func TestAlarmsWhileNoMemberSays(t *testing.T) {
	unreachable := clustertest.Healthy(3)
	clustertest.Unreachable(unreachable)
	leaderless := clustertest.Healthy(3)
	for i := range leaderless.Ordinals {
		leaderless.Ordinals[i].Serving, leaderless.Cluster.Voters[i].Serving = false, false
	}
	leaving := clustertest.Healthy(1)
	leaving.Ordinals[0].Class, leaving.Cluster.Voters[0].Serving = v1alpha1.ClassTerminating, false
	held := clustertest.Healthy(0)
	held.StatefulSet.HeldAtZeroBy = "task"
	for name, c := range map[string]struct {
		change func(*Input)
		stays  bool
	}{
		"a member serves":                         {func(*Input) {}, false},
		"the only one does, and its pod is to go": {func(o *Input) { o.Snapshot = leaving }, false},
		"none answers":                            {func(o *Input) { o.Snapshot = unreachable }, true},
		"none knows a leader":                     {func(o *Input) { o.Snapshot = leaderless }, true},
		"a task has stopped all":                  {func(o *Input) { o.Snapshot = held }, true},
		"there is no StatefulSet":                 {func(o *Input) { o.Snapshot = nil }, true},
		"it is hibernated":                        {func(o *Input) { o.Snapshot, o.Etcd.Spec.Replicas = clustertest.Healthy(0), 0 }, false},
		"another operator manages it": {func(o *Input) {
			o.Snapshot, o.Foreign = nil, []ownership.Foreign{{Kind: "StatefulSet", Name: "ns/e", Reason: v1alpha1.ReasonManagedByAnother}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, before := range []bool{false, true} {
				g := NewWithT(t)
				etcd := served()
				if before {
					etcd.Status = Next(observed(etcd, alarming(cluster.Alarm{Kind: "NOSPACE", Member: "m-0"}), noon))
				}
				was := etcd.Status.Conditions.Find(v1alpha1.ConditionAlarmRaised).DeepCopy()
				o := observed(etcd, clustertest.Healthy(3), later)
				c.change(&o)
				next := Next(o)
				if found := next.Conditions.Find(v1alpha1.ConditionAlarmRaised); before && c.stays {
					g.Expect(found).To(Equal(was))
				} else {
					g.Expect(found).To(BeNil())
				}
			}
		})
	}
}
