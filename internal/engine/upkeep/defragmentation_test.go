// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package upkeep

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	. "github.com/onsi/gomega"
	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// scheduled returns a serving Etcd, created at noon, that is defragmented at 3 a.m.
func scheduled() *v1alpha1.Etcd {
	etcd := served(3)
	etcd.CreationTimestamp = noon
	etcd.Spec.Etcd.DefragmentationSchedule = ptr.To("0 3 * * *")
	return etcd
}

func dueAt(etcd *v1alpha1.Etcd, made time.Time, tasks []v1alpha1.EtcdOperatorTask, now time.Time) (*due, turn) {
	schedule, _ := component.DefragmentationSchedule(etcd)
	last, next := turns(schedule, etcd, now)
	return defragmentationDue(etcd, last, made, tasks, now), next
}

func TestDefragmentationDue(t *testing.T) {
	const name = "etcd-main-defragmentation-202607020300"
	three := time.Date(2026, 7, 2, 3, 0, 0, 0, time.UTC)
	ours := offset(scheduled(), 24*time.Hour)
	begin := three.Add(ours)
	for _, tc := range []struct {
		name   string
		now    time.Time
		made   time.Time
		tasks  []v1alpha1.EtcdOperatorTask
		change func(*v1alpha1.Etcd)
		want   string // empty: none
	}{
		{name: "long before", now: noon.Add(time.Hour)},
		{name: "a moment before", now: begin.Add(-time.Second)},
		{name: "in time", now: begin, want: name},
		{name: "the operator is a little late", now: begin.Add(latestStart), want: name},
		{name: "the operator is too late", now: begin.Add(latestStart + time.Second)},
		{name: "the operator was stopped for days: the last time counts", now: begin.Add(72 * time.Hour), want: "etcd-main-defragmentation-202607050300"},
		{name: "in another time zone", now: begin.In(time.FixedZone("there", 7*3600)), want: name},

		{name: "made already", now: begin.Add(time.Minute), made: three},
		{name: "made yesterday", now: begin.Add(time.Minute), made: three.Add(-24 * time.Hour), want: name},
		{name: "created by another operator, and ended", now: begin.Add(time.Minute), tasks: []v1alpha1.EtcdOperatorTask{aTask(name, v1alpha1.OnDemandMaintenance, "", v1alpha1.TaskStateSucceeded)}},
		{name: "created under another name", now: begin.Add(time.Minute), tasks: []v1alpha1.EtcdOperatorTask{aTask(name+"-x7", v1alpha1.OnDemandMaintenance, "", v1alpha1.TaskStateSucceeded)}},
		{name: "another one has the name", now: begin.Add(time.Minute), tasks: []v1alpha1.EtcdOperatorTask{aTask(name, v1alpha1.OnDemandSnapshot, "", v1alpha1.TaskStateSucceeded)}, want: name},
		{name: "the last one is still in progress", now: begin, tasks: []v1alpha1.EtcdOperatorTask{aTask("etcd-main-defragmentation-202607010300", v1alpha1.OnDemandMaintenance, "", v1alpha1.TaskStateInProgress)}},
		{name: "a user's is in progress", now: begin, tasks: []v1alpha1.EtcdOperatorTask{aTask("mine", v1alpha1.OnDemandMaintenance, "", "")}},
		{name: "a user's has ended", now: begin, tasks: []v1alpha1.EtcdOperatorTask{aTask("mine", v1alpha1.OnDemandMaintenance, "", v1alpha1.TaskStateFailed)}, want: name},
		{name: "it waits in line behind a rollout", now: begin, tasks: []v1alpha1.EtcdOperatorTask{aTask("roll", v1alpha1.QuorumAwareRollout, "", v1alpha1.TaskStateInProgress)}, want: name},

		{name: "created after the scheduled time", now: begin, change: func(e *v1alpha1.Etcd) { e.CreationTimestamp = metav1.NewTime(three.Add(time.Second)) }},
		{name: "hibernated", now: begin, change: func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }},
		{name: "suspended", now: begin, change: func(e *v1alpha1.Etcd) { e.Annotations = map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""} }},
		{name: "a member is missing", now: begin, change: func(e *v1alpha1.Etcd) {
			e.Status.Conditions.Remove(v1alpha1.ConditionAllMembersReady)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := scheduled()
			if tc.change != nil {
				tc.change(etcd)
			}
			due, next := dueAt(etcd, tc.made, tc.tasks, tc.now)
			g.Expect(next.begin).To(BeTemporally(">", tc.now))
			g.Expect(next.begin).To(BeTemporally("<=", tc.now.Add(24*time.Hour)))
			if tc.want == "" {
				g.Expect(due).To(BeNil())
				return
			}
			g.Expect(due).NotTo(BeNil())
			g.Expect(due.name).To(Equal(tc.want))
			g.Expect(due.config).To(Equal("etcdDefragmentation: true\n"))
			g.Expect(due.kept).To(Equal(24 * time.Hour))
		})
	}
}

// An operator that reconciles every few seconds for hours creates one task for each time, in order, for any schedule and
// with or without memory.
func TestEveryTurnComesOnce(t *testing.T) {
	for _, tc := range []struct {
		schedule string
		want     int // in six hours from noon
	}{
		{"* * * * *", 359}, {"*/5 * * * *", 71}, {"0 * * * *", 5}, {"59,0 * * * *", 11}, {"0 13,18 * * *", 1},
	} {
		for _, forgetful := range []bool{false, true} {
			g := NewWithT(t)
			etcd := scheduled()
			etcd.Spec.Etcd.DefragmentationSchedule = &tc.schedule
			var made time.Time
			var tasks []v1alpha1.EtcdOperatorTask
			names := sets.New[string]()
			for now := noon.Add(time.Second); now.Before(noon.Add(6 * time.Hour)); now = now.Add(17 * time.Second) {
				due, next := dueAt(etcd, made, tasks, now)
				g.Expect(next.begin).To(BeTemporally(">", now), tc.schedule)
				if due == nil {
					continue
				}
				g.Expect(names.Has(due.name)).To(BeFalse(), due.name)
				names.Insert(due.name)
				if forgetful {
					tasks = append(tasks, aTask(due.name, v1alpha1.OnDemandMaintenance, "", v1alpha1.TaskStateSucceeded))
					continue
				}
				// A user deletes each task at once.
				schedule, _ := component.DefragmentationSchedule(etcd)
				last, _ := turns(schedule, etcd, now)
				g.Expect(last.at).To(BeTemporally(">", made))
				made = last.at
			}
			g.Expect(names.Len()).To(BeNumerically("~", tc.want, 1), tc.schedule)
		}
	}
}

// A thousand Etcds with the same schedule do not start at once.
func TestSpread(t *testing.T) {
	g := NewWithT(t)
	at := map[time.Duration]int{}
	for i := range 1000 {
		o := offset(&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("shoot-%d", i), Name: "etcd-main"}}, 24*time.Hour)
		g.Expect(o).To(And(BeNumerically(">=", 0), BeNumerically("<", maxSpread)))
		at[o]++
	}
	for o, n := range at {
		g.Expect(n).To(BeNumerically("<", 12), "%s", o)
	}
	g.Expect(offset(scheduled(), time.Minute)).To(BeNumerically("<", time.Minute))
}

func TestKept(t *testing.T) {
	for schedule, want := range map[string]time.Duration{"* * * * *": time.Hour, "0 */6 * * *": 6 * time.Hour, "0 3 * * 0": 24 * time.Hour} {
		parsed, err := cron.ParseStandard(schedule)
		if err != nil {
			t.Fatal(err)
		}
		etcd := scheduled()
		_, next := turns(parsed, etcd, noon.Time)
		if due := defragmentationDue(etcd, next, time.Time{}, nil, next.begin); due == nil || due.kept != want {
			t.Errorf("%s: %+v", schedule, due)
		}
	}
}
