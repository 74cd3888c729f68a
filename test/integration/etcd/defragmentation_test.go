// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
)

// The operator creates one task for each scheduled time, however often it reconciles, and none for a missed one.
func TestDefragmentationSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, func(e *v1alpha1.Etcd) { e.Spec.Etcd.DefragmentationSchedule = ptr.To("0 3 * * *") })
	ahead := &shiftedClock{}
	// The next night, more than a day away.
	night := time.Now().UTC().Truncate(24 * time.Hour).Add(2*24*time.Hour + 3*time.Hour)
	nameOf := func(at time.Time) string { return name + "-defragmentation-" + at.Format("200601021504") }

	ahead.set(night.Add(-time.Hour))
	o := w.start(at(ahead))
	w.eventuallyWell()
	w.Expect(w.settled(o)).To(BeEmpty())
	w.writesNothing(o, "a reconcile without changes writes nothing")
	w.Expect(w.tasks(w)).To(BeEmpty())

	// By now the delay of every Etcd has passed.
	ahead.set(night.Add(12 * time.Minute))
	made := w.eventuallyTask(o, nameOf(night))
	w.Expect(made.Spec.Type).To(Equal(v1alpha1.OnDemandMaintenance))
	w.Expect(made.Spec.Config).To(Equal("etcdDefragmentation: true\n"))
	o.stop()
	o = w.start(at(ahead))
	w.Expect(w.settled(o)).To(ConsistOf(nameOf(night)))
	w.Expect(w.tasks(w)[made.Name].UID).To(Equal(made.UID), "another operator creates no second task")
	w.ends(w.tasks(w)[made.Name], v1alpha1.TaskStateSucceeded)
	w.Expect(w.settled(o)).To(ConsistOf(nameOf(night)))

	// The next night no operator is running.
	o.stop()
	ahead.set(night.Add(24*time.Hour + 2*time.Hour))
	o = w.start(at(ahead))
	w.Expect(w.settled(o)).To(ConsistOf(nameOf(night)))

	// The night after, a user deletes the task: the operator does not create it again.
	third := night.Add(2 * 24 * time.Hour)
	ahead.set(third.Add(12 * time.Minute))
	again := w.eventuallyTask(o, nameOf(third))
	w.Expect(testEnv.Client.Delete(t.Context(), &again)).To(Succeed())
	w.Expect(w.settled(o)).To(ConsistOf(nameOf(night)))
}

// The API server refuses an invalid schedule.
func TestScheduleValidation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	schedule := func(s string) error {
		w.Get(w, name, w.Etcd)
		w.Etcd.Spec.Etcd.DefragmentationSchedule = &s
		return testEnv.Client.Update(t.Context(), w.Etcd)
	}
	w.Expect(schedule("0 0 * *")).To(MatchError(ContainSubstring("spec.etcd.defragmentationSchedule")))
	w.Expect(schedule("1010 0 * * *")).To(MatchError(ContainSubstring("spec.etcd.defragmentationSchedule")))
	w.Expect(schedule("34 12 */3 * *")).To(Succeed())
	w.Expect(schedule("5-5,10-20/2 08-10 * * 1-5")).To(Succeed())
	w.Expect(schedule("0 0 * * 5-2")).To(MatchError(ContainSubstring("a range like 2-5 begins with the lower number")))
	w.Etcd.Spec.Etcd.DefragmentationSchedule = nil
	w.Etcd.Spec.Backup = &v1alpha1.BackupSpec{FullSnapshotSchedule: ptr.To("0 22-5 * * *")}
	w.Expect(testEnv.Client.Update(t.Context(), w.Etcd)).To(MatchError(ContainSubstring("a range like 2-5 begins with the lower number")))
}
