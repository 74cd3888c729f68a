// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newEtcd(change ...func(*v1alpha1.Etcd)) *v1alpha1.Etcd {
	e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	e.Spec.Replicas = 3
	e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
	e.Status.ClusterID, e.Status.ClusterSize = newcluster.ID(before), 3
	for _, c := range change {
		c(e)
	}
	return e
}

func handlerOf(api client.WithWatch, s *cluster.Snapshot) *Handler {
	return &Handler{
		Jobs:     tasks.Jobs{Client: api, Live: api, Clock: clocktesting.NewFakePassiveClock(epoch), Image: "agent:v1"},
		Observer: apitest.Members(func() *cluster.Snapshot { return s }),
		Rules:    policy.Rules{LocalClaims: []string{"*"}},
		Stays:    &Stays{},
	}
}

func taskOf(etcd *v1alpha1.Etcd, c Config, recovery *v1alpha1.RecoveryStatus) tasks.Typed[Config] {
	task := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t", UID: "task"}}
	task.Status.Recovery = recovery
	c.MaxWritesSince = ptr.To[int64](100)
	return tasks.Typed[Config]{Task: tasks.Task{Object: task, Etcd: etcd}, Config: c}
}

// earlier is the Restore r1, which has replaced data.
func earlier(change ...func(*v1alpha1.EtcdOperatorTask)) *v1alpha1.EtcdOperatorTask {
	t := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r1", UID: "r1-uid"}}
	t.Spec.Type, t.Spec.OwnerEtcdReference.Name = v1alpha1.Restore, "main"
	t.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "main", UID: "etcd"}}
	t.Status.Recovery = &v1alpha1.RecoveryStatus{
		Phase: reopening, Source: v1alpha1.RecoverFromTarget, Member: "m-2", Restore: &v1alpha1.RestoreStatus{FinalSnapshot: "Full-00000000-00000099-1767225600.final"},
	}
	for _, c := range change {
		c(t)
	}
	return t
}

func TestAdmit(t *testing.T) {
	confirmed := Config{To: &Target{Revision: 40}, Confirm: digest[:32] + "@90"}
	preview, undo := Config{To: &Target{Latest: true}}, Config{Undo: "r1"}
	from := func(prefix string) Config {
		return Config{To: &Target{Latest: true}, From: &v1alpha1.StoreSpec{Prefix: prefix}}
	}
	made := func(by types.UID) func(*v1alpha1.Etcd) {
		return func(e *v1alpha1.Etcd) { e.Status.Recovery = &v1alpha1.ClusterRecovery{Task: "r2", TaskUID: by} }
	}
	recovered := func(from v1alpha1.RecoverySource) func(*v1alpha1.Etcd) {
		return func(e *v1alpha1.Etcd) {
			e.Status.Recovery = &v1alpha1.ClusterRecovery{Task: "r2", TaskUID: "r2-uid", Source: from}
		}
	}
	wokeUp := func(e *v1alpha1.Etcd) {
		e.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "hibernation", Source: v1alpha1.RecoverFromBackup}
	}
	confirmedFrom := Config{To: &Target{Latest: true}, Confirm: digest[:32] + "@90", From: &v1alpha1.StoreSpec{Prefix: "ns/copy"}}
	agent := func(image string) func(*Input) {
		return func(in *Input) { in.Snapshot.StatefulSet.AgentImage = image }
	}
	for name, c := range map[string]struct {
		config Config
		etcd   *v1alpha1.Etcd
		in     Input
		there  *v1alpha1.EtcdOperatorTask
		code   v1alpha1.ErrorCode
		says   string
	}{
		"a preview of a cluster that is down": {preview, newEtcd(), at(saving, serving(before)), nil, "", "nothing is changed"},
		"without a store":                     {preview, newEtcd(func(e *v1alpha1.Etcd) { e.Spec.Backup = nil }), at(saving), nil, v1alpha1.ErrNoBackup, "spec.backup.store"},
		"a store that no driver knows":        {preview, newEtcd(func(e *v1alpha1.Etcd) { e.Spec.Backup.Store.Provider = "Tape" }), at(saving), nil, v1alpha1.ErrNoBackup, "spec.backup"},
		"never served":                        {preview, newEtcd(func(e *v1alpha1.Etcd) { e.Status.ClusterID = "" }), at(saving), nil, v1alpha1.ErrNeverServed, "nothing to go back from"},
		"confirmed":                           {confirmed, newEtcd(), at(saving), nil, "", "3 of 3 voters serve"},
		"hibernated":                          {confirmed, newEtcd(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }), at(saving), nil, v1alpha1.ErrHibernated, "wake it up"},
		"beside a source cluster": {confirmed, newEtcd(func(e *v1alpha1.Etcd) {
			e.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{}
		}), at(saving), nil, v1alpha1.ErrSourceCluster, "once the last member of that has left"},
		"no quorum":                      {confirmed, newEtcd(), at(saving, serving(before, 1)), nil, v1alpha1.ErrNoQuorum, "no quorum"},
		"no quorum of etcd-druid's pods": {confirmed, newEtcd(), at(saving, serving(before, 1), func(in *Input) { in.Snapshot.StatefulSet.OfDruid = true }), nil, v1alpha1.ErrNoQuorum, "no quorum"},
		"another cluster serves":         {confirmed, newEtcd(), at(saving, serving(after, 0, 1, 2)), nil, v1alpha1.ErrClusterID, "serve as cluster beef"},
		"pods of etcd-druid":             {confirmed, newEtcd(), at(saving, func(in *Input) { in.Snapshot.StatefulSet.OfDruid = true }), nil, v1alpha1.ErrForeignObject, "etcd-druid"},
		"from another prefix":            {from("ns/copy"), newEtcd(), at(saving), nil, "", "nothing is changed"},
		"from its own backup":            {from("ns/main"), newEtcd(), at(saving), nil, v1alpha1.ErrInvalidConfig, "spec.config: from overlaps the live backups of Etcd main"},
		"confirmed from another prefix":  {confirmedFrom, newEtcd(), at(saving), nil, "", "3 of 3 voters serve"},
		"by older agents":                {confirmed, newEtcd(), at(saving, agent("agent:v0")), nil, v1alpha1.ErrRestoreRefused, "have it applied (kubectl annotate etcd main -n ns druid.gardener.cloud/operation=reconcile)"},
		"an undo by older agents":        {undo, newEtcd(made("r1-uid")), at(saving, agent("agent:v0")), earlier(), v1alpha1.ErrRestoreRefused, "druid.gardener.cloud/operation=reconcile"},
		"by an older agent":              {confirmed, newEtcd(), at(saving, func(in *Input) { in.Snapshot.Ordinals[2].Pod.AgentOutdated = true }), nil, v1alpha1.ErrRestoreRefused, "let the rollout end that brings it (kubectl etcdtask watch main -n ns)"},
		"from that of another namespace": {from("away/secret"), newEtcd(func(e *v1alpha1.Etcd) {
			e.Spec.Backup.Store = &v1alpha1.StoreSpec{Provider: "S3", Container: "backups", SecretRef: &v1alpha1.SecretReference{Name: "s"}}
		}), at(saving), nil, v1alpha1.ErrInvalidConfig, "of an Etcd of another namespace"},
		"from another store": {Config{To: &Target{Latest: true}, From: &v1alpha1.StoreSpec{Provider: "S3", Container: "archive", Prefix: "ns/copy"}}, newEtcd(), at(saving), nil,
			v1alpha1.ErrInvalidConfig, "spec.config: from is in S3 container archive"},
		"a pod is behind the template":     {confirmed, newEtcd(), at(saving, func(in *Input) { in.Snapshot.Ordinals[1].Pod.Revision = "old" }), nil, v1alpha1.ErrRestoreRefused, "1 of 3 pods are not at the newest template"},
		"a claim is being deleted":         {confirmed, newEtcd(), at(saving, claimGoes), nil, v1alpha1.ErrRestoreRefused, "its claim c is being deleted"},
		"which an undo would lose as well": {undo, newEtcd(made("r1-uid")), at(saving, claimGoes), earlier(), v1alpha1.ErrRestoreRefused, "its claim c is being deleted"},
		"a preview stops nothing":          {preview, newEtcd(), at(saving, claimGoes), nil, "", "nothing is changed"},
		"an undo":                          {undo, newEtcd(made("r1-uid")), at(saving), earlier(), "", ""},
		"of a task that is gone":           {undo, newEtcd(), at(saving), nil, v1alpha1.ErrRestoreRefused, "does not exist"},
		"of an older one":                  {undo, newEtcd(made("r2-uid")), at(saving), earlier(), v1alpha1.ErrRestoreRefused, "the tasks that exist do not lead from task r2 back to task r1"},
		"before a recovery from data":      {undo, newEtcd(recovered(v1alpha1.RecoverFromData)), at(saving), earlier(), v1alpha1.ErrRestoreRefused, "task r2 has recovered the cluster from quorum loss since task r1, and a recovery cannot be undone. Preview the final snapshot of task r1 to go back to what was there before it (kubectl etcdtask restore main -n ns --to snapshot=Full-00000000-00000099-1767225600.final)"},
		"before one from the backup":       {undo, newEtcd(recovered(v1alpha1.RecoverFromBackup)), at(saving), earlier(), v1alpha1.ErrRestoreRefused, "a recovery cannot be undone"},
		"after waking up":                  {undo, newEtcd(wokeUp), at(saving), earlier(), "", ""},
		"of one that was never recorded": {undo, newEtcd(), at(saving), earlier(func(t *v1alpha1.EtcdOperatorTask) {
			t.Status.Recovery.PreviousClusterID = newcluster.ID(before) // the cluster is the same
		}), v1alpha1.ErrRestoreRefused, "task r1 has replaced no data: there is nothing to undo"},
		"of one that begins": {undo, newEtcd(made("r1-uid")), at(saving), earlier(func(t *v1alpha1.EtcdOperatorTask) {
			t.Status.Recovery.PreviousClusterID = newcluster.ID(before)
		}), "", ""},
		"of a preview":                    {undo, newEtcd(), at(saving), earlier(func(t *v1alpha1.EtcdOperatorTask) { t.Status.Recovery = nil }), v1alpha1.ErrRestoreRefused, "nothing to undo"},
		"of one that was aborted":         {undo, newEtcd(), at(saving), earlier(func(t *v1alpha1.EtcdOperatorTask) { t.Status.Recovery.Source = "" }), v1alpha1.ErrRestoreRefused, "nothing to undo"},
		"of a recovery":                   {undo, newEtcd(), at(saving), earlier(func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Type = v1alpha1.QuorumLossRecovery }), v1alpha1.ErrRestoreRefused, "not a Restore of Etcd main"},
		"of another Etcd":                 {undo, newEtcd(), at(saving), earlier(func(t *v1alpha1.EtcdOperatorTask) { t.Spec.OwnerEtcdReference.Name = "other" }), v1alpha1.ErrRestoreRefused, "not a Restore of Etcd main"},
		"of an earlier Etcd of that name": {undo, newEtcd(), at(saving), earlier(func(t *v1alpha1.EtcdOperatorTask) { t.OwnerReferences[0].UID = "gone" }), v1alpha1.ErrRestoreRefused, "not a Restore of Etcd main"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			stranger := newEtcd(func(e *v1alpha1.Etcd) {
				e.Namespace, e.Spec.Backup.Store = "away", &v1alpha1.StoreSpec{Provider: "S3", Container: "backups", Prefix: "away/secret"}
			})
			api := apitest.API(c.etcd, stranger)
			if c.there != nil {
				g.Expect(api.Create(t.Context(), c.there)).To(Succeed())
			}
			v, err := handlerOf(api, c.in.Snapshot).Admit(t.Context(), taskOf(c.etcd, c.config, nil))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Code).To(Equal(c.code), v.Message)
			g.Expect(v.Message).To(ContainSubstring(c.says))
			g.Expect(v.Outcome).To(Equal(map[bool]tasks.Outcome{true: tasks.Continue, false: tasks.Reject}[c.code == ""]))
		})
	}
}

// A cluster that has woken up without volumes records only that. Of its Restores, the newest is undone first, as before the hibernation.
func TestTheNewestRestoreIsUndoneFirstAfterWakingUp(t *testing.T) {
	for name, c := range map[string]struct {
		second int64
		change func(*v1alpha1.EtcdOperatorTask)
		why    string
	}{
		"a newer one":            {11, nil, "task r2 has replaced the cluster since task r1: undo that one first"},
		"one of the same second": {10, nil, "task r2 has replaced the cluster since task r1: undo that one first"},
		"an older one":           {9, nil, ""},
		"a newer preview":        {11, func(t *v1alpha1.EtcdOperatorTask) { t.Status.Recovery = nil }, ""},
		"a newer one, aborted":   {11, func(t *v1alpha1.EtcdOperatorTask) { t.Status.Recovery.Source = "" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd, healthy := newEtcd(func(e *v1alpha1.Etcd) { e.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "hibernation"} }), at(saving).Snapshot
			created := func(second int64) func(*v1alpha1.EtcdOperatorTask) {
				return func(t *v1alpha1.EtcdOperatorTask) { t.CreationTimestamp = metav1.Unix(second, 0) }
			}
			first := component.Lineage(etcd)
			first.Recovery = &member.Recovery{Task: "r1-uid", Member: "m-2"}
			other := earlier(created(c.second), func(t *v1alpha1.EtcdOperatorTask) {
				t.Name, t.UID, t.Status.Recovery.PreviousClusterID = "r2", "r2-uid", first.RecoveredID()
			})
			if c.change != nil {
				c.change(other)
			}
			v, err := handlerOf(apitest.API(etcd, earlier(created(10)), other), healthy).Admit(t.Context(), taskOf(etcd, Config{Undo: "r1"}, nil))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Code == v1alpha1.ErrRestoreRefused).To(Equal(c.why != ""), v.Message)
			g.Expect(v.Message).To(ContainSubstring(c.why))
		})
	}
}

// leaseOf is the lease of a delta snapshot at revision 7777.
func leaseOf(etcd *v1alpha1.Etcd) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: apitest.Own(etcd, etcd.DeltaSnapshotLeaseName())}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To("7777"), ptr.To(metav1.NewMicroTime(epoch))
	return lease
}

// What is read live decides: whether the Service is fenced, by this task, and what the Leases know.
func TestExecute(t *testing.T) {
	g := NewWithT(t)
	etcd := newEtcd()
	service := &corev1.Service{ObjectMeta: apitest.Own(etcd, etcd.ClientServiceName())}
	api := apitest.API(etcd, service, leaseOf(etcd))
	config := Config{To: &Target{Revision: 40}, Confirm: digest[:32] + "@90"}
	phase := func(in Input) tasks.Verdict {
		v, err := handlerOf(api, in.Snapshot).Execute(t.Context(), taskOf(etcd, config, &in.Recorded))
		g.Expect(err).NotTo(HaveOccurred())
		return v
	}
	g.Expect(phase(at(fencing)).Recovery.Phase).To(Equal(fencing))
	service.Spec.Selector = map[string]string{v1alpha1.LabelFencedBy: "other"}
	g.Expect(api.Update(t.Context(), service)).To(Succeed())
	g.Expect(phase(at(fencing)).Recovery.Phase).To(Equal(fencing), "that is another task's")
	service.Spec.Selector[v1alpha1.LabelFencedBy] = "task"
	g.Expect(api.Update(t.Context(), service)).To(Succeed())
	g.Expect(phase(at(fencing)).Recovery.Phase).To(Equal(saving))
	g.Expect(phase(at(saving)).Step.Detail.(request).final).To(BeTrue())
	v := phase(at(surveying, stopped))
	g.Expect(v.Recovery.Phase).To(Equal(starting), v.Message)
	g.Expect(v.Recovery.Restore.HighestRevision).To(BeNumerically("==", 7777))
	full := &coordinationv1.Lease{ObjectMeta: apitest.Own(etcd, etcd.FullSnapshotLeaseName())}
	full.Annotations = map[string]string{v1alpha1.AnnotationBeganAt: "1000007777"}
	g.Expect(api.Create(t.Context(), full)).To(Succeed())
	v = phase(at(surveying, stopped))
	g.Expect(v.Recovery.Restore.HighestRevision).To(BeNumerically("==", 1_000_007_777), "a cluster has begun there, and has no snapshot yet")

	service.OwnerReferences = nil
	g.Expect(api.Update(t.Context(), service)).To(Succeed())
	v = phase(at(fencing))
	g.Expect(v.Code).To(Equal(v1alpha1.ErrForeignObject), v.Message)
	g.Expect(v.Message).To(MatchRegexp("^Service ns/main-client has the labels of this Etcd and no controller: .*Nothing was changed$"))
}

// A larger cluster has left a claim whose volume no Job can read. None of its members is started, and the cluster was healthy until it was stopped:
// that claim is not waited for.
func TestAClaimThatNoMemberUsesIsNotSurveyed(t *testing.T) {
	g := NewWithT(t)
	etcd, in := newEtcd(), at(surveying, stopped)
	h := handlerOf(apitest.API(etcd, apitest.Claim(etcd, 3)), in.Snapshot)
	task := taskOf(etcd, Config{To: &Target{Revision: 40}, Confirm: digest[:32] + "@90"}, &in.Recorded)
	v, err := h.Execute(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Step).To(BeNil(), "no Job surveys it")
	g.Expect(v.Recovery.Phase).To(Equal(starting), v.Message)
}

// foreigners are objects under names that the Etcd needs, which belong to another one, by the kind.
func foreigners() map[string]client.Object {
	of := func(name string) metav1.ObjectMeta {
		by := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Shop", Name: "front", UID: "shop", Controller: ptr.To(true)}}
		return metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: by}
	}
	return map[string]client.Object{
		"Service ns/main-client":               &corev1.Service{ObjectMeta: of("main-client")},
		"Service ns/main-peer":                 &corev1.Service{ObjectMeta: of("main-peer")},
		"ConfigMap ns/main-config":             &corev1.ConfigMap{ObjectMeta: of("main-config")},
		"PodDisruptionBudget ns/main":          &policyv1.PodDisruptionBudget{ObjectMeta: of("main")},
		"Lease ns/main-1":                      &coordinationv1.Lease{ObjectMeta: of("main-1")},
		"StatefulSet ns/main":                  &appsv1.StatefulSet{ObjectMeta: of("main")},
		"PersistentVolumeClaim ns/main-main-2": &corev1.PersistentVolumeClaim{ObjectMeta: of("main-main-2")},
	}
}

// Foreign objects keep the members from being stopped, or from being started again: a Restore is rejected before it takes anything, with the owner.
func TestForeignObjects(t *testing.T) {
	for kind, object := range foreigners() {
		for name, config := range map[string]Config{
			"confirmed":      {To: &Target{Revision: 40}, Confirm: digest[:32] + "@90"},
			"clients stay":   {To: &Target{Revision: 40}, Confirm: digest[:32] + "@90", KeepService: true},
			"undo":           {Undo: "r1"},
			"only a preview": {To: &Target{Revision: 40}},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				g := NewWithT(t)
				etcd := newEtcd(func(e *v1alpha1.Etcd) { e.Status.Recovery = &v1alpha1.ClusterRecovery{Task: "r2", TaskUID: "r1-uid"} })
				there := []client.Object{etcd, object.DeepCopyObject().(client.Object), earlier()}
				if !strings.HasPrefix(kind, "StatefulSet") {
					there = append(there, apitest.StatefulSet(etcd, 3))
				}
				v, err := handlerOf(apitest.API(there...), at(saving).Snapshot).Admit(t.Context(), taskOf(etcd, config, nil))
				g.Expect(err).NotTo(HaveOccurred())
				if !config.replaces() {
					g.Expect(v.Outcome).To(Equal(tasks.Continue), v.Message)
					return
				}
				g.Expect(v.Outcome).To(Equal(tasks.Reject), v.Message)
				g.Expect(v.Code).To(Equal(v1alpha1.ErrForeignObject))
				g.Expect(v.Message).To(MatchRegexp("^%s (is controlled by|belongs to) Shop front \\(UID shop\\): .*another name.*. While this is so, the operator stops and starts no member of the Etcd$", kind))
			})
		}
	}
}

// What becomes foreign while a Restore runs is found on live reads, before members are stopped, and while it waits for that.
func TestObjectsThatBecomeForeign(t *testing.T) {
	lease := foreigners()["Lease ns/main-1"]
	for name, c := range map[string]struct {
		in      Input
		outcome tasks.Outcome
		says    string
	}{
		"before clients are kept away": {at(fencing, func(in *Input) { in.Fenced = false }), tasks.Fail, "^Lease ns/main-1 is controlled by Shop front .*Nothing was changed$"},
		"before the members stop":      {at(stopping), tasks.Continue, "interrupted"},
		"scaled up, and not again": {at(surveying, func(in *Input) { in.Snapshot.StatefulSet.HeldAtZeroBy = in.Task }), tasks.Continue,
			"^StatefulSet main is no longer scaled to zero: waiting until it is: Lease ns/main-1 is controlled by Shop front .*no member of the Etcd$"},
		"they do not start": {at(starting, source(v1alpha1.RecoverFromTarget), stopped), tasks.Continue,
			"^waiting until StatefulSet main is scaled up again: Lease ns/main-1 is controlled by Shop front .*no member of the Etcd$"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := newEtcd(func(e *v1alpha1.Etcd) { e.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "task"} })
			api := apitest.API(etcd, lease.DeepCopyObject().(client.Object))
			v, err := handlerOf(api, c.in.Snapshot).Execute(t.Context(), taskOf(etcd, Config{To: &Target{Revision: 40}, Confirm: digest[:32] + "@90"}, &c.in.Recorded))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Outcome).To(Equal(c.outcome), v.Message)
			g.Expect(v.Message).To(MatchRegexp(c.says))
		})
	}
}

// What has become foreign while the final snapshot was taken is found before the members stop: clients are let in again.
func TestAForeignObjectBesideTheFinalSnapshot(t *testing.T) {
	for kind, object := range foreigners() {
		t.Run(kind, func(t *testing.T) {
			g := machine.Gomega(t)
			etcd, in := newEtcd(), at(saving)
			there := []client.Object{etcd, object}
			if !strings.HasPrefix(kind, "StatefulSet") {
				there = append(there, apitest.StatefulSet(etcd, 3))
			}
			h, task := handlerOf(apitest.API(there...), in.Snapshot), taskOf(etcd, Config{To: &Target{Revision: 40}, Confirm: digest[:32] + "@90"}, &in.Recorded)
			_, err := h.Execute(t.Context(), task)
			g.Expect(err).NotTo(HaveOccurred())
			h.calls.Start(t.Context(), task.Object.UID, "asked", time.Minute, func(context.Context) (backup.Snapshot, error) {
				return backup.Snapshot{Kind: backup.Full, LastRevision: 100, Created: epoch, Final: true}, nil
			})
			g.Eventually(func() bool { call, _ := h.calls.Of(task.Object.UID); return call.Running }).Should(BeFalse())
			v, err := h.Execute(t.Context(), task)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Outcome).To(Equal(tasks.Fail), v.Message)
			g.Expect(v.Code).To(Equal(v1alpha1.ErrForeignObject))
			g.Expect(v.Recovery.Phase).To(Equal(saving))
			g.Expect(v.Message).To(MatchRegexp("^%s .* Shop front .*Nothing was changed$", kind))
		})
	}
}

// A task whose Etcd is gone is cleaned up after without one.
func TestCleanup(t *testing.T) {
	task := taskOf(newEtcd(), Config{}, nil)
	NewWithT(t).Expect(handlerOf(apitest.API(), nil).Cleanup(t.Context(), tasks.Task{Object: task.Object})).To(Succeed())
}

func TestWorkKey(t *testing.T) {
	g := NewWithT(t)
	h := handlerOf(nil, nil)
	key := func(c Config) string {
		k, err := h.WorkKey(t.Context(), taskOf(newEtcd(), c, nil))
		g.Expect(err).NotTo(HaveOccurred())
		return k
	}
	g.Expect(key(Config{Undo: "a"})).To(Equal(key(Config{Undo: "a"})))
	g.Expect(key(Config{Undo: "a"})).NotTo(Equal(key(Config{Undo: "b"})))
	g.Expect(key(Config{To: &Target{Revision: 1}})).NotTo(Equal(key(Config{To: &Target{Revision: 1}, Confirm: "x"})))
}

// A task that is deleted before the restore that undoes it begins has taken with it what the members had: no member is stopped for that.
func TestUndoOfATaskThatWasDeletedSince(t *testing.T) {
	g := NewWithT(t)
	etcd := newEtcd()
	api := apitest.API(etcd)
	v, err := handlerOf(api, at(saving).Snapshot).Execute(t.Context(), taskOf(etcd, Config{Undo: "r1"}, nil))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Outcome).To(Equal(tasks.Fail))
	g.Expect(v.Code).To(Equal(v1alpha1.ErrRestoreRefused))
	g.Expect(v.Message).To(ContainSubstring("task r1 does not exist"))
}

// Nor does it go on to the final snapshot if that happens later: the members have what was written after it.
func TestUndoOfATaskThatIsDeletedLater(t *testing.T) {
	for _, c := range []struct {
		in   Input
		says string
	}{
		{at(fencing), ". Nothing was changed"}, {at(saving), ". Nothing was changed"}, {at(stopping), ". Nothing was changed"},
		{at(stopping, stopped), "the members start as they were"}, {at(surveying, stopped), "the members start as they were"},
	} {
		t.Run(string(c.in.Recorded.Phase), func(t *testing.T) {
			g := NewWithT(t)
			etcd := newEtcd()
			v, err := handlerOf(apitest.API(etcd), c.in.Snapshot).Execute(t.Context(), taskOf(etcd, Config{Undo: "r1"}, &c.in.Recorded))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Outcome).To(Equal(tasks.Fail), v.Message)
			g.Expect(v.Code).To(Equal(v1alpha1.ErrRestoreRefused))
			g.Expect(v.Message).To(And(ContainSubstring("task r1 does not exist"), ContainSubstring(c.says)))
		})
	}
	g := NewWithT(t)
	etcd, begun := newEtcd(), at(starting, func(in *Input) { in.Recorded.Source = v1alpha1.RecoverFromKeptData })
	v, err := handlerOf(apitest.API(etcd), begun.Snapshot).Execute(t.Context(), taskOf(etcd, Config{Undo: "r1"}, &begun.Recorded))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Outcome).To(Equal(tasks.Continue), "it is chosen what the cluster starts from")
}

// Where a preview could not be compared, what the snapshot Leases record is the newest revision that it knows.
func TestAPreviewThatIsNotCompared(t *testing.T) {
	g := machine.Gomega(t)
	etcd := newEtcd()
	task := taskOf(etcd, Config{To: &Target{Revision: 40}}, nil)
	there := apitest.API(etcd, task.Object, leaseOf(etcd))
	run(t, there, at(saving).Snapshot, task)
	key := client.ObjectKey{Namespace: "ns", Name: job.Name(task.Object)}
	apitest.Run(t, there, key)
	apitest.Complete(t, there, key, `{"digest":"`+digest+`","base":"`+full+`","deltas":1,"revision":40,"notCompared":"a delta is lost"}`)
	h := handlerOf(there, at(saving).Snapshot)
	h.calls.Start(t.Context(), task.Object.UID, "asked", time.Minute, func(context.Context) (backup.Snapshot, error) { return backup.Snapshot{}, nil })
	g.Eventually(func() bool { call, _ := h.calls.Of(task.Object.UID); return call.Running }).Should(BeFalse())
	v, err := h.Execute(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Outcome).To(Equal(tasks.Done), v.Message)
	g.Expect(v.Result).To(HaveKeyWithValue(keyConfirm, digest[:32]+"@7777"))
	apitest.EachRequestFails(t, there, func(api client.WithWatch) error {
		failing := handlerOf(api, at(saving).Snapshot)
		_, err := failing.Execute(t.Context(), task)
		return err
	})
}

// What is at another prefix is held by no task: a preview says so, and a confirmed restore goes on without a hold.
func TestNoHoldAtAnotherPrefix(t *testing.T) {
	g := NewWithT(t)
	etcd := newEtcd()
	for _, confirm := range []string{"", digest[:32] + "@90"} {
		task := taskOf(etcd, Config{To: &Target{Revision: 40}, From: &v1alpha1.StoreSpec{Prefix: "ns/copy"}, Confirm: confirm}, nil)
		there := apitest.API(etcd, task.Object)
		run(t, there, at(saving).Snapshot, task)
		key := client.ObjectKey{Namespace: "ns", Name: job.Name(task.Object)}
		apitest.Run(t, there, key)
		apitest.Complete(t, there, key, `{"digest":"`+digest+`","base":"`+full+`","deltas":1,"revision":40,"end":{"revision":90}}`)
		v, err := handlerOf(there, at(saving).Snapshot).Execute(t.Context(), task)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(v.Step).To(BeNil())
		if confirm == "" {
			g.Expect(v.Outcome).To(Equal(tasks.Done), v.Message)
			g.Expect(v.Message).To(ContainSubstring("nothing protects snapshots from removal"))
		} else {
			g.Expect(v.Recovery.Phase).To(Equal(fencing), v.Message)
			g.Expect(v.Recovery.Restore.Prefix).To(Equal("ns/copy"))
		}
	}
}
