// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package jobs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/job/copyjob"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// startCopies starts an operator that carries out EtcdCopyBackupsTasks.
func (w *world) startCopies() (stop func()) {
	w.T.Helper()
	return w.startOnly(composed.CopyBackupsTasks)
}

// copyTask is the task of a control plane that moves to another seed, as Gardener creates it.
func (w *world) copyTask(change ...func(*v1alpha1.EtcdCopyBackupsTaskSpec)) *v1alpha1.EtcdCopyBackupsTask {
	w.T.Helper()
	return w.copyTaskNamed("moved", change...)
}

func (w *world) copyTaskNamed(name string, change ...func(*v1alpha1.EtcdCopyBackupsTaskSpec)) *v1alpha1.EtcdCopyBackupsTask {
	w.T.Helper()
	store := func(container, secret string) v1alpha1.StoreSpec {
		return v1alpha1.StoreSpec{Provider: "aws", Container: container, Prefix: "shoot--a--b/etcd-main", SecretRef: &v1alpha1.SecretReference{Name: secret}}
	}
	t := &v1alpha1.EtcdCopyBackupsTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
		Spec: v1alpha1.EtcdCopyBackupsTaskSpec{
			SourceStore: store("old", "source-etcd-backup"), TargetStore: store("new", "etcd-backup"),
			PodLabels:            map[string]string{"networking.gardener.cloud/to-dns": "allowed", "team": "a", v1alpha1.LabelManagedBy: "somebody"},
			WaitForFinalSnapshot: &v1alpha1.WaitForFinalSnapshotSpec{Enabled: true, Timeout: &metav1.Duration{Duration: 5 * time.Minute}},
		},
	}
	for _, c := range change {
		c(&t.Spec)
	}
	w.Expect(testEnv.Client.Create(w.T.Context(), t)).To(Succeed())
	return t
}

// untilCopy waits until a task has a condition, and returns it.
func (w *world) untilCopy(task *v1alpha1.EtcdCopyBackupsTask, condition string) *v1alpha1.EtcdCopyBackupsTask {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(context.Background(), client.ObjectKeyFromObject(task), task)).To(Succeed())
		g.Expect(task.Status.Conditions.IsTrue(condition)).To(BeTrue(), "%+v", task.Status)
		g.Expect(task.Status.ObservedGeneration).To(HaveValue(Equal(task.Generation)))
	}).Should(Succeed())
	return task
}

// The task of Gardener's migration: one Job, without an Etcd of that store, also when the operator goes away; and a status as
// etcd-druid writes it.
func TestEtcdCopyBackupsTask(t *testing.T) {
	w := newWorld(t)
	stop := w.startCopies()
	task := w.copyTask()
	job := w.job()
	w.Expect(job.Name).To(Equal("moved-worker"), "etcd-druid finds it, too")
	w.Expect(metav1.IsControlledBy(job, task)).To(BeTrue())
	w.Expect(job.Spec.ActiveDeadlineSeconds).To(HaveValue(Equal(int64(12*3600 + 300))))
	pod := job.Spec.Template
	w.Expect(pod.Labels).To(And(HaveKeyWithValue("team", "a"), HaveKeyWithValue(v1alpha1.LabelNetworkPublic, "allowed"),
		HaveKeyWithValue(v1alpha1.LabelManagedBy, v1alpha1.ManagedBy), HaveKeyWithValue(v1alpha1.LabelPartOf, "moved")))
	w.Expect(pod.Spec.Containers[0].Args).To(ContainElements("copy", "--wait-for-final-snapshot=5m0s", "--store-container=new", "--source-store-container=old"))
	w.Expect(pod.Spec.Volumes).To(ConsistOf(HaveField("Secret.SecretName", "etcd-backup"), HaveField("Secret.SecretName", "source-etcd-backup")))
	w.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(task), task)).To(Succeed())
		g.Expect(task.Status.ObservedGeneration).To(HaveValue(Equal(task.Generation)))
	}).Should(Succeed())
	w.Expect(task.Status.Conditions).To(BeEmpty(), "it is running")
	stop()
	w.startCopies()
	w.pod(job, corev1.ContainerStateTerminated{Message: `{"copied": 3, "lastRevision": 42}`})
	w.complete(job)
	done := w.untilCopy(task, v1alpha1.ConditionCopySucceeded)
	w.Expect(done.Status.Result).To(And(HaveKeyWithValue("copied", "3"), HaveKeyWithValue("lastRevision", "42")))
	w.Expect(done.Status.LastError).To(BeNil())
	w.Expect(done.Status.Conditions[0].LastUpdateTime.IsZero()).To(BeFalse())
	w.Expect(w.Jobs(w)).To(HaveLen(1))
	w.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(task), task)).To(Succeed())
		g.Expect(task.Finalizers).To(BeEmpty(), "nothing keeps a task that has ended")
	}).Should(Succeed())
	w.Expect(testEnv.Client.Delete(t.Context(), task)).To(Succeed())
}

// What waits for the deletion of a task must not find its Job still copying.
func TestATaskThatIsDeletedStopsItsJob(t *testing.T) {
	w := newWorld(t)
	w.startCopies()
	task := w.copyTask(func(s *v1alpha1.EtcdCopyBackupsTaskSpec) { s.WaitForFinalSnapshot.Timeout = nil })
	job := w.job()
	w.Expect(job.Spec.ActiveDeadlineSeconds).To(BeNil(), "it may wait for ever")
	w.Expect(testEnv.Client.Delete(t.Context(), task)).To(Succeed())
	w.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job)).To(Succeed())
		g.Expect(job.DeletionTimestamp).NotTo(BeNil())
		g.Expect(job.Finalizers).To(ContainElement(metav1.FinalizerDeleteDependents), "its pods go first")
	}).Should(Succeed())
	w.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(task), task)).To(Succeed(), "it is kept while the Job exists")
	// No garbage collector is running here.
	job.Finalizers = nil
	w.Expect(testEnv.Client.Update(t.Context(), job)).To(Succeed())
	w.Eventually(func() bool {
		return apierrors.IsNotFound(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	}).Should(BeTrue())
}

// A Job that fails is stopped, and not created again.
func TestACopyThatFails(t *testing.T) {
	w := newWorld(t)
	w.startCopies()
	task := w.copyTask()
	w.pod(w.job(), corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"})
	w.untilCopy(task, v1alpha1.ConditionCopyFailed)
	w.Expect(task.Status.Conditions.Find(v1alpha1.ConditionCopyFailed).Reason).To(Equal(v1alpha1.ReasonOutOfMemory))
	w.Expect(task.Status.Conditions.Find(v1alpha1.ConditionCopyFailed).Message).To(ContainSubstring("OOM-killed"))
	w.Expect(task.Status.LastError).To(BeNil(), "Gardener would go on waiting")
	w.Eventually(func(g Gomega) {
		for _, j := range w.Jobs(g) {
			g.Expect(j.DeletionTimestamp).NotTo(BeNil())
			j.Finalizers = nil
			g.Expect(testEnv.Client.Update(t.Context(), &j)).To(Succeed())
		}
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(task), task)).To(Succeed())
		g.Expect(task.Finalizers).To(BeEmpty())
	}).Should(Succeed())
	w.Expect(w.Jobs(w)).To(BeEmpty())
}

// Secrets of other namespaces, identities of nodes, live backups and endpoints that nobody has allowed are refused, and no Job is
// created. The policy of config/admission refuses the first already.
func TestCopiesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.EtcdCopyBackupsTaskSpec)
		says   string
	}{
		"identity of the node": {func(s *v1alpha1.EtcdCopyBackupsTaskSpec) { s.SourceStore.SecretRef = nil }, "sourceStore has no secretRef"},
		"another endpoint": {func(s *v1alpha1.EtcdCopyBackupsTaskSpec) {
			s.TargetStore.EndpointOverride = ptr.To("https://evil.example.com")
		}, "backup.allowedEndpoints"},
		"live backups": {func(s *v1alpha1.EtcdCopyBackupsTaskSpec) {
			s.TargetStore = v1alpha1.StoreSpec{Provider: "Local", Container: "claim", Prefix: "NAMESPACE/main"}
		}, "overlaps the live backups of Etcd main"},
		"the same place": {func(s *v1alpha1.EtcdCopyBackupsTaskSpec) { s.TargetStore = s.SourceStore }, "the same place"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.startCopies()
			task := w.copyTask(c.change, func(s *v1alpha1.EtcdCopyBackupsTaskSpec) {
				s.TargetStore.Prefix = strings.Replace(s.TargetStore.Prefix, "NAMESPACE", w.Namespace, 1)
			})
			w.untilCopy(task, v1alpha1.ConditionCopyFailed)
			w.Expect(task.Status.Conditions.Find(v1alpha1.ConditionCopyFailed).Message).To(ContainSubstring(c.says))
			w.Expect(task.Status.Conditions.Find(v1alpha1.ConditionCopyFailed).Reason).To(Equal(v1alpha1.ReasonNotAllowed))
			w.Expect(w.Jobs(w)).To(BeEmpty())
		})
	}
	w := newWorld(t)
	elsewhere := &v1alpha1.EtcdCopyBackupsTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "elsewhere"},
		Spec: v1alpha1.EtcdCopyBackupsTaskSpec{
			SourceStore: v1alpha1.StoreSpec{Provider: "aws", Container: "old", Prefix: "a", SecretRef: &v1alpha1.SecretReference{Name: "s", Namespace: "kube-system"}},
			TargetStore: v1alpha1.StoreSpec{Provider: "aws", Container: "new", Prefix: "a", SecretRef: &v1alpha1.SecretReference{Name: "s"}},
		},
	}
	w.Eventually(func() error { return testEnv.Client.Create(t.Context(), elsewhere.DeepCopy(), client.DryRunAll) }).Should(MatchError(ContainSubstring("create the Secret in the namespace of the task")))
}

// A Job of somebody else with the name of the task's is left alone.
func TestAForeignJobOfACopy(t *testing.T) {
	w := newWorld(t)
	others := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "moved-worker"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "web", Image: "web"}},
		}}},
	}
	w.Expect(testEnv.Client.Create(t.Context(), others)).To(Succeed())
	w.startCopies()
	w.untilCopy(w.copyTask(), v1alpha1.ConditionCopyFailed)
	now := &batchv1.Job{}
	w.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(others), now)).To(Succeed())
	w.Expect(now.ResourceVersion).To(Equal(others.ResourceVersion))
}

// The Job of a task that was deleted is removed a moment later than the task. Another task of that name waits for that.
func TestATaskWithTheNameOfAnEarlierOne(t *testing.T) {
	w := newWorld(t)
	w.startCopies()
	earlier := w.copyTask()
	old := w.job()
	w.complete(old)
	w.untilCopy(earlier, v1alpha1.ConditionCopySucceeded)
	w.Eventually(func(g Gomega) {
		g.Expect(client.IgnoreNotFound(testEnv.Client.Delete(t.Context(), earlier))).To(Succeed())
		g.Expect(apierrors.IsNotFound(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(earlier), earlier))).To(BeTrue())
	}).Should(Succeed())
	task := w.copyTask()
	w.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(task), task)).To(Succeed())
		g.Expect(task.Status.LastError).To(HaveValue(ContainSubstring("earlier task of this name")))
	}).Should(Succeed())
	w.Expect(task.HasEnded()).To(BeFalse())
	// No garbage collector is running here.
	w.Expect(testEnv.Client.Delete(t.Context(), old, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	w.Eventually(func(g Gomega) {
		all := w.Jobs(g)
		g.Expect(all).To(HaveLen(1))
		g.Expect(metav1.IsControlledBy(&all[0], task)).To(BeTrue())
	}).Should(Succeed())
}

// A change of the spec does not change a Job that copies already, and the status says so.
func TestAChangedCopy(t *testing.T) {
	w := newWorld(t)
	w.startCopies()
	task := w.copyTask()
	job := w.job()
	w.Eventually(func() error {
		w.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(task), task)).To(Succeed())
		task.Spec.MaxBackups = ptr.To(uint32(1))
		return testEnv.Client.Update(t.Context(), task)
	}).Should(Succeed())
	w.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(task), task)).To(Succeed())
		g.Expect(task.Status.LastError).To(HaveValue(ContainSubstring("create another task")))
	}).Should(Succeed())
	w.Expect(w.Jobs(w)).To(ConsistOf(HaveField("UID", job.UID)))
}

// Of many tasks in a namespace a few run at once, the others say what they wait for, and take their turn.
func TestCopiesTakeTurns(t *testing.T) {
	w := newWorld(t)
	w.startCopies()
	var all []*v1alpha1.EtcdCopyBackupsTask
	for i := range copyjob.MaxInNamespace + 2 {
		task := w.copyTaskNamed(fmt.Sprint("moved-", i))
		all = append(all, task)
	}
	waiting := func(g Gomega) (n int) {
		for _, task := range all {
			g.Expect(testEnv.Client.Get(context.Background(), client.ObjectKeyFromObject(task), task)).To(Succeed())
			if strings.Contains(ptr.Deref(task.Status.LastError, ""), "at most 5 copies of backups run at once in a namespace") {
				n++
			}
		}
		return n
	}
	w.Eventually(func(g Gomega) {
		g.Expect(w.Jobs(g)).To(HaveLen(copyjob.MaxInNamespace))
		g.Expect(waiting(g)).To(Equal(2))
	}).Should(Succeed())
	first := w.Jobs(w)[0]
	w.complete(&first)
	w.Eventually(func(g Gomega) {
		g.Expect(waiting(g)).To(Equal(1))
		g.Expect(w.Jobs(g)).To(HaveLen(copyjob.MaxInNamespace + 1))
	}).Should(Succeed())
}
