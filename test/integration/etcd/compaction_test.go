// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// compacted enables backups, with compaction from 100 events up to 300.
func compacted(e *v1alpha1.Etcd) {
	e.Spec.Backup = &v1alpha1.BackupSpec{
		Store:              &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"},
		SnapshotCompaction: &v1alpha1.SnapshotCompactionSpec{EventsThreshold: ptr.To[int64](100), TriggerFullSnapshotThreshold: ptr.To[int64](300)},
	}
}

// taken records a snapshot in a lease, as an agent does.
func (w *world) taken(lease string, revision int64, at time.Time) {
	w.T.Helper()
	l := &coordinationv1.Lease{}
	w.Get(w, name+lease, l)
	before := l.DeepCopy()
	l.Spec.HolderIdentity, l.Spec.RenewTime = ptr.To(strconv.FormatInt(revision, 10)), ptr.To(metav1.NewMicroTime(at))
	w.Expect(testEnv.Client.Patch(w.T.Context(), l, client.MergeFrom(before))).To(Succeed())
}

// tasks returns the tasks of the namespace by name.
func (w *world) tasks(g Gomega) map[string]v1alpha1.EtcdOperatorTask {
	byName := map[string]v1alpha1.EtcdOperatorTask{}
	for _, t := range w.Tasks(g) {
		byName[t.Name] = t
	}
	return byName
}

// eventuallyTask nudges the operator until the task exists.
func (w *world) eventuallyTask(o *operator, task string) v1alpha1.EtcdOperatorTask {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		w.nudge(o)
		g.Expect(w.tasks(g)).To(HaveKey(task))
	}).Should(Succeed())
	return w.tasks(w)[task]
}

// settled has the operator reconcile several times and returns the names of the tasks that then exist.
func (w *world) settled(o *operator) []string {
	w.T.Helper()
	for range 4 {
		w.nudge(o)
	}
	var names []string
	for task := range w.tasks(w) {
		names = append(names, task)
	}
	return names
}

// ends completes a task, as the task engine does.
func (w *world) ends(task v1alpha1.EtcdOperatorTask, state v1alpha1.TaskState) {
	w.T.Helper()
	task.Status.State, task.Status.CompletedAt = state, ptr.To(metav1.Now())
	w.Expect(testEnv.Client.Status().Update(w.T.Context(), &task)).To(Succeed())
}

// The operator creates one task for the events since a full snapshot, however often it reconciles, and the next one
// only after as many new events.
func TestSnapshotCompaction(t *testing.T) {
	t.Parallel()
	const compaction, full = name + "-compaction-1000", name + "-full-snapshot-1000"
	w := newWorld(t, 3, compacted)
	o := w.start()
	w.eventuallyWell()
	now := time.Now()
	w.taken("-full-snap", 1000, now)
	w.taken("-delta-snap", 1099, now.Add(time.Minute))
	w.Eventually(func(g Gomega) {
		w.nudge(o)
		ready := w.Status(g).Conditions.Find(v1alpha1.ConditionBackupReady)
		g.Expect(ready).To(HaveField("Message", ContainSubstring("revision 1099")), "the status reports the revision before writes stop")
	}).WithPolling(time.Second).Should(Succeed())
	w.Expect(w.settled(o)).To(BeEmpty(), "one event too few")
	w.writesNothing(o, "a reconcile without changes writes nothing")
	w.Expect(w.tasks(w)).To(BeEmpty())

	w.taken("-delta-snap", 1150, now.Add(2*time.Minute))
	made := w.eventuallyTask(o, compaction)
	w.Expect(made.Spec.Type).To(Equal(v1alpha1.OnDemandCompaction))
	w.Expect(metav1.IsControlledBy(&made, w.Etcd)).To(BeFalse())
	w.Expect(made.OwnerReferences[0].UID).To(Equal(w.Etcd.UID))
	w.Eventually(func(g Gomega) {
		events := &eventsv1.EventList{}
		g.Expect(testEnv.Client.List(context.Background(), events, client.InNamespace(w.Namespace))).To(Succeed())
		var notes []string
		for _, e := range events.Items {
			notes = append(notes, e.Reason+": "+e.Note)
		}
		g.Expect(notes).To(ContainElement("CompactingSnapshots: Created task " + compaction +
			": the deltas since the full snapshot at revision 1000 hold 150 events, and eventsThreshold is 100"))
	}).Should(Succeed())

	// Another operator, and more deltas.
	o.stop()
	o = w.start()
	w.taken("-delta-snap", 1400, now.Add(3*time.Minute))
	w.Expect(w.settled(o)).To(ConsistOf(compaction))
	w.Expect(w.tasks(w)[compaction].UID).To(Equal(made.UID))

	// Revisions only grow: the operator may see the lease of full snapshots and the end of the task before any later delta.
	w.taken("-full-snap", 1350, now.Add(2*time.Minute))
	w.ends(made, v1alpha1.TaskStateSucceeded)
	w.Expect(w.settled(o)).To(ConsistOf(compaction), "few events since the last compaction")
	w.taken("-delta-snap", 1450, now.Add(4*time.Minute))
	w.eventuallyTask(o, name+"-compaction-1350")
	w.Expect(w.tasks(w)).NotTo(HaveKey(full))
}

// A full snapshot replaces a failed compaction; if it fails too, the operator backs off.
func TestSnapshotCompactionFails(t *testing.T) {
	t.Parallel()
	const compaction, full = name + "-compaction-1000", name + "-full-snapshot-1000"
	w := newWorld(t, 1, compacted)
	o := w.start()
	w.eventuallyWell()
	now := time.Now()
	w.taken("-full-snap", 1000, now)
	w.taken("-delta-snap", 1150, now.Add(time.Minute))
	w.ends(w.eventuallyTask(o, compaction), v1alpha1.TaskStateFailed)
	snapshot := w.eventuallyTask(o, full)
	w.Expect(snapshot.Spec.Config).To(Equal("type: full\n"))
	w.ends(snapshot, v1alpha1.TaskStateFailed)
	w.taken("-delta-snap", 1250, now.Add(2*time.Minute))
	w.Expect(w.settled(o)).To(ConsistOf(compaction, full))
}

func TestFullSnapshotInsteadOfACompaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, compacted)
	o := w.start()
	w.eventuallyWell()
	now := time.Now()
	w.taken("-full-snap", 1000, now)
	w.taken("-delta-snap", 1300, now.Add(time.Minute))
	w.Expect(w.eventuallyTask(o, name+"-full-snapshot-1000").Spec.Type).To(Equal(v1alpha1.OnDemandSnapshot))
	w.Expect(w.settled(o)).To(HaveLen(1))
}
