// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package jobs_test runs tasks whose work is a Job under the task engine and a real API server. Nobody carries the
// Jobs out: the tests say what becomes of them.
package jobs_test

import (
	"os"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, &testEnv, env.WithRoles()))
}

// world is an Etcd that has a store for backups.
type world struct{ *env.Cluster }

func newWorld(t *testing.T, change ...func(*v1alpha1.Etcd)) *world {
	t.Helper()
	w := &world{testEnv.NewCluster(t, "main")}
	backedUp := func(e *v1alpha1.Etcd) {
		e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "claim"}}
	}
	w.CreateEtcd(1, append([]func(*v1alpha1.Etcd){backedUp}, change...)...)
	return w
}

// start starts an operator that runs tasks; stop stops it.
func (w *world) start() (stop func()) {
	w.T.Helper()
	return w.startOnly(composed.Tasks)
}

// startOnly starts some controllers of an operator that may copy from one store.
func (w *world) startOnly(controllers ...composed.Controller) (stop func()) {
	w.T.Helper()
	return w.Start(controllers, composition.Configured(func(c *configv1alpha1.OperatorConfiguration) {
		c.Images.EtcdAgent = "x/agent"
		c.Backup.CopyStores = []configv1alpha1.CopyStore{{Provider: "S3", Container: "b", SecretName: "s"}}
	}))
}

// job waits for the only Job.
func (w *world) job() *batchv1.Job {
	w.T.Helper()
	var job batchv1.Job
	w.Eventually(func(g Gomega) {
		all := w.Jobs(g)
		g.Expect(all).To(HaveLen(1))
		job = all[0]
	}).Should(Succeed())
	return &job
}

// pod gives a Job a pod whose container has ended.
func (w *world) pod(job *batchv1.Job, ended corev1.ContainerStateTerminated) {
	w.T.Helper()
	w.labeled(job, ended, *metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job")))
}

// labeled makes a pod with the label of a Job, and other owners than the Job.
func (w *world) labeled(job *batchv1.Job, ended corev1.ContainerStateTerminated, owners ...metav1.OwnerReference) {
	w.T.Helper()
	pod, status := env.PodOf(job, "", ended)
	pod.GenerateName, pod.OwnerReferences = job.Name+"-", owners
	w.Create(pod)
	pod.Status = status
	w.Expect(testEnv.Client.Status().Update(w.T.Context(), pod)).To(Succeed())
}

func (w *world) complete(job *batchv1.Job) {
	w.T.Helper()
	job.Status = env.Succeeded()
	w.Expect(testEnv.Client.Status().Update(w.T.Context(), job)).To(Succeed())
}

// One Job, also when the operator goes away, and what the agent told at its end.
func TestCompaction(t *testing.T) {
	w := newWorld(t)
	stop := w.start()
	owner := w.CreateTask("compact", v1alpha1.OnDemandCompaction, "")
	job := w.job()
	stop()
	w.start()
	w.Expect(metav1.IsControlledBy(job, owner)).To(BeTrue())
	w.Expect(job.Spec.Template.Spec.Containers[0].Args).To(ContainElements("compact", "--store-prefix="+w.Namespace+"/main", "--work-dir=/var/etcd/work"))
	w.pod(job, corev1.ContainerStateTerminated{Message: `{"snapshot": "a/v2/Full-00000000-00000009-1.gz", "revision": 9, "bytesAfter": 100}`})
	w.complete(job)
	done := w.UntilTask("compact", v1alpha1.TaskStateSucceeded)
	w.Expect(done.Status.Result).To(HaveKeyWithValue("snapshot", "a/v2/Full-00000000-00000009-1.gz"))
	w.Expect(done.Status.Result).To(HaveKeyWithValue("revision", "9"))
	w.Expect(done.Status.Result).To(HaveKeyWithValue("job", job.Name))
	w.Expect(w.Jobs(w)).To(HaveLen(1))
}

// The lease of full snapshots tells of the snapshot before the task has succeeded, unless it tells of a newer one.
func TestCompactionIsRecorded(t *testing.T) {
	for _, tc := range []struct {
		name   string
		holder string
		at     time.Time
		want   string
	}{
		{"newer", "5", time.Date(2026, 7, 1, 11, 0, 0, 0, time.UTC), "9"},
		{"the agent took one meanwhile", "12", time.Date(2026, 7, 1, 13, 0, 0, 0, time.UTC), "12"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			lease := &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "main-full-snap", OwnerReferences: w.ownedByEtcd()},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &tc.holder, RenewTime: &metav1.MicroTime{Time: tc.at}},
			}
			w.Expect(testEnv.Client.Create(t.Context(), lease)).To(Succeed())
			w.start()
			w.CreateTask("compact", v1alpha1.OnDemandCompaction, "")
			job := w.job()
			w.pod(job, corev1.ContainerStateTerminated{Message: `{"snapshot": "a", "revision": "9", "createdOn": "2026-07-01T12:00:00Z"}`})
			w.complete(job)
			done := w.UntilTask("compact", v1alpha1.TaskStateSucceeded)
			w.Expect(done.Status.Result).To(HaveKeyWithValue("revision", "9"))
			w.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(lease), lease)).To(Succeed())
			w.Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal(tc.want)))
			if tc.want == "9" {
				w.Expect(lease.Spec.RenewTime.UTC()).To(Equal(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)))
			}
		})
	}
}

// ownedByEtcd are the owner references of an object of the Etcd.
func (w *world) ownedByEtcd() []metav1.OwnerReference {
	w.T.Helper()
	etcd := &v1alpha1.Etcd{}
	w.Expect(testEnv.Client.Get(w.T.Context(), types.NamespacedName{Namespace: w.Namespace, Name: "main"}, etcd)).To(Succeed())
	return []metav1.OwnerReference{*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))}
}

// A lease of somebody else with the name of the Etcd's is not written to; the task says so.
func TestCompactionIsNotRecordedInAForeignLease(t *testing.T) {
	w := newWorld(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "main-full-snap"}}
	w.Expect(testEnv.Client.Create(t.Context(), lease)).To(Succeed())
	w.start()
	w.CreateTask("compact", v1alpha1.OnDemandCompaction, "")
	job := w.job()
	w.pod(job, corev1.ContainerStateTerminated{Message: `{"snapshot": "a", "revision": "9", "createdOn": "2026-07-01T12:00:00Z"}`})
	w.complete(job)
	done := w.UntilTask("compact", v1alpha1.TaskStateSucceeded)
	w.Expect(meta.FindStatusCondition(done.Status.Conditions, v1alpha1.ConditionSucceeded).Message).To(ContainSubstring("Lease %s/main-full-snap has no controller", w.Namespace))
	now := &coordinationv1.Lease{}
	w.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(lease), now)).To(Succeed())
	w.Expect(now.ResourceVersion).To(Equal(lease.ResourceVersion))
}

// A Job of somebody else with the name of the task's is left alone, and the task says whose it is.
func TestForeignJob(t *testing.T) {
	w := newWorld(t)
	compact := w.CreateTask("compact", v1alpha1.OnDemandCompaction, "")
	others := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: job.Name(compact)},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "web", Image: "web"}},
		}}},
	}
	w.Expect(testEnv.Client.Create(t.Context(), others)).To(Succeed())
	w.start()
	failed := w.UntilTask("compact", v1alpha1.TaskStateFailed)
	w.Expect(failed.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrForeignObject))
	w.Expect(failed.Status.LastErrors[0].Description).To(ContainSubstring("Job %s/%s has no controller", w.Namespace, others.Name))
	now := &batchv1.Job{}
	w.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(others), now)).To(Succeed())
	w.Expect(now.ResourceVersion).To(Equal(others.ResourceVersion))
}

// What a pod says that only has the label of the task's Job is no result of the task.
func TestPodThatTheJobDoesNotControl(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.CreateTask("copy", v1alpha1.CopyBackups, `
sourceStore: {provider: S3, container: b, prefix: p, secretRef: {name: s}}
targetStore: {provider: Local, container: claim, prefix: copies}`)
	job := w.job()
	w.pod(job, corev1.ContainerStateTerminated{Message: `{"copied": 3}`})
	w.labeled(job, corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"})
	w.labeled(job, corev1.ContainerStateTerminated{Message: `{"copied": 1000000}`})
	w.complete(job)
	done := w.UntilTask("copy", v1alpha1.TaskStateSucceeded)
	w.Expect(done.Status.Result).To(HaveKeyWithValue("copied", "3"))
}

// The Job has the resources that the Etcd says.
func TestResourcesOfACompaction(t *testing.T) {
	memory := func(s string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(s)}
	}
	requests := func(memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourceEphemeralStorage: resource.MustParse("0")}
	}
	for _, tc := range []struct {
		name string
		spec *v1alpha1.SnapshotCompactionSpec
		want corev1.ResourceList
	}{
		{"default", nil, requests("128Mi")},
		{"its own", &v1alpha1.SnapshotCompactionSpec{Resources: &corev1.ResourceRequirements{Requests: memory("1Gi")}}, requests("1Gi")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, func(e *v1alpha1.Etcd) { e.Spec.Backup.SnapshotCompaction = tc.spec })
			w.start()
			w.CreateTask("compact", v1alpha1.OnDemandCompaction, "")
			has := w.job().Spec.Template.Spec.Containers[0].Resources
			w.Expect(has.Requests).To(BeComparableTo(tc.want))
			// A quota of 8Gi, a volume of 16Gi.
			w.Expect(has.Limits).To(BeComparableTo(corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse("10Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("35Gi"),
			}))
		})
	}
}

func TestOutOfMemory(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.CreateTask("compact", v1alpha1.OnDemandCompaction, "")
	w.pod(w.job(), corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"})
	failed := w.UntilTask("compact", v1alpha1.TaskStateFailed)
	w.Expect(failed.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrJobOutOfMemory))
	w.Eventually(func(g Gomega) {
		for _, j := range w.Jobs(g) {
			g.Expect(j.DeletionTimestamp).NotTo(BeNil(), "a Job that goes on is stopped")
		}
	}).Should(Succeed())
}

func TestCopyBackups(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.CreateTask("elsewhere", v1alpha1.CopyBackups, `
sourceStore: {provider: S3, container: b, prefix: p, secretRef: {name: s, namespace: kube-system}}
targetStore: {provider: Local, container: claim, prefix: copies}`)
	w.UntilTask("elsewhere", v1alpha1.TaskStateRejected)
	w.Expect(w.Jobs(w)).To(BeEmpty())

	w.CreateTask("copy", v1alpha1.CopyBackups, `
sourceStore: {provider: S3, container: b, prefix: p, secretRef: {name: s}}
targetStore: {provider: Local, container: claim, prefix: copies}`)
	job := w.job()
	w.pod(job, corev1.ContainerStateTerminated{Message: `{"copied": 3, "skipped": 1, "bytes": 1000, "lastRevision": 42}`})
	w.complete(job)
	done := w.UntilTask("copy", v1alpha1.TaskStateSucceeded)
	w.Expect(done.Status.Result).To(HaveKeyWithValue("copied", "3"))
}

func TestNoStore(t *testing.T) {
	w := newWorld(t)
	etcd := &v1alpha1.Etcd{}
	w.Expect(testEnv.Client.Get(t.Context(), types.NamespacedName{Namespace: w.Namespace, Name: "main"}, etcd)).To(Succeed())
	etcd.Spec.Backup = nil
	w.Expect(testEnv.Client.Update(t.Context(), etcd)).To(Succeed())
	w.start()
	w.CreateTask("compact", v1alpha1.OnDemandCompaction, "")
	rejected := w.UntilTask("compact", v1alpha1.TaskStateRejected)
	w.Expect(rejected.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrNoBackup))
}
