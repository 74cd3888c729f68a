//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Job that cannot do its work fails its task with an error that names the obstacle.
func TestJobsThatCannotWork(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// prepare creates the obstacle and returns the claim of the source.
		prepare func(*cluster, *v1alpha1.Etcd) string
		code    v1alpha1.ErrorCode
		says    string
	}{
		"image": {
			func(_ *cluster, e *v1alpha1.Etcd) string {
				e.Spec.Backup = &v1alpha1.BackupSpec{Image: ptr.To("localhost/no-such-agent:v1")}
				return "source"
			},
			v1alpha1.ErrJobImage, "cannot get image localhost/no-such-agent:v1",
		},
		"node": {
			func(*cluster, *v1alpha1.Etcd) string { return "no-such-claim" },
			v1alpha1.ErrJobNotStarted, `cannot be scheduled: .*persistentvolumeclaim "no-such-claim" not found`,
		},
		"memory": {
			func(c *cluster, _ *v1alpha1.Etcd) string { c.limitMemory(); return "source" },
			v1alpha1.ErrJobOutOfMemory, "it needs more memory than its limit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newEmptyCluster(t)
			c.store("source")
			etcd := c.newEtcd(1)
			// A copy needs no member, and this Etcd has none.
			etcd.Annotations = map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""}
			claim := test.prepare(c, etcd)
			if etcd.Spec.Backup == nil {
				etcd.Spec.Backup = &v1alpha1.BackupSpec{}
			}
			etcd.Spec.Backup.Store = &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: claim, Prefix: "a/main"}
			c.create(etcd)
			task := c.task("copy", fmt.Sprintf("{sourceStore: {provider: Local, container: %[1]s, prefix: a/main}, targetStore: {provider: Local, container: %[1]s, prefix: copies}}", claim))
			task.Spec.Type = v1alpha1.CopyBackups
			c.create(task)
			failed := c.untilTask("copy", inState(v1alpha1.TaskStateFailed))
			took := failed.Status.CompletedAt.Sub(failed.Status.InitiatedAt.Time)
			t.Logf("after %s: %+v", took, failed.Status.LastErrors)
			c.Expect(failed.Status.LastErrors[0].Code).To(Equal(test.code))
			c.Expect(failed.Status.LastErrors[0].Description).To(MatchRegexp(test.says))
		})
	}
}

// limitMemory limits the pods of the cluster's namespace to less memory than an agent needs.
func (c *cluster) limitMemory() {
	c.t.Helper()
	const limit = "8Mi"
	meta := metav1.ObjectMeta{Name: c.namespace}
	policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.MutatingAdmissionPolicySpec{
		ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.namespace}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}},
		},
		Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{
			Expression: fmt.Sprintf(`[JSONPatch{op: "replace", path: "/spec/containers/0/resources", value: {"limits": {"memory": %[1]q}, "requests": {"memory": %[1]q}}}]`, limit),
		}}},
	}}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name}}
	for _, o := range []client.Object{policy, binding} {
		// Left over by an interrupted run.
		c.Expect(client.IgnoreNotFound(kube.Delete(c.t.Context(), o))).To(Succeed())
		c.create(o)
		c.t.Cleanup(func() { _ = kube.Delete(context.Background(), o) })
	}
	// It is in force once it changes a pod.
	c.Eventually(func(g Gomega) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "probe"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "localhost/none:v1"}}},
		}
		g.Expect(kube.Create(context.Background(), pod, client.DryRunAll)).To(Succeed())
		g.Expect(pod.Spec.Containers[0].Resources.Limits.Memory().String()).To(Equal(limit))
	}).Should(Succeed())
}
