// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// canaryLabel is the label that the page protects.
const canaryLabel = "example.com/canary"

// protect applies the admission policy of the label that docs/fleet.md prints.
func protect(c *env.Cluster) {
	c.T.Helper()
	page, err := os.ReadFile("../../../docs/fleet.md")
	c.Expect(err).NotTo(HaveOccurred())
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	i := slices.IndexFunc(blocks, func(b []string) bool { return strings.Contains(b[1], "ValidatingAdmissionPolicy") })
	c.Expect(i).To(BeNumerically(">=", 0))
	objects, err := env.Decode([]byte(blocks[i][1]))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(objects).To(HaveLen(2))
	for _, o := range objects {
		c.Create(o)
		c.T.Cleanup(func() { _ = testEnv.Client.Delete(context.Background(), o) })
	}
}

// etcdsOf returns a client of a user who may write the Etcds of a namespace, and has some ClusterRoles.
func etcdsOf(c *env.Cluster, user string, clusterRoles ...string) client.Client {
	c.T.Helper()
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	c.Create(&rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"etcds"}, Verbs: []string{"*"}}},
	})
	c.Create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: user}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	})
	for _, role := range clusterRoles {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}
		c.Create(binding)
		c.T.Cleanup(func() { _ = testEnv.Client.Delete(context.Background(), binding) })
	}
	config, err := testEnv.AsUser(user)
	c.Expect(err).NotTo(HaveOccurred())
	as, err := client.New(config, client.Options{Scheme: testEnv.Scheme})
	c.Expect(err).NotTo(HaveOccurred())
	return as
}

// The policy that docs/fleet.md prints keeps the label of canaries to those who may update EtcdFleetPolicies: others can neither set,
// change nor remove it, not even to nothing, and write all else as before.
func TestTheLabelOfCanariesIsTheAdministrators(t *testing.T) {
	c := testEnv.NewCluster(t, name)
	tenant, administrator := etcdsOf(c, "tenant-of-"+c.Namespace), etcdsOf(c, "administrator-of-"+c.Namespace, "etcd-foreman-fleet")
	protect(c)
	etcd := func(name string, labels map[string]string) *v1alpha1.Etcd {
		return &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name, Labels: labels}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
	}
	labeled := map[string]string{canaryLabel: "true"}
	refused := func(err error, what string) {
		t.Helper()
		c.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
		c.Expect(err).To(MatchError(ContainSubstring("only those who may update EtcdFleetPolicies set the label example.com/canary")), what)
	}
	c.Eventually(func() error { return tenant.Create(t.Context(), etcd("probe", nil), client.DryRunAll) }).Should(Succeed(), "the role is in force")
	c.Eventually(func() bool {
		return apierrors.IsForbidden(tenant.Create(t.Context(), etcd("probe", labeled), client.DryRunAll))
	}).Should(BeTrue(), "the policy is in force")
	c.Eventually(func() error { return administrator.Create(t.Context(), etcd("probe", labeled), client.DryRunAll) }).Should(Succeed(), "so is the other role")

	refused(tenant.Create(t.Context(), etcd("first", labeled)), "creating a canary")
	refused(tenant.Create(t.Context(), etcd("first", map[string]string{canaryLabel: ""})), "creating one whose label is empty")
	c.Expect(tenant.Create(t.Context(), etcd("first", map[string]string{"team": "a"}))).To(Succeed())
	change := func(as client.Client, to func(*v1alpha1.Etcd)) error {
		e := &v1alpha1.Etcd{}
		c.Expect(as.Get(t.Context(), c.Key("first"), e)).To(Succeed())
		before := client.MergeFrom(e.DeepCopy())
		to(e)
		return as.Patch(t.Context(), e, before)
	}
	set := func(value string) func(*v1alpha1.Etcd) {
		return func(e *v1alpha1.Etcd) { metav1.SetMetaDataLabel(&e.ObjectMeta, canaryLabel, value) }
	}
	unset := func(e *v1alpha1.Etcd) { delete(e.Labels, canaryLabel) }
	other := func(e *v1alpha1.Etcd) {
		metav1.SetMetaDataLabel(&e.ObjectMeta, "team", "b")
		e.Spec.Annotations = map[string]string{"a": "b"}
	}
	none := func(e *v1alpha1.Etcd) { e.Labels = nil }
	for _, value := range []string{"true", ""} {
		refused(change(tenant, set(value)), "setting "+value)
	}
	c.Expect(change(tenant, other)).To(Succeed())
	c.Expect(change(tenant, none)).To(Succeed())
	c.Expect(change(administrator, set("true"))).To(Succeed())
	for what, to := range map[string]func(*v1alpha1.Etcd){"changing it": set("false"), "emptying it": set(""), "removing it": unset, "removing all labels": none} {
		refused(change(tenant, to), what)
	}
	c.Expect(change(tenant, other)).To(Succeed(), "a canary is its tenant's but for that label")
	c.Expect(change(administrator, unset)).To(Succeed())
	c.Expect(tenant.Delete(t.Context(), etcd("first", nil))).To(Succeed())
}
