// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var apiextensions = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// previous returns an older chart, whose CRD of tasks is in no category.
func previous(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.CopyFS(dir, os.DirFS(path))).To(Succeed())
	for file, change := range map[string][2]string{
		"Chart.yaml": {"version: 0.0.0-dev", "version: 0.0.0-older"},
		"files/crd/druid.gardener.cloud_etcdoperatortasks.yaml": {"    categories:\n    - all\n", ""},
	} {
		at := filepath.Join(dir, file)
		data, err := os.ReadFile(at)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(data)).To(ContainSubstring(change[0]))
		g.Expect(os.WriteFile(at, []byte(strings.Replace(string(data), change[0], change[1], 1)), 0o600)).To(Succeed())
	}
	return dir
}

// The life of an installation. Whatever happens to the chart, CRDs, Etcds, tasks, pods and claims stay.
func TestInstallUpgradeRollbackUninstall(t *testing.T) {
	g := machine.Gomega(t)
	h, c := newHelm(t), testEnv.Client
	categories := func() []string {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(apiextensions)
		g.Expect(c.Get(t.Context(), client.ObjectKey{Name: "etcdoperatortasks.druid.gardener.cloud"}, crd)).To(Succeed())
		found, _, err := unstructured.NestedStringSlice(crd.Object, "spec", "names", "categories")
		g.Expect(err).NotTo(HaveOccurred())
		return found
	}
	h.run("install", "etcd-foreman", previous(t), "--namespace="+system, "--create-namespace")
	g.Expect(categories()).To(BeEmpty())

	kept := tenant(t, g)
	before := uids(t, g, kept)
	// What the operator writes.
	secret := &corev1.Secret{}
	keyOf := client.ObjectKey{Namespace: system, Name: "etcd-foreman-signing-key"}
	g.Expect(c.Get(t.Context(), keyOf, secret)).To(Succeed())
	secret.Data = map[string][]byte{"ed25519.seed": []byte("seed")}
	g.Expect(c.Update(t.Context(), secret)).To(Succeed())

	h.run("upgrade", "etcd-foreman", path, "--namespace="+system, "--reset-then-reuse-values")
	g.Expect(categories()).To(ConsistOf("all"), "CRDs are upgraded")
	g.Expect(c.Get(t.Context(), keyOf, secret)).To(Succeed())
	g.Expect(secret.Data).To(HaveKeyWithValue("ed25519.seed", []byte("seed")), "the key of the operator is kept")
	h.run("upgrade", "etcd-foreman", previous(t), "--namespace="+system, "--set=crds.install=false")
	g.Expect(categories()).To(ConsistOf("all"), "CRDs are kept where the chart no longer has them")
	h.run("rollback", "etcd-foreman", "1", "--namespace="+system)
	g.Expect(categories()).To(BeEmpty(), "CRDs are rolled back")
	g.Expect(uids(t, g, kept)).To(Equal(before))

	h.run("uninstall", "etcd-foreman", "--namespace="+system)
	for _, o := range []client.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "etcd-foreman"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "etcd-foreman"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "etcd-foreman"}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "etcd-foreman"}},
	} {
		g.Eventually(func() bool { return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(o), o)) }).Should(BeTrue(), "%T", o)
	}
	g.Expect(uids(t, g, kept)).To(Equal(before))

	h.run("install", "etcd-foreman", path, "--namespace="+system)
	g.Expect(categories()).To(ConsistOf("all"))
	h.run("uninstall", "etcd-foreman", "--namespace="+system)
	_, err := h.try("install", "other", path, "--namespace="+system)
	g.Expect(err).To(MatchError(ContainSubstring("cannot be imported into the current release")))
	h.run("install", "other", path, "--namespace="+system, "--take-ownership")
	g.Expect(uids(t, g, kept)).To(Equal(before))

	// Its rights are the operator's where the chart says so, and only there.
	h.run("upgrade", "other", path, "--namespace="+system, "--set-json", `namespaces=["tenant"]`)
	reviews := kubernetes.NewForConfigOrDie(testEnv.AsOperator()).AuthorizationV1().SelfSubjectAccessReviews()
	g.Eventually(func(g Gomega) {
		for namespace, want := range map[string]bool{"tenant": true, "": false, metav1.NamespaceDefault: false} {
			review, err := reviews.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: namespace, Name: "any"},
			}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(review.Status.Allowed).To(Equal(want), "Secrets of namespace %q", namespace)
		}
	}).Should(Succeed())
	h.run("uninstall", "other", "--namespace="+system)
	g.Expect(uids(t, g, kept)).To(Equal(before))
}

// tenant creates what belongs to an Etcd, and returns it and the CRDs.
func tenant(t *testing.T, g Gomega) []client.Object {
	t.Helper()
	g.Expect(testEnv.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}})).To(Succeed())
	at := metav1.ObjectMeta{Namespace: "tenant", Name: "etcd-main"}
	objects := []client.Object{
		&v1alpha1.Etcd{ObjectMeta: at, Spec: v1alpha1.EtcdSpec{Replicas: 1}},
		&v1alpha1.EtcdOperatorTask{ObjectMeta: at, Spec: v1alpha1.EtcdOperatorTaskSpec{
			Type: v1alpha1.QuorumAwareRollout, OwnerEtcdReference: v1alpha1.EtcdReference{Name: at.Name},
		}},
		&corev1.PersistentVolumeClaim{ObjectMeta: at, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
		&corev1.Pod{ObjectMeta: at, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: "localhost/etcd:v1"}}}},
	}
	for _, o := range objects {
		// The API server serves a new CRD, and admits pods without a token, a moment later.
		g.Eventually(func() error { return testEnv.Client.Create(t.Context(), o) }).Should(Succeed(), "%T", o)
	}
	for _, name := range []string{"etcds", "etcdoperatortasks"} {
		crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name + ".druid.gardener.cloud"}}
		crd.SetGroupVersionKind(apiextensions)
		objects = append(objects, crd)
	}
	return objects
}

// uids returns the UIDs of objects, none of which is being deleted.
func uids(t *testing.T, g Gomega, objects []client.Object) []types.UID {
	t.Helper()
	var all []types.UID
	for _, o := range objects {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed(), "%T %s", o, o.GetName())
		g.Expect(o.GetDeletionTimestamp()).To(BeNil(), "%T %s", o, o.GetName())
		all = append(all, o.GetUID())
	}
	return all
}
