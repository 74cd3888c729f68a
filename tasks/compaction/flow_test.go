// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// running is a task that compacts the backups of an Etcd.
type running struct {
	*WithT
	t       *testing.T
	api     client.WithWatch
	handler *Handler
	task    tasks.Typed[Config]
	lease   *coordinationv1.Lease
}

func newRunning(t *testing.T) *running {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{
		Replicas: 3, Backup: &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}},
	}}
	object := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "compact", UID: "task"}}
	lease := &coordinationv1.Lease{ObjectMeta: apitest.Own(etcd, "main-full-snap")}
	r := &running{WithT: NewWithT(t), t: t, api: apitest.API(etcd, object, lease), lease: lease}
	r.handler = r.with(r.api)
	r.task = tasks.Typed[Config]{Task: tasks.Task{Object: object, Etcd: etcd}, Config: Config{Timeout: &metav1.Duration{Duration: time.Minute}}}
	return r
}

func (r *running) with(api client.WithWatch) *Handler {
	return &Handler{Jobs: tasks.Jobs{Client: api, Live: api, Clock: clocktesting.NewFakePassiveClock(noon), Image: "agent:v1"}}
}

// next is the next verdict, after each of the requests for it failed once; its step is carried out likewise.
func (r *running) next() tasks.Verdict {
	r.t.Helper()
	apitest.EachRequestFails(r.t, r.api, func(api client.WithWatch) error {
		_, err := r.with(api).Execute(r.t.Context(), r.task)
		return err
	})
	v, err := r.handler.Execute(r.t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	if v.Step != nil {
		apitest.EachRequestFails(r.t, r.api, func(api client.WithWatch) error {
			again, err := r.with(r.api).Execute(r.t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			return r.with(api).Perform(r.t.Context(), r.task.Task, *again.Step)
		})
		r.Expect(r.handler.Perform(r.t.Context(), r.task.Task, *v.Step)).To(Succeed())
	}
	return v
}

func (r *running) key() client.ObjectKey {
	return client.ObjectKey{Namespace: "ns", Name: job.Name(r.task.Object)}
}

func (r *running) job() *batchv1.Job {
	j := &batchv1.Job{}
	r.Expect(r.api.Get(r.t.Context(), r.key(), j)).To(Succeed())
	return j
}

func (r *running) recorded() string {
	r.Expect(r.api.Get(r.t.Context(), client.ObjectKeyFromObject(r.lease), r.lease)).To(Succeed())
	return ptr.Deref(r.lease.Spec.HolderIdentity, "")
}

// A compaction, step by step.
func TestCompaction(t *testing.T) {
	r := newRunning(t)
	r.task.Etcd.Spec.Backup.SnapshotCompaction = &v1alpha1.SnapshotCompactionSpec{Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")}}}
	v := r.next()
	r.Expect(v.Outcome).To(Equal(tasks.Continue))
	r.Expect(v.Message).To(Equal("the agent works in Job " + r.key().Name))
	container := r.job().Spec.Template.Spec.Containers[0]
	r.Expect(container.Image).To(Equal("agent:v1"))
	r.Expect(container.Args).To(ContainElements("compact", "--compression="+component.SnapshotCompression(r.task.Etcd)))
	r.Expect(container.Resources.Limits.Memory().String()).To(Equal("3Gi"))
	r.Expect(r.job().Spec.ActiveDeadlineSeconds).To(HaveValue(BeEquivalentTo(60)))
	r.Expect(r.job().Spec.Template.Spec.Volumes).To(ContainElement(Or(HaveField("EmptyDir", Not(BeNil())), HaveField("Ephemeral", Not(BeNil())))), "a database takes space")
	apitest.Run(t, r.api, r.key())
	r.Expect(r.next().Outcome).To(Equal(tasks.Continue))
	r.Expect(r.recorded()).To(BeEmpty())

	apitest.Complete(t, r.api, r.key(), `{"revision":"42","createdOn":"2026-07-01T12:00:00Z"}`)
	v = r.next()
	r.Expect(v.Outcome).To(Equal(tasks.Continue))
	r.Expect(v.Reason).To(Equal(v1alpha1.ReasonRunning))
	r.Expect(v.Message).To(Equal("record the full snapshot at revision 42 in lease " + r.lease.Name))
	r.Expect(v.Step.Operation).To(Equal("RecordSnapshot"))
	r.Expect(v.Step.RecheckAfter).To(Equal(50 * time.Millisecond))
	r.Expect(v.Result).To(HaveKeyWithValue("revision", "42"))
	r.Expect(r.recorded()).To(Equal("42"))
	r.Expect(r.lease.Spec.RenewTime.Time).To(BeTemporally("==", noon))
	v = r.next()
	r.Expect(v.Outcome).To(Equal(tasks.Done))
	r.Expect(v.Result).To(HaveKeyWithValue("revision", "42"))
}

// What is not recorded, and still is the end of the task.
func TestCompactionThatIsNotRecorded(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(r *running)
		result string
		says   string
	}{
		"the report is not complete": {func(*running) {}, `{"revision":"42"}`, ""},
		"there is no lease":          {func(r *running) { r.Expect(r.api.Delete(r.t.Context(), r.lease)).To(Succeed()) }, `{"revision":"42","createdOn":"2026-07-01T12:00:00Z"}`, ""},
		"the lease is another's": {func(r *running) {
			r.recorded()
			r.lease.OwnerReferences = nil
			r.Expect(r.api.Update(r.t.Context(), r.lease)).To(Succeed())
		}, `{"revision":"42","createdOn":"2026-07-01T12:00:00Z"}`, "; it is recorded nowhere: Lease ns/main-full-snap has the labels of this Etcd and no controller"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunning(t)
			r.next()
			apitest.Complete(t, r.api, r.key(), tc.result)
			tc.change(r)
			v := r.next()
			r.Expect(v.Outcome).To(Equal(tasks.Done))
			r.Expect(v.Step).To(BeNil())
			r.Expect(v.Message).To(ContainSubstring(tc.says))
		})
	}
}

// Where snapshots are signed, the Job is told what a restore must reach, and has the keys.
func TestSignedCompaction(t *testing.T) {
	r := newRunning(t)
	r.task.Etcd.Spec.Backup.Signing = &v1alpha1.SigningSpec{SecretRef: v1alpha1.SecretReference{Name: "keys"}}
	r.recorded()
	r.lease.Spec.HolderIdentity, r.lease.Spec.RenewTime = ptr.To("7"), &metav1.MicroTime{Time: noon}
	r.Expect(r.api.Update(t.Context(), r.lease)).To(Succeed())
	r.next()
	r.Expect(r.job().Spec.Template.Spec.Containers[0].Args).To(ContainElements("--recorded-revision=7", "compact"))
	r.Expect(r.job().Spec.Template.Spec.Volumes).To(ContainElement(HaveField("Secret", HaveValue(HaveField("SecretName", "keys")))))
}

// A store that is gone, or cannot be used, fails the task that is to begin.
func TestCompactionWithoutAStore(t *testing.T) {
	for says, change := range map[string]func(*v1alpha1.Etcd){
		"has no spec.backup.store": func(e *v1alpha1.Etcd) { e.Spec.Backup = nil },
		"tape":                     func(e *v1alpha1.Etcd) { e.Spec.Backup.Store.Provider = "tape" },
		"spec.backup.signing: secretRef has no name": func(e *v1alpha1.Etcd) { e.Spec.Backup.Signing = &v1alpha1.SigningSpec{} },
	} {
		r := newRunning(t)
		change(r.task.Etcd)
		v, err := r.handler.Execute(t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(v.Outcome).To(Equal(tasks.Fail))
		r.Expect(v.Message).To(ContainSubstring(says))
	}
}

func TestAdmit(t *testing.T) {
	r := newRunning(t)
	admit := func() tasks.Verdict {
		v, err := r.handler.Admit(t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
		return v
	}
	r.Expect(admit()).To(Equal(tasks.Verdict{Outcome: tasks.Continue, Message: "backups are configured"}))
	r.task.Etcd.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{}
	r.Expect(admit()).To(And(HaveField("Outcome", tasks.Reject), HaveField("Code", v1alpha1.ErrSourceCluster), HaveField("Message", ContainSubstring("takes the backups until that is removed"))))
	r.task.Etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
	r.task.Etcd.Spec.Backup.Store.Provider = "tape"
	v := admit()
	r.Expect(v.Outcome).To(Equal(tasks.Reject))
	r.Expect(v.Message).To(HavePrefix("spec.backup: "))
	r.task.Etcd.Spec.Backup = nil
	r.Expect(admit()).To(Equal(tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrNoBackup, Message: "Etcd main has no spec.backup.store"}))
	work, err := r.handler.WorkKey(t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(work).To(Equal("compaction"))
	superseded, err := r.handler.Superseded(t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(superseded).To(BeEmpty())
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]time.Duration{"": time.Hour, "timeout: 1s": time.Second, "timeout: 4h": 4 * time.Hour, "timeout: 4h1s": 0, "timeout: 999ms": 0, "timeout: null": 0, "other: 1": 0} {
		g := NewWithT(t)
		c, err := taskconfig.Decode[Config](text)
		if want == 0 {
			g.Expect(err).To(HaveOccurred(), text)
			continue
		}
		g.Expect(err).NotTo(HaveOccurred(), text)
		g.Expect(c.Timeout.Duration).To(Equal(want), text)
	}
	for text, want := range map[string]time.Duration{`{}`: time.Hour, `{"timeout":"2h","since":"v9"}`: 2 * time.Hour, `x`: 0} {
		g := NewWithT(t)
		c, err := taskconfig.Recorded[Config](text)
		if want == 0 {
			g.Expect(err).To(MatchError(ContainSubstring("status.config: ")))
			continue
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Timeout.Duration).To(Equal(want), text)
	}
}
