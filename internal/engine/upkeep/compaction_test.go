// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package upkeep

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var (
	noon  = metav1.NewTime(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	later = metav1.NewTime(noon.Add(time.Minute))
)

// served returns an Etcd whose members all participate.
func served(replicas int32) *v1alpha1.Etcd {
	etcd := &v1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main", Generation: 1},
		Spec:       v1alpha1.EtcdSpec{Replicas: replicas},
	}
	for _, c := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady} {
		etcd.Status.Conditions.Set(metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: "x"})
	}
	return etcd
}

// compacted returns a serving Etcd with compaction from 100 events up to 300.
func compacted() *v1alpha1.Etcd {
	etcd := served(3)
	etcd.UID = "etcd"
	etcd.Spec.Backup = &v1alpha1.BackupSpec{
		Store:              &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"},
		SnapshotCompaction: &v1alpha1.SnapshotCompactionSpec{EventsThreshold: ptr.To[int64](100), TriggerFullSnapshotThreshold: ptr.To[int64](300)},
	}
	return etcd
}

// leaseOf returns the lease of a snapshot at a revision, the given minutes after noon.
func leaseOf(revision int64, minutes int) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(strconv.FormatInt(revision, 10)), RenewTime: ptr.To(metav1.NewMicroTime(noon.Add(time.Duration(minutes) * time.Minute))),
	}}
}

func aTask(name string, taskType v1alpha1.TaskType, config string, state v1alpha1.TaskState) v1alpha1.EtcdOperatorTask {
	return v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.EtcdOperatorTaskSpec{Type: taskType, Config: config},
		Status: v1alpha1.EtcdOperatorTaskStatus{State: state},
	}
}

func TestCompactionDue(t *testing.T) {
	const compaction, full = "etcd-main-compaction-1000", "etcd-main-full-snapshot-1000"
	leases := func(delta int64) observe.SnapshotLeases {
		return observe.SnapshotLeases{Full: leaseOf(1000, 0), Delta: leaseOf(delta, 5)}
	}
	ours := func(state v1alpha1.TaskState) v1alpha1.EtcdOperatorTask {
		return aTask(compaction, v1alpha1.OnDemandCompaction, "", state)
	}
	oursFull := func(state v1alpha1.TaskState) v1alpha1.EtcdOperatorTask {
		return aTask(full, v1alpha1.OnDemandSnapshot, "type: full\n", state)
	}
	for _, tc := range []struct {
		name    string
		leases  observe.SnapshotLeases
		tasks   []v1alpha1.EtcdOperatorTask
		change  func(*v1alpha1.Etcd)
		want    string // empty: none
		because string
	}{
		{name: "nothing was taken yet", leases: observe.SnapshotLeases{}},
		{name: "leases, and no snapshot", leases: observe.SnapshotLeases{Full: &coordinationv1.Lease{}, Delta: &coordinationv1.Lease{}}},
		{name: "no delta yet", leases: observe.SnapshotLeases{Full: leaseOf(1000, 0), Delta: &coordinationv1.Lease{}}},
		{name: "one too few", leases: leases(1099)},
		{name: "enough", leases: leases(1100), want: compaction, because: "hold 100 events, and eventsThreshold is 100"},
		{name: "the most that are compacted", leases: leases(1299), want: compaction},
		{name: "too many", leases: leases(1300), want: full, because: "hold 300 events, and triggerFullSnapshotThreshold is 300"},
		{name: "a newer full snapshot", leases: observe.SnapshotLeases{Full: leaseOf(2000, 10), Delta: leaseOf(1300, 5)}},
		{name: "deltas from before an older state was restored", leases: observe.SnapshotLeases{Full: leaseOf(1000, 10), Delta: leaseOf(1300, 5)}},
		{name: "all of it compacted", leases: observe.SnapshotLeases{Full: leaseOf(1300, 5), Delta: leaseOf(1300, 5)}},
		{name: "not a number", leases: observe.SnapshotLeases{Full: leaseOf(1000, 0), Delta: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("etcd-main-0"), RenewTime: ptr.To(metav1.NewMicroTime(later.Time))}}}},

		{name: "under way", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{ours(v1alpha1.TaskStateInProgress)}},
		{name: "not seen by the engine yet", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{ours("")}},
		{name: "a user's in progress", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{aTask("mine", v1alpha1.OnDemandCompaction, "", v1alpha1.TaskStatePending)}},
		{name: "a user's, ended", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{aTask("mine", v1alpha1.OnDemandCompaction, "", v1alpha1.TaskStateFailed)}, want: compaction},
		{name: "a user's full snapshot in progress", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{aTask("mine", v1alpha1.OnDemandSnapshot, "type: full", v1alpha1.TaskStateInProgress)}},
		{name: "a delta snapshot in progress", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{aTask("mine", v1alpha1.OnDemandSnapshot, "type: delta", v1alpha1.TaskStateInProgress)}, want: compaction},
		{name: "too many while a compaction is in progress", leases: leases(1400), tasks: []v1alpha1.EtcdOperatorTask{ours(v1alpha1.TaskStateInProgress)}},
		{name: "done, but the lease does not show it yet", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{ours(v1alpha1.TaskStateSucceeded)}},
		{name: "done, but too many since", leases: leases(1400), tasks: []v1alpha1.EtcdOperatorTask{ours(v1alpha1.TaskStateSucceeded)}},
		{name: "done for an earlier full snapshot", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{aTask("etcd-main-compaction-500", v1alpha1.OnDemandCompaction, "", v1alpha1.TaskStateSucceeded)}, want: compaction},

		{name: "done under another name, since the name was taken", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{aTask(compaction+"-x7", v1alpha1.OnDemandCompaction, "", v1alpha1.TaskStateSucceeded)}},
		{name: "failed under another name", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{aTask(compaction+"-x7", v1alpha1.OnDemandCompaction, "", v1alpha1.TaskStateFailed)}, want: full},
		{name: "another one has the name", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{aTask(compaction, v1alpha1.OnDemandSnapshot, "", v1alpha1.TaskStateSucceeded)}, want: compaction},

		{name: "failed", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{ours(v1alpha1.TaskStateFailed)}, want: full, because: "and etcd-main-compaction-1000 has failed"},
		{name: "failed, and a full snapshot is in progress", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{ours(v1alpha1.TaskStateFailed), oursFull(v1alpha1.TaskStateInProgress)}},
		{name: "both failed", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{ours(v1alpha1.TaskStateFailed), oursFull(v1alpha1.TaskStateFailed)}},
		{name: "failed, but no quorum for a full snapshot", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{ours(v1alpha1.TaskStateFailed)},
			change: func(e *v1alpha1.Etcd) { e.Status.Conditions = nil }},
		{name: "rejected", leases: leases(1200), tasks: []v1alpha1.EtcdOperatorTask{ours(v1alpha1.TaskStateRejected)}},
		{name: "too many, and a full snapshot failed", leases: leases(1400), tasks: []v1alpha1.EtcdOperatorTask{oursFull(v1alpha1.TaskStateFailed)}},

		{name: "no quorum: a compaction needs none", leases: leases(1200), change: func(e *v1alpha1.Etcd) { e.Status.Conditions = nil }, want: compaction},
		{name: "no quorum, and too many", leases: leases(1400), change: func(e *v1alpha1.Etcd) { e.Status.Conditions = nil }},
		{name: "for people only: a Job cannot read them", leases: leases(1200), change: func(e *v1alpha1.Etcd) {
			e.Spec.Backup.Encryption = &v1alpha1.EncryptionSpec{Recipients: []v1alpha1.Recipient{"age1"}}
		}, want: full, because: "no identitySecretRef"},
		{name: "encrypted", leases: leases(1200), change: func(e *v1alpha1.Etcd) {
			e.Spec.Backup.Encryption = &v1alpha1.EncryptionSpec{Recipients: []v1alpha1.Recipient{"age1"}, IdentitySecretRef: &v1alpha1.SecretReference{Name: "keys"}}
		}, want: compaction},
		{name: "not configured", leases: leases(1200), change: func(e *v1alpha1.Etcd) { e.Spec.Backup.SnapshotCompaction = nil }},
		{name: "no store", leases: leases(1200), change: func(e *v1alpha1.Etcd) { e.Spec.Backup.Store = nil }},
		{name: "hibernated", leases: leases(1200), change: func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }},
		{name: "suspended", leases: leases(1200), change: func(e *v1alpha1.Etcd) { e.Annotations = map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""} }},
		{name: "defaults, one too few", leases: leases(1_000_999), change: func(e *v1alpha1.Etcd) { *e.Spec.Backup.SnapshotCompaction = v1alpha1.SnapshotCompactionSpec{} }},
		{name: "defaults", leases: leases(1_001_000), change: func(e *v1alpha1.Etcd) { *e.Spec.Backup.SnapshotCompaction = v1alpha1.SnapshotCompactionSpec{} }, want: compaction},
		{name: "defaults, too many", leases: leases(3_001_000), change: func(e *v1alpha1.Etcd) { *e.Spec.Backup.SnapshotCompaction = v1alpha1.SnapshotCompactionSpec{} }, want: full},
		{name: "full snapshots only", leases: leases(1300), change: func(e *v1alpha1.Etcd) { e.Spec.Backup.SnapshotCompaction.EventsThreshold = ptr.To[int64](1000) }, want: full},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := compacted()
			if tc.change != nil {
				tc.change(etcd)
			}
			due := compactionDue(etcd, thresholds, tc.leases, tc.tasks)
			if tc.want == "" {
				g.Expect(due).To(BeNil())
				return
			}
			g.Expect(due).NotTo(BeNil())
			g.Expect(due.name).To(Equal(tc.want))
			g.Expect(due.message).To(HavePrefix("the deltas since the full snapshot at revision 1000 hold "))
			g.Expect(due.message).To(ContainSubstring(tc.because))
		})
	}
}

// thresholds are the defaults of the operator's configuration.
var thresholds = configv1alpha1.SnapshotCompaction{EventsThreshold: v1alpha1.DefaultEventsThreshold, TriggerFullSnapshotThreshold: v1alpha1.DefaultTriggerFullSnapshotThreshold}

// The operator's thresholds are those of an Etcd that names none.
func TestThresholdsOfTheOperator(t *testing.T) {
	g := NewWithT(t)
	etcd := compacted()
	*etcd.Spec.Backup.SnapshotCompaction = v1alpha1.SnapshotCompactionSpec{}
	own := configv1alpha1.SnapshotCompaction{EventsThreshold: 10, TriggerFullSnapshotThreshold: 20}
	due := func(events int64) *due {
		return compactionDue(etcd, own, observe.SnapshotLeases{Full: leaseOf(1000, 0), Delta: leaseOf(1000+events, 5)}, nil)
	}
	g.Expect(due(9)).To(BeNil())
	g.Expect(due(10).taskType).To(Equal(v1alpha1.OnDemandCompaction))
	g.Expect(due(20).taskType).To(Equal(v1alpha1.OnDemandSnapshot))
	etcd.Spec.Backup.SnapshotCompaction.EventsThreshold = ptr.To[int64](15)
	g.Expect(due(14)).To(BeNil(), "the Etcd's own counts")
}

func TestTaskOfAnUpkeep(t *testing.T) {
	g := NewWithT(t)
	etcd := compacted()
	etcd.Spec.Backup.EtcdSnapshotTimeout = &metav1.Duration{Duration: 5 * time.Hour}
	task := compactionDue(etcd, thresholds, observe.SnapshotLeases{Full: leaseOf(1000, 0), Delta: leaseOf(1300, 5)}, nil).task(etcd)
	g.Expect(task.Namespace).To(Equal("shoot-a"))
	g.Expect(task.OwnerReferences).To(HaveLen(1))
	g.Expect(task.OwnerReferences[0].UID).To(Equal(etcd.UID))
	g.Expect(task.Labels).To(HaveKeyWithValue(v1alpha1.LabelPartOf, "etcd-main"))
	g.Expect(task.Spec).To(Equal(v1alpha1.EtcdOperatorTaskSpec{
		Type: v1alpha1.OnDemandSnapshot, Config: "type: full\ntimeout: 4h0m0s\n", TTLSecondsAfterFinished: ptr.To[int32](3600),
		OwnerEtcdReference: v1alpha1.EtcdReference{Name: "etcd-main"},
	}))
}

// The config of a user's task may be hostile: 64 KiB with aliases stand for gigabytes, and the operator works for others too.
func TestConfigWithAliasesIsNotExpanded(t *testing.T) {
	g := NewWithT(t)
	config := "type: full\nx: &x " + strings.Repeat("x", 32<<10) + "\ny: [" + strings.Repeat("*x,", 4000) + "]\n"
	g.Expect(len(config)).To(BeNumerically("<", 64<<10))
	task := aTask("bomb", v1alpha1.OnDemandSnapshot, config, v1alpha1.TaskStatePending)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	shortens := shortensRestores(&task)
	runtime.ReadMemStats(&after)
	g.Expect((after.TotalAlloc-before.TotalAlloc)>>20).To(BeNumerically("<", 16), "MiB")
	g.Expect(shortens).To(BeFalse(), "the engine rejects it")
}
