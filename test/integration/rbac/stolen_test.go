// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// thief is a namespace with an Etcd and its objects, and a client with the operator's token.
type thief struct {
	*WithT
	t         *testing.T
	namespace string
	etcd      *v1alpha1.Etcd
	client    client.Client
}

func newThief(t *testing.T) *thief {
	h := &thief{WithT: NewWithT(t), t: t, namespace: testEnv.Namespace(t)}
	h.SetDefaultEventuallyTimeout(machine.Patience())
	var err error
	h.client, err = client.New(testEnv.AsOperator(), client.Options{Scheme: testEnv.Scheme})
	h.Expect(err).NotTo(HaveOccurred())
	h.etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "main"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	h.Expect(testEnv.Client.Create(t.Context(), h.etcd)).To(Succeed())
	return h
}

// refused expects that the API server refuses a request, and says why.
func (h *thief) refused(err error, why, what string) {
	h.t.Helper()
	h.Expect(err).To(MatchError(ContainSubstring(why)), what)
}

// creates tries to create objects of the operator, each changed in one way.
func creates[T client.Object](h *thief, like func() T, why map[string]string, changes map[string]func(T)) {
	h.t.Helper()
	h.Eventually(func() error { return h.client.Create(h.t.Context(), like(), client.DryRunAll) }).Should(Succeed(), "what the operator really creates")
	for what, change := range changes {
		o := like()
		change(o)
		h.refused(h.client.Create(h.t.Context(), o, client.DryRunAll), why[what], what)
	}
}

// policies are in force once each has refused something.
func awaitPolicies(h *thief) {
	h.t.Helper()
	probe := func(o client.Object, why string) {
		h.Eventually(func() error {
			return h.client.Create(h.t.Context(), o.DeepCopyObject().(client.Object), client.DryRunAll)
		}).
			Should(MatchError(ContainSubstring(why)))
	}
	job := jobOf(h.etcd)
	job.Spec.Template.Spec.HostNetwork = true
	probe(job, "namespaces or devices of their node")
	job = jobOf(h.etcd)
	job.OwnerReferences = nil
	probe(job, "only Jobs that an Etcd or a task controls")
	set := setOf(h.etcd)
	set.Spec.Template.Spec.ServiceAccountName = "default"
	probe(set, "use the ServiceAccount of their own name")
	probe(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "probe"}}, "only configmaps that an Etcd controls")
}

func TestAStolenTokenRunsNoJobOfItsOwn(t *testing.T) {
	h := newThief(t)
	awaitPolicies(h)
	like := func() *batchv1.Job { return jobOf(h.etcd) }
	changes, why := map[string]func(*batchv1.Job){}, map[string]string{}
	for what, change := range templates {
		changes[what], why[what] = func(j *batchv1.Job) { change(&j.Spec.Template.Spec) }, whyNoTemplate[what]
	}
	for what, c := range map[string]struct {
		why    string
		change func(*batchv1.Job)
	}{
		"in kube-system":  {"only Jobs that an Etcd or a task controls", func(j *batchv1.Job) { j.Namespace, j.OwnerReferences = metav1.NamespaceSystem, nil }},
		"no controller":   {"only Jobs that an Etcd or a task controls", func(j *batchv1.Job) { j.OwnerReferences[0].Controller = nil }},
		"of a Deployment": {"only Jobs that an Etcd or a task controls", func(j *batchv1.Job) { j.OwnerReferences[0].Kind = "Deployment" }},
		"another group":   {"only Jobs that an Etcd or a task controls", func(j *batchv1.Job) { j.OwnerReferences[0].APIVersion = "example.com/v1" }},
		"another name":    {"are named after the Etcd or task", func(j *batchv1.Job) { j.Name = "x" }},
		"a ServiceAccount": {"no ServiceAccount and no token", func(j *batchv1.Job) {
			j.Spec.Template.Spec.ServiceAccountName = "clusterrole-aggregation-controller"
		}},
		"the default account": {"no ServiceAccount and no token", func(j *batchv1.Job) { j.Spec.Template.Spec.AutomountServiceAccountToken = nil }},
		"a token":             {"no ServiceAccount and no token", func(j *batchv1.Job) { j.Spec.Template.Spec.Volumes = append(j.Spec.Template.Spec.Volumes, token()) }},
	} {
		changes[what], why[what] = c.change, c.why
	}
	creates(h, like, why, changes)

	theirs := jobOf(h.etcd)
	theirs.Name, theirs.OwnerReferences = "backup", nil
	h.Expect(testEnv.Client.Create(t.Context(), theirs)).To(Succeed())
	h.refused(h.client.Delete(t.Context(), theirs, client.DryRunAll), "only Jobs that an Etcd or a task controls", "deleting a Job of another")
}

func TestAStolenTokenRunsNoStatefulSetOfItsOwn(t *testing.T) {
	h := newThief(t)
	awaitPolicies(h)
	like := func() *appsv1.StatefulSet { return setOf(h.etcd) }
	changes, why := map[string]func(*appsv1.StatefulSet){}, map[string]string{}
	for what, change := range templates {
		changes[what], why[what] = func(s *appsv1.StatefulSet) { change(&s.Spec.Template.Spec) }, whyNoTemplate[what]
	}
	for what, c := range map[string]struct {
		why    string
		change func(*appsv1.StatefulSet)
	}{
		"no owner":        {"only statefulsets that an Etcd controls", func(s *appsv1.StatefulSet) { s.OwnerReferences = nil }},
		"another name":    {"named after their Etcd", func(s *appsv1.StatefulSet) { s.Name, s.Spec.Template.Spec.ServiceAccountName = "x", "x" }},
		"another account": {"use the ServiceAccount of their own name", func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.ServiceAccountName = "default" }},
		"an Etcd that does not exist, named as a controller of Kubernetes": {"no members in namespace kube-system", func(s *appsv1.StatefulSet) {
			s.Namespace, s.Name = metav1.NamespaceSystem, "clusterrole-aggregation-controller"
			s.OwnerReferences[0].Name, s.Spec.Template.Spec.ServiceAccountName = s.Name, s.Name
		}},
	} {
		changes[what], why[what] = c.change, c.why
	}
	creates(h, like, why, changes)

	// What was created as it should be does not become something else.
	set := setOf(h.etcd)
	h.Expect(h.client.Create(t.Context(), set)).To(Succeed())
	for what, change := range templates {
		wider := set.DeepCopy()
		change(&wider.Spec.Template.Spec)
		h.refused(h.client.Patch(t.Context(), wider, client.MergeFrom(set), client.DryRunAll), whyNoTemplate[what], "an update: "+what)
	}
	theirs := setOf(h.etcd)
	theirs.Name, theirs.OwnerReferences = "theirs", nil
	h.Expect(testEnv.Client.Create(t.Context(), theirs)).To(Succeed())
	taken := theirs.DeepCopy()
	taken.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "theirs", UID: "x"}}, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))}
	h.refused(h.client.Patch(t.Context(), taken, client.MergeFrom(theirs), client.DryRunAll), "that the Etcd controls already", "taking one over")
	h.refused(h.client.Delete(t.Context(), theirs, client.DryRunAll), "only statefulsets that an Etcd controls", "deleting one of another")
}

// A container that an administrator has added to the StatefulSet stays, and stops no update.
func TestWhatOthersAddedToATemplateStays(t *testing.T) {
	h := newThief(t)
	awaitPolicies(h)
	set := setOf(h.etcd)
	templates["privileged"](&set.Spec.Template.Spec)
	set.Spec.Template.Spec.Volumes = append(set.Spec.Template.Spec.Volumes, hostPath())
	h.Expect(testEnv.Client.Create(t.Context(), set)).To(Succeed())
	changed := set.DeepCopy()
	changed.Spec.Template.Annotations = map[string]string{"a": "b"}
	h.Expect(h.client.Patch(t.Context(), changed, client.MergeFrom(set), client.DryRunAll)).To(Succeed())
	changed.Spec.Template.Spec.Volumes[len(changed.Spec.Template.Spec.Volumes)-1].HostPath.Path = "/etc"
	h.refused(h.client.Patch(t.Context(), changed, client.MergeFrom(set), client.DryRunAll), "nothing of their node", "another host path")
}

// The ServiceAccount of a namespace that has more rights than that of an Etcd runs nothing.
func TestAStolenTokenUsesNoPowerfulServiceAccount(t *testing.T) {
	h := newThief(t)
	awaitPolicies(h)
	for name, rule := range map[string]rbacv1.PolicyRule{
		"reads-secrets": {APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list"}},
		"deploys":       {APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"*"}},
		"binds":         {APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: []string{"create"}},
		"tokens":        {APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
	} {
		meta := metav1.ObjectMeta{Namespace: h.namespace, Name: name}
		h.Expect(testEnv.Client.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}})).To(Succeed())
		h.Expect(testEnv.Client.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: h.namespace, Name: name}},
		})).To(Succeed())
		h.refusesAccount(name)
	}
	for name, rule := range map[string]rbacv1.PolicyRule{
		"administers": {APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterrolebindings"}, Verbs: []string{"create"}},
		"intercepts": {
			APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"},
			ResourceNames: []string{"etcd-foreman-rollouts"}, Verbs: []string{"update"},
		},
	} {
		meta := metav1.ObjectMeta{Name: h.namespace + "-" + name}
		h.Expect(testEnv.Client.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}})).To(Succeed())
		h.Expect(testEnv.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: h.namespace, Name: name}},
		})).To(Succeed())
		h.refusesAccount(name)
	}
}

// refusesAccount expects that no StatefulSet of the operator runs as a ServiceAccount.
func (h *thief) refusesAccount(name string) {
	h.t.Helper()
	set := setOf(h.etcd)
	set.Name, set.OwnerReferences[0].Name, set.Spec.Template.Spec.ServiceAccountName = name, name, name
	h.Eventually(func() error { return h.client.Create(h.t.Context(), set.DeepCopy(), client.DryRunAll) }).
		Should(MatchError(ContainSubstring("ServiceAccount "+name+" has more rights than that of an Etcd")), name)
}
