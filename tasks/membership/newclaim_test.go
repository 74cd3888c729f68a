// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A claim that was made for a second member is marked when its task ends, or is deleted, before that member has joined: the next task deletes
// it by the mark. What was there before, is not the Etcd's own, or belongs to a member that stays by now, is not marked.
func TestANewClaimIsMarkedWhenItsTaskEnds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*trial, *corev1.PersistentVolumeClaim)
		want   string
	}{
		"its member has not joined": {func(*trial, *corev1.PersistentVolumeClaim) {}, "new"},
		"the Etcd hibernates":       {func(r *trial, _ *corev1.PersistentVolumeClaim) { r.task.Etcd.Spec.Replicas = 0 }, "new"},
		"it is marked": {func(_ *trial, c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{v1alpha1.AnnotationTemporary: "x"}
		}, "x"},
		"the cluster grows":     {func(r *trial, _ *corev1.PersistentVolumeClaim) { r.task.Etcd.Spec.Replicas = 3 }, ""},
		"its member is to stay": {func(r *trial, _ *corev1.PersistentVolumeClaim) { r.task.Object.Status.Membership.Size = 3 }, ""},
		"foreign":               {func(_ *trial, c *corev1.PersistentVolumeClaim) { c.Labels = nil }, ""},
		"older than the task": {func(_ *trial, c *corev1.PersistentVolumeClaim) {
			c.CreationTimestamp = metav1.NewTime(noon.Add(-time.Second))
		}, ""},
		"the Etcd is another one": {func(r *trial, _ *corev1.PersistentVolumeClaim) { r.task.Object.OwnerReferences[0].UID = "earlier" }, ""},
		"none was made":           {func(r *trial, _ *corev1.PersistentVolumeClaim) { r.task.Object.Status.Membership.NewClaim = "" }, ""},
		"nothing is recorded":     {func(r *trial, _ *corev1.PersistentVolumeClaim) { r.task.Object.Status.Membership = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := surging(t, "main-main-0")
			r.task.Object.OwnerReferences, r.task.Object.CreationTimestamp = []metav1.OwnerReference{etcdtasks.Owner(r.task.Etcd)}, metav1.NewTime(noon)
			r.Expect(r.next(0).Membership.NewClaim).To(Equal("main-main-1"))
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "main-main-1", UID: "new", CreationTimestamp: metav1.NewTime(noon), Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"},
			}}
			c.change(r, claim)
			r.Expect(r.api.Update(t.Context(), r.task.Etcd)).To(Succeed())
			r.Expect(r.api.Create(t.Context(), claim)).To(Succeed())
			apitest.EachRequestFails(t, r.api, func(api client.WithWatch) error { return r.with(api).Cleanup(t.Context(), r.task.Task) })
			r.Expect(r.handler.Cleanup(t.Context(), r.task.Task)).To(Succeed())
			r.Expect(r.mark("main-main-1")).To(Equal(c.want))
			r.Expect(r.mark("main-main-0")).To(BeEmpty())
		})
	}
	r := surging(t, "main-main-0")
	r.next(0)
	r.Expect(r.handler.Cleanup(t.Context(), r.task.Task)).To(Succeed(), "the claim is not there yet")
	r.Expect(r.api.Delete(t.Context(), r.task.Etcd)).To(Succeed())
	r.Expect(r.handler.Cleanup(t.Context(), r.task.Task)).To(Succeed(), "the Etcd is gone")
}

// A claim that cannot be marked, since a webhook refuses it, is left behind. It keeps no task from ending.
func TestAMarkThatIsRefused(t *testing.T) {
	r := surging(t, "main-main-0")
	r.task.Object.OwnerReferences, r.task.Object.CreationTimestamp = []metav1.OwnerReference{etcdtasks.Owner(r.task.Etcd)}, metav1.NewTime(noon)
	r.next(0)
	r.Expect(r.api.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "main-main-1", UID: "new", CreationTimestamp: metav1.NewTime(noon), Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"},
	}})).To(Succeed())
	refused := errors.New("the API server is away")
	api := interceptor.NewClient(r.api, interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return refused
	}})
	r.Expect(r.with(api).Cleanup(t.Context(), r.task.Task)).NotTo(Succeed())
	refused = apierrors.NewBadRequest("admission webhook denied the request")
	r.Expect(r.with(api).Cleanup(t.Context(), r.task.Task)).To(Succeed())
}

// A claim that appears while the StatefulSet is already scaled down again goes, although the task never marked it, and is deleted as it was
// observed.
func TestANewClaimThatIsNotNeededGoes(t *testing.T) {
	r := surging(t, "main-main-0")
	r.task.Etcd.Spec.PersistentVolumeClaimRetentionPolicy = nil // claims are kept
	r.Expect(r.next(0).Step.Operation).To(Equal("ScaleUp"))
	rollout := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "rollout"}}
	r.Expect(r.api.Delete(t.Context(), rollout)).To(Succeed())
	r.claim("main-main-1")
	r.Expect(r.settle().Step.Operation).To(Equal("DeleteClaim"))
	r.Expect(r.api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "main-main-1"}, &corev1.PersistentVolumeClaim{})).NotTo(Succeed())
}
