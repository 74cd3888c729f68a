// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// endsForGardener reports what Gardener waits for: it goes on waiting while there is a lastError, and then looks for a condition.
func endsForGardener(task *v1alpha1.EtcdCopyBackupsTask) bool {
	s := task.Status
	return task.DeletionTimestamp == nil && s.ObservedGeneration != nil && *s.ObservedGeneration == task.Generation && s.LastError == nil &&
		(s.Conditions.IsTrue(v1alpha1.ConditionCopySucceeded) || s.Conditions.IsTrue(v1alpha1.ConditionCopyFailed))
}

// Gardener sees each end of a task as such, whatever was wrong before, and the condition says what happened.
func TestGardenerSeesEachEnd(t *testing.T) {
	ended := func(of batchv1.JobConditionType) *batchv1.Job {
		return &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: of, Status: corev1.ConditionTrue}}}}
	}
	for name, tc := range map[string]struct {
		// job of the task, made for a generation; nil for none.
		job     *batchv1.Job
		madeFor string
		change  func(*v1alpha1.EtcdCopyBackupsTask)
		ends    bool
		want    string
		says    string
	}{
		"it is running":                      {job: &batchv1.Job{}, madeFor: "2"},
		"it is running, and was changed":     {job: &batchv1.Job{}, madeFor: "1"},
		"it has succeeded":                   {job: ended(batchv1.JobComplete), madeFor: "2", ends: true, want: v1alpha1.ConditionCopySucceeded},
		"it has succeeded, and was changed":  {job: ended(batchv1.JobComplete), madeFor: "1", ends: true, want: v1alpha1.ConditionCopySucceeded, says: "create another task"},
		"its Job has failed":                 {job: ended(batchv1.JobFailed), madeFor: "2", ends: true, want: v1alpha1.ConditionCopyFailed},
		"its Job has failed, and it changed": {job: ended(batchv1.JobFailed), madeFor: "1", ends: true, want: v1alpha1.ConditionCopyFailed, says: "create another task"},
		"it is refused": {change: func(task *v1alpha1.EtcdCopyBackupsTask) { task.Spec.TargetStore = task.Spec.SourceStore },
			ends: true, want: v1alpha1.ConditionCopyFailed, says: "the same place"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			secret := &v1alpha1.SecretReference{Name: "s"}
			task := &v1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "moved", UID: "task", Generation: 2}}
			task.Spec.SourceStore = v1alpha1.StoreSpec{Provider: "S3", Container: "old", Prefix: "a", SecretRef: secret}
			task.Spec.TargetStore = v1alpha1.StoreSpec{Provider: "S3", Container: "new", Prefix: "a", SecretRef: secret}
			task.Status.LastError = ptr.To("the API server did not answer")
			if tc.change != nil {
				tc.change(task)
			}
			objects := []client.Object{task}
			if tc.job != nil {
				tc.job.ObjectMeta = metav1.ObjectMeta{
					Namespace: "ns", Name: "moved-worker", UID: "job", CreationTimestamp: metav1.NewTime(noon), Annotations: map[string]string{v1alpha1.AnnotationJobSubject: tc.madeFor},
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(task, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcdCopyBackupsTask))},
				}
				objects = append(objects, tc.job)
			}
			scheme := runtime.NewScheme()
			g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
			g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(task).Build()
			r := &Reconciler{Client: api, Live: api, Clock: clocktesting.NewFakePassiveClock(noon)}
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(task)})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(task), task)).To(Succeed())
			g.Expect(endsForGardener(task)).To(Equal(tc.ends), "%+v", task.Status)
			if tc.ends {
				g.Expect(task.Status.Conditions.IsTrue(tc.want)).To(BeTrue())
				g.Expect(task.Status.Conditions.Find(tc.want).Message).To(ContainSubstring(tc.says))
			}
		})
	}
}
