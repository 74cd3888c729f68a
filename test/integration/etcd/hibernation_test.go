// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func hibernatesWithoutVolumes(e *v1alpha1.Etcd) {
	e.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
	e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
}

// untilJobs waits for n Jobs of a component and returns them sorted by name.
func (w *world) untilJobs(component string, n int) (jobs []batchv1.Job) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		jobs = w.Jobs(g, component)
		g.Expect(jobs).To(HaveLen(n))
	}).Should(Succeed())
	return jobs
}

// end finishes a Job as the Job controller and the agent do.
func (w *world) end(j *batchv1.Job, succeeds bool, result any) {
	w.T.Helper()
	message, err := json.Marshal(result)
	w.Expect(err).NotTo(HaveOccurred())
	ended := corev1.ContainerStateTerminated{Message: string(message)}
	j.Status = env.Succeeded()
	if !succeeds {
		now := metav1.Now()
		ended.ExitCode = 1
		j.Status = batchv1.JobStatus{StartTime: &now, Failed: 1, Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "BackoffLimitExceeded"},
			{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "BackoffLimitExceeded"},
		}}
	}
	p, status := env.PodOf(j, fmt.Sprintf("%s-%.5s", j.Name, j.UID), ended)
	w.Kubelet.Set(p.Name, env.Lost)
	w.T.Cleanup(func() { w.release(p.Name) })
	p.Finalizers = []string{"test.etcd-foreman/kubelet"}
	w.Create(p)
	p.Status = status
	w.Expect(testEnv.Client.Status().Update(w.T.Context(), p)).To(Succeed())
	w.Expect(testEnv.Client.Status().Update(w.T.Context(), j)).To(Succeed())
	w.ended = append(w.ended, p.Name)
}

// letGo releases the deleted pods of finished Jobs.
func (w *world) letGo() {
	for _, name := range w.ended {
		p := &corev1.Pod{}
		if err := testEnv.Client.Get(context.Background(), w.Key(name), p); err == nil && p.DeletionTimestamp != nil {
			w.release(name)
		}
	}
}

// release removes the finalizers of a pod.
func (w *world) release(name string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
	// The pod may be gone already.
	_ = testEnv.Client.Patch(context.Background(), p, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
}

// surveyed returns the survey that the agent reports for the volume of a member.
func surveyed(clusterID string, i int) member.Survey {
	return member.Survey{State: member.SurveyPresent, ClusterID: clusterID, MemberID: fmt.Sprint(i), Voters: []string{"0", "1", "2"}, LastTerm: 2, LastIndex: uint64(100 + i), Revision: 40}
}

func (w *world) hibernated(g Gomega, status metav1.ConditionStatus, reason string) {
	c := w.condition(g, v1alpha1.ConditionHibernated)
	g.Expect(c.Reason).To(Equal(reason), c.Message)
	g.Expect(c.Status).To(Equal(status), c.Message)
}

// finish removes the finalizers of deleted claims, as the PVC protection controller does.
func (w *world) finish(g Gomega) {
	for i := range 3 {
		claim := &corev1.PersistentVolumeClaim{}
		err := testEnv.Client.Get(context.Background(), w.Key(fmt.Sprintf("%s-%s", name, pod(i))), claim)
		if apierrors.IsNotFound(err) {
			continue
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(claim.DeletionTimestamp).NotTo(BeNil())
		claim.Finalizers = nil
		g.Expect(testEnv.Client.Update(context.Background(), claim)).To(Succeed())
	}
}

// The cluster hibernates without volumes and wakes up. A new operator, without memory of the previous one, takes every step.
func TestHibernationWithoutVolumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, hibernatesWithoutVolumes)
	o := w.start()
	another := func() { o.stop(); o = w.start() }
	w.eventuallyWell()
	w.bind(3)
	id := w.Etcd.Status.ClusterID
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for i := range 3 {
		claims[pod(i)] = w.claim(w, i)
	}
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })

	surveys := w.untilJobs(v1alpha1.ComponentSurveyJob, 3)
	w.Expect(w.StatefulSet(w).Status.Replicas).To(BeZero(), "no volume is surveyed before all members have stopped")
	w.Expect(w.Jobs(w, v1alpha1.ComponentFinalSnapshotJob)).To(BeEmpty())
	another()
	for i := range surveys {
		w.Expect(metav1.IsControlledBy(&surveys[i], w.Etcd)).To(BeTrue())
		w.Expect(surveys[i].Spec.Template.Spec.Containers[0].VolumeMounts[0].ReadOnly).To(BeTrue())
		w.end(&surveys[i], true, surveyed(id, i))
	}

	final := w.untilJobs(v1alpha1.ComponentFinalSnapshotJob, 1)
	another()
	agent := final[0].Spec.Template.Spec.Containers[0]
	w.Expect(agent.Args).To(ContainElements("final-snapshot", "--cluster-id="+id, "--store-prefix="+w.Namespace+"/"+name, "--work-dir=/var/etcd/work"))
	w.Expect(final[0].Spec.Template.Spec.Volumes).To(ContainElement(HaveField("PersistentVolumeClaim", HaveField("ClaimName", fmt.Sprintf("%s-%s", name, pod(2))))), "the final snapshot is taken of the most advanced member")
	for i := range 3 {
		w.Expect(w.claim(w, i).DeletionTimestamp).To(BeNil())
	}
	w.Expect(w.Status(w).Hibernation).To(BeNil())
	w.end(&final[0], true, map[string]string{"snapshot": "a/v2/Full-00000000-00000042-1.gz.final", "revision": "42"})

	w.Eventually(func(g Gomega) { g.Expect(w.Status(g).Hibernation).NotTo(BeNil()) }).Should(Succeed())
	another()
	record := w.Etcd.Status.Hibernation
	w.Expect(record.Revision).To(Equal(int64(42)))
	w.Expect(record.ClusterID).To(Equal(id))
	w.Expect(record.ID).To(Equal(final[0].UID))
	w.Expect(record.Claims).To(HaveLen(3))
	for i := range 3 {
		w.Expect(record.Claims[i].UID).To(Equal(claims[pod(i)].UID))
	}
	// A wake-up now waits until the last claim is gone.
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	w.nudge(o)
	w.Eventually(func(g Gomega) { w.hibernated(g, metav1.ConditionFalse, v1alpha1.ReasonWakingUp) }).Should(Succeed())
	w.Expect(w.StatefulSet(w).Spec.Replicas).To(HaveValue(BeZero()))
	w.Expect(w.Status(w).Recovery).To(BeNil())
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })

	w.Eventually(func(g Gomega) {
		w.letGo()
		w.finish(g)
		w.hibernated(g, metav1.ConditionTrue, v1alpha1.ReasonHibernated)
		g.Expect(w.Jobs(g, v1alpha1.ComponentSurveyJob)).To(BeEmpty())
		g.Expect(w.Jobs(g, v1alpha1.ComponentFinalSnapshotJob)).To(BeEmpty())
		// The generation counts as observed once the StatefulSet controller has seen its part.
		g.Expect(w.Status(g).ObservedGeneration).To(Equal(w.Etcd.Generation))
	}).Should(Succeed())
	w.Expect(w.Status(w).Hibernation).To(Equal(record), "the record does not change")
	w.writesNothing(o)

	another()
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	w.Eventually(func(g Gomega) {
		g.Expect(w.StatefulSet(g).Spec.Replicas).To(HaveValue(Equal(int32(3))))
		config := &corev1.ConfigMap{}
		w.Get(g, name+"-config", config)
		recovery, err := member.ParseRecovery([]byte(config.Data[member.KeyRecovery]))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(recovery).To(Equal(&member.Recovery{Task: string(record.ID), Member: pod(0), Source: member.RecoverFromBackup, PreviousClusterID: id, Revision: 42}))
	}).Should(Succeed())
	another()
	w.Eventually(func(g Gomega) { w.hibernated(g, metav1.ConditionFalse, v1alpha1.ReasonWakingUp) }).Should(Succeed())
	config := &corev1.ConfigMap{}
	w.Get(w, name+"-config", config)
	shared, err := member.ParseShared(config.Data)
	w.Expect(err).NotTo(HaveOccurred())
	w.Members.Rebuild(shared.RecoveredID())
	w.eventuallyWell()
	w.Eventually(func(g Gomega) {
		status := w.Status(g)
		g.Expect(status.ClusterID).NotTo(Equal(id))
		g.Expect(status.Hibernation).To(BeNil())
		g.Expect(status.Recovery).To(BeNil())
		g.Expect(status.Conditions.Find(v1alpha1.ConditionHibernated)).To(BeNil())
	}).Should(Succeed())
	for i := range 3 {
		w.Expect(w.claim(w, i).UID).NotTo(Equal(claims[pod(i)].UID))
		w.Expect(w.claim(w, i).DeletionTimestamp).To(BeNil())
	}
}

// The final snapshot fails: no volume is deleted. Waking up, or keeping the volumes, brings the cluster back as it was
// once no Job is left that could still write a snapshot.
func TestHibernationWithAFailingStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, hibernatesWithoutVolumes)
	w.start()
	w.eventuallyWell()
	w.bind(3)
	id := w.Etcd.Status.ClusterID
	fall := func() {
		w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
		surveys := w.untilJobs(v1alpha1.ComponentSurveyJob, 3)
		for i := range surveys {
			w.end(&surveys[i], true, surveyed(id, i))
		}
		final := w.untilJobs(v1alpha1.ComponentFinalSnapshotJob, 1)
		w.end(&final[0], false, map[string]string{"error": "no such bucket"})
		w.Eventually(func(g Gomega) {
			w.hibernated(g, metav1.ConditionFalse, v1alpha1.ReasonNoFinalSnapshot)
			g.Expect(w.condition(g, v1alpha1.ConditionHibernated).Message).To(And(ContainSubstring("no such bucket"), ContainSubstring("the volumes are kept")))
		}).Should(Succeed())
	}
	untouched := func() {
		w.T.Helper()
		for i := range 3 {
			w.Expect(w.claim(w, i).DeletionTimestamp).To(BeNil())
		}
		w.Expect(w.Status(w).Hibernation).To(BeNil())
	}

	fall()
	untouched()
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	w.Eventually(func(g Gomega) {
		g.Expect(w.Jobs(g, v1alpha1.ComponentFinalSnapshotJob)).To(HaveEach(HaveField("DeletionTimestamp", Not(BeNil()))))
		g.Expect(w.Jobs(g, v1alpha1.ComponentFinalSnapshotJob)).NotTo(BeEmpty())
	}).Should(Succeed())
	w.Expect(w.StatefulSet(w).Spec.Replicas).To(HaveValue(BeZero()), "a pod of a Job still exists")
	w.Eventually(func(g Gomega) {
		w.letGo()
		g.Expect(w.StatefulSet(g).Spec.Replicas).To(HaveValue(Equal(int32(3))))
	}).Should(Succeed())
	w.eventuallyWell()
	untouched()

	fall()
	w.Change(func(e *v1alpha1.Etcd) {
		e.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = v1alpha1.VolumesRetained
	})
	w.Eventually(func(g Gomega) {
		w.letGo()
		w.hibernated(g, metav1.ConditionTrue, v1alpha1.ReasonHibernated)
		g.Expect(w.Jobs(g, v1alpha1.ComponentSurveyJob)).To(BeEmpty())
	}).Should(Succeed())
	untouched()
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	w.eventuallyWell()
}

// While snapshots fail, the final one would fail too: the cluster is kept running, and hibernates once they succeed.
func TestHibernationWhileBackupsFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, hibernatesWithoutVolumes)
	w.start()
	w.eventuallyWell()
	w.bind(1)
	backups := func(failure string) {
		lease := &coordinationv1.Lease{}
		w.Get(w, name+"-full-snap", lease)
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationBackupError, failure)
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		w.Expect(testEnv.Client.Update(t.Context(), lease)).To(Succeed())
	}
	backups("no space left")
	w.Change(annotate("test/reconcile", "1"))
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionBackupReady).Reason).To(Equal(v1alpha1.ReasonBackupFailed))
	}).Should(Succeed())
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	w.Eventually(func(g Gomega) {
		w.hibernated(g, metav1.ConditionFalse, v1alpha1.ReasonNoFinalSnapshot)
		g.Expect(w.condition(g, v1alpha1.ConditionHibernated).Message).To(And(ContainSubstring("is kept running"), ContainSubstring("no space left")))
	}).Should(Succeed())
	w.Expect(w.StatefulSet(w).Spec.Replicas).To(HaveValue(Equal(int32(1))))
	w.Expect(w.Status(w).ObservedGeneration).To(BeNumerically("<", w.Etcd.Generation), "the hibernation is not carried out")
	backups("")
	w.untilJobs(v1alpha1.ComponentSurveyJob, 1)
	w.Expect(w.StatefulSet(w).Spec.Replicas).To(HaveValue(BeZero()))
}
