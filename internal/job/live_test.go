// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server has at most one Job, and pods. It notes by which UID a Job is deleted.
type server struct {
	client.Client
	job     *batchv1.Job
	pods    []corev1.Pod
	deleted []types.UID
}

func (s *server) Get(_ context.Context, key types.NamespacedName, into client.Object, _ ...client.GetOption) error {
	if s.job == nil || s.job.Name != key.Name {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	s.job.DeepCopyInto(into.(*batchv1.Job))
	return nil
}

func (s *server) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*corev1.PodList).Items = s.pods
	return nil
}

func (s *server) Delete(_ context.Context, _ client.Object, options ...client.DeleteOption) error {
	o := (&client.DeleteOptions{}).ApplyOptions(options)
	s.deleted = append(s.deleted, *o.Preconditions.UID)
	return nil
}

var etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd-main", UID: "etcd"}}

func jobOf(controller types.UID) *batchv1.Job {
	owner := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main", UID: controller}}
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "j", UID: "job", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
	}}
}

// Only a Job of the owner is found, and only that is removed, whatever has its name.
func TestJobsOfOthersAreLeftAlone(t *testing.T) {
	going := jobOf("etcd")
	going.DeletionTimestamp = &metav1.Time{}
	orphan := jobOf("etcd")
	orphan.OwnerReferences = nil
	for name, c := range map[string]struct {
		job     *batchv1.Job
		found   bool
		foreign bool
		deleted []types.UID
	}{
		"none":          {nil, false, false, nil},
		"its own":       {jobOf("etcd"), true, false, []types.UID{"job"}},
		"going already": {going, true, false, nil},
		"somebody's":    {jobOf("other"), false, true, nil},
		"nobody's":      {orphan, false, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &server{job: c.job}
			key := client.ObjectKey{Namespace: "ns", Name: "j"}
			found, foreign, err := Find(t.Context(), s, etcd, key)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found != nil).To(Equal(c.found))
			g.Expect(foreign != nil).To(Equal(c.foreign))
			g.Expect(Remove(t.Context(), s, s, etcd, key)).To(Succeed())
			g.Expect(s.deleted).To(Equal(c.deleted))
		})
	}
}

// The pods of a Job are those that it controls.
func TestPods(t *testing.T) {
	g := NewWithT(t)
	j := jobOf("etcd")
	pod := func(name string, owners ...metav1.OwnerReference) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
	}
	earlier := j.DeepCopy()
	earlier.UID = "earlier"
	kind := batchv1.SchemeGroupVersion.WithKind("Job")
	s := &server{pods: []corev1.Pod{pod("nobody's"), pod("its own", *metav1.NewControllerRef(j, kind)), pod("of an earlier one", *metav1.NewControllerRef(earlier, kind))}}
	pods, err := Pods(t.Context(), s, j)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pods).To(ConsistOf(HaveField("Name", "its own")))
}
