// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package operator tests the operator's program, with its configuration and its rights, against a real API server.
package operator

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, &testEnv, env.WithRoles(), env.WithAdmissionPlugins("OwnerReferencesPermissionEnforcement")))
}

const (
	name     = "etcd-main"
	operator = "etcd-foreman"
)

// The operator looks after Etcds in the namespaces that it was told of, and leaves those in others alone, whether or
// not it had the right to touch them.
func TestNamespaces(t *testing.T) {
	for _, tc := range []struct {
		name   string
		rights func(t *testing.T, g Gomega, watched []string)
	}{
		{"with rights everywhere", func(*testing.T, Gomega, []string) {}},
		{"with rights in these namespaces alone", bindIn},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := machine.Gomega(t)
			g.SetDefaultConsistentlyDuration(2 * time.Second)
			watched, outside := []string{testEnv.Namespace(t), testEnv.Namespace(t)}, testEnv.Namespace(t)
			tc.rights(t, g, watched)
			before := create(t, g, outside)
			for _, namespace := range watched {
				create(t, g, namespace)
			}
			start(t, watched)
			for _, namespace := range watched {
				g.Eventually(func(g Gomega) {
					found := look(t, g, namespace)
					g.Expect(found.objects).NotTo(BeZero())
					g.Expect(found.etcd.Status.LastOperation).NotTo(BeNil())
					g.Expect(found.task.Status.State).To(Equal(v1alpha1.TaskStatePending))
				}).Should(Succeed())
			}
			g.Consistently(func(g Gomega) { g.Expect(look(t, g, outside)).To(Equal(before)) }).Should(Succeed())
		})
	}
}

// The operator keeps its key in the Secret that was installed for it, as far as its rights go, and agents learn the same
// key from the next one.
func TestSigningKey(t *testing.T) {
	g := machine.Gomega(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "etcd-foreman-system", Name: "etcd-foreman-signing-key"}}
	g.Expect(testEnv.Client.Create(t.Context(), secret)).To(Succeed())
	t.Cleanup(func() { g.Expect(testEnv.Client.Delete(context.Background(), secret)).To(Succeed()) })
	var keys []string
	for _, operator := range []string{"the first operator", "the next one"} {
		t.Run(operator, func(t *testing.T) {
			namespace := testEnv.Namespace(t)
			bind(t, g, namespace)
			create(t, g, namespace)
			start(t, []string{namespace})
			g.Eventually(func(g Gomega) {
				config := &corev1.ConfigMap{}
				g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name + "-config"}, config)).To(Succeed())
				trust, err := auth.ParseTrust([]byte(config.Data[member.KeyAgentAPI]))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(trust.AllowUnauthenticated).To(BeFalse())
				keys = append(keys, string(trust.PublicKey))
			}).Should(Succeed())
		})
	}
	g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	public := ed25519.NewKeyFromSeed(secret.Data["ed25519.seed"]).Public().(ed25519.PublicKey)
	g.Expect(keys).To(ConsistOf(string(public), string(public)))
}

// found is what there is in a namespace.
type found struct {
	etcd v1alpha1.Etcd
	task v1alpha1.EtcdOperatorTask
	// objects is how many of an Etcd there are.
	objects int
}

// create makes an Etcd, and a task that does nothing, in a namespace.
func create(t *testing.T, g Gomega, namespace string) found {
	t.Helper()
	at := metav1.ObjectMeta{Namespace: namespace, Name: name}
	g.Expect(testEnv.Client.Create(t.Context(), &v1alpha1.Etcd{ObjectMeta: at, Spec: v1alpha1.EtcdSpec{Replicas: 1}})).To(Succeed())
	g.Expect(testEnv.Client.Create(t.Context(), &v1alpha1.EtcdOperatorTask{ObjectMeta: at, Spec: v1alpha1.EtcdOperatorTaskSpec{
		Type: v1alpha1.OnDemandMaintenance, Config: "etcdDefragmentation: true", Suspend: true, OwnerEtcdReference: v1alpha1.EtcdReference{Name: name},
	}})).To(Succeed())
	return look(t, g, namespace)
}

func look(t *testing.T, g Gomega, namespace string) found {
	var f found
	key := client.ObjectKey{Namespace: namespace, Name: name}
	g.Expect(testEnv.Client.Get(t.Context(), key, &f.etcd)).To(Succeed())
	g.Expect(testEnv.Client.Get(t.Context(), key, &f.task)).To(Succeed())
	for _, list := range []client.ObjectList{&appsv1.StatefulSetList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}} {
		g.Expect(testEnv.Client.List(t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})).To(Succeed())
		f.objects += meta.LenList(list)
	}
	return f
}

// bindIn takes the operator's rights away everywhere but in some namespaces. What is in none, it may still read.
func bindIn(t *testing.T, g Gomega, namespaces []string) {
	t.Helper()
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "etcd-foreman-system", Name: operator}}
	everywhere := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: operator}}
	g.Expect(testEnv.Client.Delete(t.Context(), everywhere)).To(Succeed())
	outOfNamespaces := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: operator + "-cluster"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"nodes", "persistentvolumes"}},
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}},
		{Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}},
		{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}},
	}}
	g.Expect(testEnv.Client.Create(t.Context(), outOfNamespaces)).To(Succeed())
	g.Expect(testEnv.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: outOfNamespaces.Name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: outOfNamespaces.Name},
	})).To(Succeed())
	for _, namespace := range namespaces {
		g.Expect(testEnv.Client.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: operator}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: operator},
		})).To(Succeed())
	}
	// The API server takes note of it a moment later.
	reviews := kubernetes.NewForConfigOrDie(testEnv.AsOperator()).AuthorizationV1().SelfSubjectAccessReviews()
	g.Eventually(func(g Gomega) {
		for _, namespace := range append([]string{""}, namespaces...) {
			review, err := reviews.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: namespace},
			}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(review.Status.Allowed).To(Equal(namespace != ""), "namespace %q", namespace)
		}
	}).Should(Succeed())
}

// start starts the operator for some namespaces.
func start(t *testing.T, namespaces []string) {
	t.Helper()
	startWith(t, namespaces, `metricsBindAddress: "0"`)
}

// startWith starts the operator, with something to say of its server.
func startWith(t *testing.T, namespaces []string, server string) {
	t.Helper()
	testEnv.StartOperator(t, fmt.Sprintf(`leaderElection: {namespace: etcd-foreman-system}
server: {%s, healthBindAddress: "0"}
namespaces: [%s]
`, server, strings.Join(namespaces, ", ")))
}
