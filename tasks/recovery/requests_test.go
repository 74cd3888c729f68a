// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lostEtcd is an Etcd of three members that has served, has lost its quorum and has a backup store.
func lostEtcd(changes ...func(*v1alpha1.Etcd)) *v1alpha1.Etcd {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3}}
	etcd.Status.ClusterID, etcd.Status.ClusterSize = id(before), 3
	for _, change := range changes {
		change(etcd)
	}
	return etcd
}

func ofSize(n int32) func(*v1alpha1.Etcd) {
	return func(e *v1alpha1.Etcd) { e.Spec.Replicas, e.Status.ClusterSize = n, n }
}

// leaving has the Etcd start from what a task has chosen, or wake up, and leave a cluster behind.
func leaving(task string, clusterID uint64) func(*v1alpha1.Etcd) {
	return func(e *v1alpha1.Etcd) {
		e.Status.Recovery = &v1alpha1.ClusterRecovery{Task: task, TaskUID: "uid", Member: "main-0", Source: v1alpha1.RecoverFromData, PreviousClusterID: id(clusterID)}
	}
}

// config is the configuration of some members.
func config(t *testing.T, etcd *v1alpha1.Etcd, members int32) *corev1.ConfigMap {
	t.Helper()
	c, err := component.ConfigMap(component.Input{Etcd: etcd, Replicas: members})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: *c.Name, OwnerReferences: apitest.ControlledBy(etcd)}, Data: c.Data}
}

// recorded is a lease that records a snapshot.
func recorded(etcd *v1alpha1.Etcd, name, revision string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: apitest.ControlledBy(etcd)},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &revision, RenewTime: &metav1.MicroTime{Time: epoch}},
	}
}

func taskOf(etcd *v1alpha1.Etcd, status *v1alpha1.RecoveryStatus) tasks.Typed[Config] {
	task := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t", UID: "task", Generation: 1}}
	task.Status.Recovery = status
	return tasks.Typed[Config]{Task: tasks.Task{Object: task, Etcd: etcd}}
}

func handlerOf(api client.WithWatch, says *cluster.Snapshot) *Handler {
	observer := apitest.Members(func() *cluster.Snapshot { return says })
	return &Handler{Client: api, Live: api, Observer: observer, Clock: clocktesting.NewFakePassiveClock(epoch)}
}

// refusing has each member refuse to start, for a reason.
func refusing(reasons ...string) func(*Input) {
	return func(in *Input) {
		for i, reason := range reasons {
			in.Snapshot.Ordinals[i] = cluster.Ordinal{Name: "m", Pod: &cluster.Pod{Refusal: &cluster.Refusal{Reason: reason}}}
		}
	}
}

func TestAdmit(t *testing.T) {
	const lost, damaged = v1alpha1.ReasonDataLost, v1alpha1.ReasonDataDamaged
	none := func(in *Input) { in.Snapshot.Ordinals = nil }
	withoutStore := func(e *v1alpha1.Etcd) { e.Spec.Backup = nil }
	for name, c := range map[string]struct {
		etcd       *v1alpha1.Etcd
		configured int32
		snapshot   Input
		backup     string
		code       v1alpha1.ErrorCode
		says       string
	}{
		"the quorum is lost": {lostEtcd(), 3, newInput(), "", "", "main-2 answers but knows no leader"},
		"hibernated":         {lostEtcd(ofSize(0)), 3, newInput(), "", v1alpha1.ErrHibernated, "wake it up"},
		"never served":       {lostEtcd(func(e *v1alpha1.Etcd) { e.Status.ClusterID = "" }), 3, newInput(), "", v1alpha1.ErrNeverServed, "never had a quorum"},
		"joins a source cluster": {lostEtcd(func(e *v1alpha1.Etcd) {
			e.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{}
		}), 3, newInput(), "", v1alpha1.ErrSourceCluster, "recover that cluster"},
		"a quorum serves":              {lostEtcd(), 3, newInput(serving(before, 0, 2)), "", v1alpha1.ErrQuorumNotLost, "2 of 3 voters serve"},
		"one member":                   {lostEtcd(ofSize(1)), 1, newInput(), "", v1alpha1.ErrSingleMember, "has one member"},
		"one member of several":        {lostEtcd(ofSize(1)), 3, newInput(), "", "", "no leader"},
		"one member that grows":        {lostEtcd(ofSize(1), func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 }), 1, newInput(), "", v1alpha1.ErrSingleMember, ""},
		"all data is lost":             {lostEtcd(), 3, newInput(refusing(lost, damaged, lost)), "", v1alpha1.ErrNothingToRecover, "with one replica, it restores what its store may have"},
		"all is lost, without a store": {lostEtcd(withoutStore), 3, newInput(refusing(lost, damaged, lost)), "42", v1alpha1.ErrNothingToRecover, "nothing can be recovered"},
		"all is lost, with a backup":   {lostEtcd(), 3, newInput(refusing(lost, damaged, lost)), "42", "", ""},
		"a backup that is unreadable":  {lostEtcd(), 3, newInput(refusing(lost, damaged, lost)), "old", "", ""},
		"a member has not said so":     {lostEtcd(), 3, newInput(refusing(lost, damaged)), "", "", ""},
		"a pod is missing":             {lostEtcd(), 3, newInput(refusing(lost, damaged, lost), func(in *Input) { in.Snapshot.Ordinals[1].Pod = nil }), "", "", ""},
		"a pod says nothing":           {lostEtcd(), 3, newInput(refusing(lost, damaged, lost), func(in *Input) { in.Snapshot.Ordinals[1].Pod.Refusal = nil }), "", "", ""},
		"a member refuses otherwise":   {lostEtcd(), 3, newInput(refusing(lost, damaged, v1alpha1.ReasonRecovering)), "", "", ""},
		"no member is known":           {lostEtcd(), 3, newInput(none), "", "", ""},
		"one that has lost its data":   {lostEtcd(), 3, newInput(refusing(lost), func(in *Input) { in.Snapshot.Ordinals = in.Snapshot.Ordinals[:1] }), "", v1alpha1.ErrNothingToRecover, ""},
		"one member that cannot start from what a task has chosen": {lostEtcd(ofSize(1), leaving("restore", before)), 1, newInput(), "", "", "no leader"},
		"one member that has started from it":                      {lostEtcd(ofSize(1), leaving("restore", before+1)), 1, newInput(), "", v1alpha1.ErrSingleMember, ""},
		"one member that wakes up":                                 {lostEtcd(ofSize(1), leaving("", before)), 1, newInput(), "", v1alpha1.ErrSingleMember, ""},
		"its configuration is not read":                            {lostEtcd(ofSize(3)), 0, newInput(), "", "", "no leader"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			api := apitest.API(c.etcd)
			if c.configured > 0 {
				g.Expect(api.Create(t.Context(), config(t, c.etcd, c.configured))).To(Succeed())
			}
			if c.backup != "" {
				g.Expect(api.Create(t.Context(), recorded(c.etcd, c.etcd.FullSnapshotLeaseName(), c.backup))).To(Succeed())
			}
			v, err := handlerOf(api, c.snapshot.Snapshot).Admit(t.Context(), taskOf(c.etcd, nil))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Code).To(Equal(c.code), v.Message)
			g.Expect(v.Message).To(ContainSubstring(c.says))
			g.Expect(v.Outcome).To(Equal(map[bool]tasks.Outcome{true: tasks.Continue, false: tasks.Reject}[c.code == ""]))
		})
	}
}

// A recreation that stops all members, or keeps them stopped, is not preempted: the members would be started beside a pod that it waits for, the
// quorum would be back, and the recreation would stop all of them a second time. A Restore that keeps them stopped is itself why there is no quorum,
// until it has chosen what they start from. Whether the quorum is lost shows once they are started.
func TestNoRecoveryBeginsWhileATaskStopsTheMembers(t *testing.T) {
	const running = v1alpha1.TaskStateInProgress
	restores := func(phase v1alpha1.RecoveryPhase, source v1alpha1.RecoverySource) func(*v1alpha1.EtcdOperatorTask) {
		return func(t *v1alpha1.EtcdOperatorTask) {
			t.Spec.Type, t.Status.Rollout, t.Status.Recovery = v1alpha1.Restore, nil, &v1alpha1.RecoveryStatus{Phase: phase, Source: source}
		}
	}
	for name, c := range map[string]struct {
		state  v1alpha1.TaskState
		phase  v1alpha1.RecreatePhase
		change func(*v1alpha1.EtcdOperatorTask)
		begins bool
	}{
		"it is to stop them":     {running, v1alpha1.RecreateNeedsDeletion, nil, false},
		"it keeps them stopped":  {running, v1alpha1.RecreateWaitingTermination, nil, false},
		"it is suspended":        {running, v1alpha1.RecreateWaitingTermination, func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Suspend = true }, false},
		"it has stopped nothing": {running, "", nil, true},
		"it has started them":    {running, v1alpha1.RecreateReadyForCreation, nil, true},
		"it has ended":           {v1alpha1.TaskStateRejected, v1alpha1.RecreateWaitingTermination, nil, true},
		"it is of an earlier Etcd": {running, v1alpha1.RecreateWaitingTermination, func(t *v1alpha1.EtcdOperatorTask) {
			t.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "main", UID: "earlier"}}
		}, true},
		"a Restore keeps them stopped": {running, "", restores(v1alpha1.RecoverySurveying, ""), false},
		"a Restore that is being deleted": {running, "", func(t *v1alpha1.EtcdOperatorTask) {
			restores(v1alpha1.RecoverySurveying, "")(t)
			t.DeletionTimestamp, t.Finalizers = &metav1.Time{Time: epoch}, []string{"other"}
		}, true},
		"a Restore has ended":            {v1alpha1.TaskStateRejected, "", restores(v1alpha1.RecoverySurveying, ""), true},
		"a Restore holds nothing":        {running, "", func(t *v1alpha1.EtcdOperatorTask) { restores(v1alpha1.RecoverySaving, "")(t); t.UID = "other" }, true},
		"a Restore starts what it chose": {running, "", restores(v1alpha1.RecoveryStarting, v1alpha1.RecoverFromTarget), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := lostEtcd()
			other := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "recreate-1", UID: "recreation"}}
			other.Spec = v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.RecreateRollout, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}}
			other.Status.State, other.Status.Rollout = c.state, &v1alpha1.RolloutStatus{Phase: c.phase}
			if c.change != nil {
				c.change(other)
			}
			stopped := newInput(hold("main-2"), func(in *Input) { in.Snapshot.StatefulSet.HeldAtZeroBy = "recreation" }).Snapshot
			v, err := handlerOf(apitest.API(etcd, other, config(t, etcd, 3)), stopped).Admit(t.Context(), taskOf(etcd, nil))
			g.Expect(err).NotTo(HaveOccurred())
			if c.begins {
				g.Expect(v.Outcome).To(Equal(tasks.Continue), v.Message)
				return
			}
			g.Expect(v.Outcome).To(Equal(tasks.Reject), v.Message)
			g.Expect(v.Code).To(Equal(v1alpha1.ErrQuorumNotLost))
			g.Expect(v.Message).To(ContainSubstring(string(other.Spec.Type) + " recreate-1 "))
			g.Expect(v.Message).To(ContainSubstring("or delete the task to start them now"))
		})
	}
}

// With a foreign object, no member is stopped or started: a recovery says so before it begins, and while it waits, with the owner.
func TestForeignObjects(t *testing.T) {
	etcd := lostEtcd()
	by := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Shop", Name: "front", UID: "shop", Controller: ptr.To(true)}}
	settings, claim := config(t, etcd, 3), apitest.Claim(etcd, 1)
	settings.OwnerReferences, claim.OwnerReferences = by, by
	for says, foreign := range map[string]client.Object{
		"ConfigMap ns/main-config is controlled by Shop front": settings,
		"PersistentVolumeClaim ns/main-main-1 belongs to Shop": claim,
	} {
		g := NewWithT(t)
		api := apitest.API(etcd, apitest.StatefulSet(etcd, 3), foreign.DeepCopyObject().(client.Object))
		v, err := handlerOf(api, newInput().Snapshot).Admit(t.Context(), taskOf(etcd, nil))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(v.Outcome).To(Equal(tasks.Reject), v.Message)
		g.Expect(v.Code).To(Equal(v1alpha1.ErrForeignObject))
		g.Expect(v.Message).To(HavePrefix(says))
		for waits, c := range map[string]Input{
			"waiting until StatefulSet m is scaled to zero: ":                  newInput(in(v1alpha1.RecoveryStopping, "")),
			"StatefulSet m is no longer scaled to zero: waiting until it is: ": newInput(in(v1alpha1.RecoverySurveying, "")),
			"waiting until StatefulSet m is scaled up again: ":                 newInput(in(v1alpha1.RecoveryStarting, ""), hold()),
		} {
			c.Snapshot.StatefulSet.Name = "m"
			v, err := handlerOf(api, c.Snapshot).Execute(t.Context(), taskOf(etcd, &c.Recorded))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Outcome).To(Equal(tasks.Continue))
			g.Expect(v.Message).To(HavePrefix(waits + says))
			g.Expect(v.RequeueAfter).To(Equal(tasks.RecheckObstacle))
		}
	}
}

// Whatever cannot be read is an error: nothing is admitted, surveyed, chosen or removed without it.
func TestEachRequestFails(t *testing.T) {
	one, etcd := lostEtcd(ofSize(1)), lostEtcd()
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "earlier", Member: "main-0", PreviousClusterID: id(before)}
	for name, c := range map[string]struct {
		etcd *v1alpha1.Etcd
		run  func(*Handler, tasks.Typed[Config]) error
	}{
		"admitting one member": {one, func(h *Handler, task tasks.Typed[Config]) error { _, err := h.Admit(t.Context(), task); return err }},
		"admitting":            {etcd, func(h *Handler, task tasks.Typed[Config]) error { _, err := h.Admit(t.Context(), task); return err }},
		"surveying":            {etcd, func(h *Handler, task tasks.Typed[Config]) error { _, err := h.Execute(t.Context(), task); return err }},
		"cleaning up":          {etcd, func(h *Handler, task tasks.Typed[Config]) error { return h.Cleanup(t.Context(), task.Task) }},
		"creating Jobs": {etcd, func(h *Handler, task tasks.Typed[Config]) error {
			v, err := h.Execute(t.Context(), task)
			if err != nil || v.Step == nil {
				return err
			}
			return h.Perform(t.Context(), task.Task, *v.Step)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			api := apitest.API(c.etcd, config(t, c.etcd, c.etcd.Spec.Replicas), recorded(c.etcd, c.etcd.FullSnapshotLeaseName(), "42"))
			for i := range c.etcd.Spec.Replicas {
				claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: c.etcd.ClaimName(i), Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: c.etcd.Name}}}
				g.Expect(api.Create(t.Context(), claim)).To(Succeed())
			}
			snapshot := newInput(hold()).Snapshot
			task := taskOf(c.etcd, &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoverySurveying})
			apitest.EachRequestFails(t, api, func(api client.WithWatch) error { return c.run(handlerOf(api, snapshot), task) })
		})
	}
}

// A configuration that is not the Etcd's own, or cannot be parsed, says nothing of the cluster that a recovery made.
func TestEvidenceNeedsTheConfiguration(t *testing.T) {
	etcd := lostEtcd()
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "earlier", Member: "main-0", PreviousClusterID: "ace"}
	foreign, broken, other := config(t, etcd, 3), config(t, etcd, 3), config(t, etcd, 3)
	foreign.OwnerReferences = nil
	for key := range broken.Data {
		broken.Data[key] = "["
	}
	other.Data = map[string]string{}
	for says, c := range map[string]*corev1.ConfigMap{"ConfigMap": foreign, "reading ConfigMap ns/main-config": broken, "computing the ID of the cluster": other} {
		_, err := handlerOf(apitest.API(etcd, c), nil).evidence(t.Context(), taskOf(etcd, nil).Task, newInput(hold()).Snapshot)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(says)))
	}

	g := NewWithT(t)
	h := handlerOf(apitest.API(etcd, config(t, etcd, 3)), nil)
	e, err := h.evidence(t.Context(), taskOf(etcd, nil).Task, newInput(hold()).Snapshot)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(e.Refused).To(BeTrue(), "members are configured for the cluster of the recovery, and another one was recorded since")
	without := lostEtcd()
	e, err = handlerOf(apitest.API(without, config(t, without, 3)), nil).evidence(t.Context(), taskOf(without, nil).Task, newInput(hold()).Snapshot)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(e.Refused).To(BeFalse())
	g.Expect(e.Lineage).To(Equal([]string{id(before)}))
	g.Expect(e.Members).To(Equal(int32(3)))
}

// A recovery that begins after another one continues above where that one began: all that its cluster had may be lost, and clients have seen it.
func TestWhereTheLastRecoveryBegan(t *testing.T) {
	for want, r := range map[int64]*v1alpha1.ClusterRecovery{
		0:             {TaskUID: "earlier", Member: "main-0", PreviousClusterID: "ace", Revision: 7}, // it wakes up, from a snapshot that has everything
		1_000_000_042: {TaskUID: "earlier", Member: "main-0", PreviousClusterID: "ace", HighestRevision: 42},
		1 << 62:       {TaskUID: "earlier", Member: "main-0", PreviousClusterID: "ace", HighestRevision: 1 << 62}, // no cluster reaches more
		1_000_000_043: {TaskUID: "earlier", Member: "main-0", PreviousClusterID: "ace", Restore: &v1alpha1.ClusterRestore{Revision: 3, Bump: 1_000_000_040}},
	} {
		etcd := lostEtcd()
		etcd.Status.Recovery = r
		e, err := handlerOf(apitest.API(etcd, config(t, etcd, 3)), nil).evidence(t.Context(), taskOf(etcd, nil).Task, newInput(hold()).Snapshot)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(e.Began).To(Equal(want))
	}
}

// So does one after a restore by the only member, and one that begins once the status has forgotten the first: the Lease of full snapshots has it.
func TestWhereARecordedClusterBegan(t *testing.T) {
	g := NewWithT(t)
	etcd := lostEtcd()
	began := func(text string, change func(*coordinationv1.Lease)) int64 {
		lease := recorded(etcd, etcd.FullSnapshotLeaseName(), "42")
		lease.Annotations = map[string]string{v1alpha1.AnnotationBeganAt: text}
		change(lease)
		e, err := handlerOf(apitest.API(etcd, config(t, etcd, 3), lease), nil).evidence(t.Context(), taskOf(etcd, nil).Task, newInput(hold()).Snapshot)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(e.highest()).To(Equal(max(e.Began, e.Backup.Highest, 1)))
		g.Expect(e.Backup != Backup{}).To(Equal(etcd.HasBackupStore() && lease.OwnerReferences != nil && lease.Spec.HolderIdentity != nil), "what no store has cannot be restored")
		return e.Began
	}
	same := func(*coordinationv1.Lease) {}
	g.Expect(began("1000000042", same)).To(BeEquivalentTo(1_000_000_042))
	g.Expect(began("1000000042", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil })).To(BeEquivalentTo(1_000_000_042), "no snapshot is recorded")
	g.Expect(began("1000000042", func(l *coordinationv1.Lease) { l.OwnerReferences = nil })).To(BeZero(), "the Lease is foreign")
	etcd.Spec.Backup = nil
	g.Expect(began("1000000042", same)).To(BeEquivalentTo(1_000_000_042), "the store was removed from the spec, and the Lease is still there")
	etcd = lostEtcd()
	g.Expect(began("2305843009213693953", same)).To(BeEquivalentTo(backup.MaxBegan))
	for _, wrong := range []string{"", "many", "-5", "9223372036854775808"} {
		g.Expect(began(wrong, same)).To(BeZero(), wrong)
	}
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "earlier", Member: "main-0", PreviousClusterID: "ace", HighestRevision: 42}
	g.Expect(began("2000000042", same)).To(BeEquivalentTo(2_000_000_042))
	g.Expect(began("7", same)).To(BeEquivalentTo(1_000_000_042))
}

// The newest backup is what the newer of both leases records, and there is none without a full snapshot.
func TestNewestBackup(t *testing.T) {
	for name, c := range map[string]struct {
		full, delta string
		want        int64
		none        bool
	}{
		"full alone":            {"42", "", 42, false},
		"with deltas":           {"42", "57", 57, false},
		"a delta alone":         {"", "57", 0, true},
		"none":                  {"", "", 0, true},
		"an unreadable record":  {"old", "", 0, false},
		"a newer full snapshot": {"60", "57", 60, false},
	} {
		etcd := lostEtcd()
		api := apitest.API(etcd)
		for lease, revision := range map[string]string{etcd.FullSnapshotLeaseName(): c.full, etcd.DeltaSnapshotLeaseName(): c.delta} {
			if revision != "" {
				NewWithT(t).Expect(api.Create(t.Context(), recorded(etcd, lease, revision))).To(Succeed())
			}
		}
		got, err := handlerOf(api, nil).newestBackup(t.Context(), etcd)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(got.Revision).To(Equal(c.want), name)
		NewWithT(t).Expect(got.Highest).To(Equal(c.want), name)
		NewWithT(t).Expect(got == Backup{}).To(Equal(c.none), name)
		if !c.none {
			NewWithT(t).Expect(got.Says).To(ContainSubstring(epoch.Format("2006-01-02T15:04:05Z")), name)
		}
	}
}

// Members are asked whether they serve only once they are configured for the recovery by this very task.
func TestStartingNeedsThisTasksConfiguration(t *testing.T) {
	for uid, says := range map[types.UID]string{"": "configuring the members", "other": "configuring the members", "task": "waiting until x-main-2 serves"} {
		etcd := lostEtcd()
		if uid != "" {
			etcd.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: uid}
		}
		task := taskOf(etcd, ptr.To(newInput(in(v1alpha1.RecoveryStarting, v1alpha1.RecoverFromData)).Recorded))
		v, err := handlerOf(apitest.API(etcd), newInput().Snapshot).Execute(t.Context(), task)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(v.Message).To(ContainSubstring(says), uid)
	}
}

func TestOrder(t *testing.T) {
	g := NewWithT(t)
	h := handlerOf(nil, nil)
	etcd := lostEtcd(func(e *v1alpha1.Etcd) { e.Status.ClusterSize = 0 })
	o := h.volumes().Order(taskOf(etcd, nil).Task, &cluster.Snapshot{StatefulSet: cluster.StatefulSet{Generation: 11}})
	g.Expect(o.Round).To(Equal("11"))
	g.Expect(o.Beyond).To(BeTrue(), "a member may have joined while no operator watched")
	g.Expect(o.Members).To(Equal(int32(3)), "as many as the spec says, while nothing is known of the cluster")
	etcd.Status.ClusterSize = 5
	g.Expect(members(etcd)).To(Equal(int32(5)))
	key, err := h.WorkKey(t.Context(), taskOf(etcd, nil))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(key).To(Equal("recover"))
}

// A StatefulSet that is missing for a while ends no recovery while the members are to start from what was chosen. Before, it does: while the task
// keeps all members stopped, none is created.
func TestWithoutAStatefulSet(t *testing.T) {
	for phase, want := range map[v1alpha1.RecoveryPhase]tasks.Outcome{
		"": tasks.Fail, v1alpha1.RecoveryConfirming: tasks.Fail, v1alpha1.RecoveryStopping: tasks.Fail, v1alpha1.RecoverySurveying: tasks.Fail,
		v1alpha1.RecoveryStarting: tasks.Continue, v1alpha1.RecoveryGrowing: tasks.Fail,
	} {
		t.Run(string(phase), func(t *testing.T) {
			g := NewWithT(t)
			etcd := lostEtcd()
			task := taskOf(etcd, nil)
			if phase != "" {
				task.Object.Status.Recovery = &v1alpha1.RecoveryStatus{Phase: phase}
			}
			h := handlerOf(apitest.API(etcd), nil)
			h.Observer = nowhere{}
			v, err := h.Execute(t.Context(), task)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Outcome).To(Equal(want), v.Message)
			g.Expect(v.Code).To(Equal(v1alpha1.ErrStatefulSetNotFound))
		})
	}
}

// nowhere observes an Etcd without a StatefulSet.
type nowhere struct{}

func (nowhere) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	return nil, observe.ErrNoStatefulSet
}
