// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package rbac tests what the operator's ServiceAccount may do, as a real API server sees it.
package rbac

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/golden"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, &testEnv, env.WithControllerManager(), env.WithRoles()))
}

// Where the rights are listed: the operator's own namespace, and any other.
var namespaces = map[string]string{"own.txt": "etcd-foreman-system", "elsewhere.txt": "default"}

// The files are what "kubectl auth can-i --list" prints for the ServiceAccount, sorted: a line that is new is a right
// that somebody has to want.
func TestWhatTheOperatorMayDo(t *testing.T) {
	g := NewWithT(t)
	operator := kubernetes.NewForConfigOrDie(testEnv.AsOperator())
	for file, namespace := range namespaces {
		review, err := operator.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(review.Status.Incomplete).To(BeFalse())
		golden.Check(t, file, []byte(strings.Join(lines(review.Status), "")))
		for _, rule := range review.Status.ResourceRules {
			for _, list := range [][]string{rule.Verbs, rule.APIGroups, rule.Resources} {
				g.Expect(slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "*") })).To(BeFalse(), "a wildcard in %v", rule)
			}
		}
	}
}

// lines has a line for each resource, and each URL.
func lines(s authorizationv1.SubjectRulesReviewStatus) []string {
	verbs := map[string][]string{}
	for _, rule := range s.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name := strings.TrimSuffix(resource+"."+group, ".")
				key := fmt.Sprintf("%-55s %-20s", name, fmt.Sprint(rule.ResourceNames))
				verbs[key] = append(verbs[key], rule.Verbs...)
			}
		}
	}
	for _, rule := range s.NonResourceRules {
		for _, url := range rule.NonResourceURLs {
			key := fmt.Sprintf("%-55s %-20s", url, "")
			verbs[key] = append(verbs[key], rule.Verbs...)
		}
	}
	var all []string
	for key, some := range verbs {
		slices.Sort(some)
		all = append(all, fmt.Sprintf("%s %v\n", key, slices.Compact(some)))
	}
	slices.Sort(all)
	// Kubernetes grants these to every ServiceAccount, if its feature gate ClusterTrustBundle is on: by default not in 1.35.
	return slices.DeleteFunc(all, func(line string) bool { return strings.HasPrefix(line, "clustertrustbundles.certificates.k8s.io ") })
}

// No role grants what makes its holder an administrator of the cluster at once, in any namespace: policies bind what the roles do grant,
// but not what is listed here (see TestWhichSecretsTheOperatorMayWrite, and the tests of a stolen token).
func TestWhatTheOperatorMayNotDo(t *testing.T) {
	g := NewWithT(t)
	config := testEnv.AsOperator()
	config.QPS = -1
	reviews := kubernetes.NewForConfigOrDie(config).AuthorizationV1().SelfSubjectAccessReviews()
	may := func(a authorizationv1.ResourceAttributes) bool {
		review, err := reviews.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return review.Status.Allowed
	}
	g.Expect(may(authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"})).To(BeTrue(), "the test can tell")
	tried := 0
	for _, f := range forbidden {
		group, resource, _ := strings.Cut(f.resource, ":")
		resource, subresource, _ := strings.Cut(resource, "/")
		for _, verb := range strings.Fields(f.verbs) {
			for _, namespace := range []string{"", "default", "etcd-foreman-system", "kube-system"} {
				a := authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: namespace}
				tried++
				if may(a) {
					t.Errorf("the operator may %s %s in namespace %q: %s", verb, f.resource, namespace, f.why)
				}
			}
		}
	}
	g.Expect(tried).To(BeNumerically(">", 300))
}

const (
	write    = "create update patch delete deletecollection"
	takeover = write + " get list watch"
)

// forbidden are verbs on resources, each as GROUP:RESOURCE/SUBRESOURCE.
var forbidden = []struct{ resource, verbs, why string }{
	{":secrets", "list watch patch delete deletecollection", "it reads Secrets one by one, by name, and keeps those of others"},
	{":pods", "create update deletecollection", "pods are made by controllers, from objects that policies bind"},
	{":pods/exec", "create get", "it runs commands in pods of others"},
	{":pods/attach", "create get", "it takes over a process"},
	{":pods/portforward", "create get", "it reaches what only the pod may"},
	{":pods/proxy", takeover, "it reaches what only the pod may"},
	{":pods/ephemeralcontainers", "update patch", "it runs a container in pods of others"},
	{":pods/binding", "create", "it chooses the node of a pod"},
	{":services/proxy", takeover, "it reaches what only the API server may"},
	{":nodes", write, "it chooses where pods of others run"},
	{":nodes/proxy", takeover, "the kubelet runs commands in every pod"},
	{":persistentvolumes", write, "a volume may be any folder of a node"},
	{":serviceaccounts/token", "create", "it becomes any ServiceAccount"},
	{":serviceaccounts", "impersonate delete", "it becomes any ServiceAccount"},
	{":users", "impersonate", "it becomes any user"},
	{":groups", "impersonate", "it becomes a member of system:masters"},
	{":namespaces", write, "labels of a namespace switch off Pod Security"},
	{":replicationcontrollers", write, "it runs pods that no policy binds"},
	{"apps:deployments", write, "it runs pods that no policy binds"},
	{"apps:daemonsets", write, "it runs pods that no policy binds"},
	{"apps:replicasets", write, "it runs pods that no policy binds"},
	{"batch:cronjobs", write, "it runs pods that no policy binds"},
	{"rbac.authorization.k8s.io:roles", "escalate bind update delete deletecollection", "it grants itself what it does not have"},
	{"rbac.authorization.k8s.io:rolebindings", "update delete deletecollection", "policies bind what is created and patched"},
	{"rbac.authorization.k8s.io:clusterroles", write + " escalate bind", "it grants itself what it does not have"},
	{"rbac.authorization.k8s.io:clusterrolebindings", write, "it grants itself what it does not have"},
	{"admissionregistration.k8s.io:validatingadmissionpolicies", write, "it removes what binds it"},
	{"admissionregistration.k8s.io:validatingadmissionpolicybindings", write, "it removes what binds it"},
	{"admissionregistration.k8s.io:mutatingadmissionpolicies", write, "it changes what others create"},
	{"admissionregistration.k8s.io:mutatingwebhookconfigurations", write, "it changes what others create"},
	{"admissionregistration.k8s.io:validatingwebhookconfigurations", write, "it reads what others create"},
	{"apiregistration.k8s.io:apiservices", write, "it answers in place of the API server"},
	{"apiextensions.k8s.io:customresourcedefinitions", write, "a conversion webhook reads and changes objects"},
	{"certificates.k8s.io:certificatesigningrequests", "create", "a certificate may be of system:masters"},
	{"certificates.k8s.io:certificatesigningrequests/approval", "update patch", "a certificate may be of system:masters"},
	{"certificates.k8s.io:signers", "approve sign", "a certificate may be of system:masters"},
	{"*:*", "*", "it is an administrator"},
}
