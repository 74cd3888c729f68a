// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/golden"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The files list what the ServiceAccount may do with resources, beyond what every ServiceAccount may: a line that is new is a right
// that somebody has to want.
func TestWhatTheExecutorMayDo(t *testing.T) {
	anybody := testEnv.AsOperator()
	anybody.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:anybody", Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	for file, namespace := range map[string]string{"own.txt": own, "elsewhere.txt": "default"} {
		everybodys := rights(t, anybody, namespace)
		lines := slices.DeleteFunc(rights(t, testEnv.AsOperator(), namespace), func(line string) bool { return slices.Contains(everybodys, line) })
		golden.Check(t, file, []byte(strings.Join(lines, "")))
	}
}

// rights are a line for each resource with what a user may do with it.
func rights(t *testing.T, as *rest.Config, namespace string) []string {
	t.Helper()
	g := NewWithT(t)
	review, err := kubernetes.NewForConfigOrDie(as).AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	verbs := map[string][]string{}
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				key := fmt.Sprintf("%-60s %-26s", strings.TrimSuffix(resource+"."+group, "."), fmt.Sprint(rule.ResourceNames))
				verbs[key] = append(verbs[key], rule.Verbs...)
			}
		}
	}
	var lines []string
	for key, some := range verbs {
		slices.Sort(some)
		lines = append(lines, fmt.Sprintf("%s %v\n", key, slices.Compact(some)))
	}
	slices.Sort(lines)
	return lines
}
