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

// What would make the operator, or an attacker who controls it, an administrator of the cluster.
// What it may write of Secrets, a policy narrows: see TestWhichSecretsTheOperatorMayWrite.
func TestWhatTheOperatorMayNotDo(t *testing.T) {
	g := NewWithT(t)
	operator := kubernetes.NewForConfigOrDie(testEnv.AsOperator())
	may := func(a authorizationv1.ResourceAttributes) bool {
		review, err := operator.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return review.Status.Allowed
	}
	g.Expect(may(authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"})).To(BeTrue(), "the test can tell")
	for _, a := range []authorizationv1.ResourceAttributes{
		{Verb: "list", Resource: "secrets"},
		{Verb: "watch", Resource: "secrets"},
		{Verb: "patch", Resource: "secrets"},
		{Verb: "delete", Resource: "secrets"},
		{Verb: "create", Resource: "pods", Subresource: "exec"},
		{Verb: "get", Resource: "pods", Subresource: "exec"},
		{Verb: "create", Resource: "pods"},
		{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "roles"},
		{Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "roles"},
		{Verb: "impersonate", Resource: "serviceaccounts"},
		{Verb: "create", Resource: "serviceaccounts", Subresource: "token"},
		{Verb: "*", Group: "*", Resource: "*"},
	} {
		for _, namespace := range []string{"", "default", "etcd-foreman-system"} {
			a.Namespace = namespace
			g.Expect(may(a)).To(BeFalse(), "%s %s/%s.%s in namespace %q", a.Verb, a.Resource, a.Subresource, a.Group, namespace)
		}
	}
}
