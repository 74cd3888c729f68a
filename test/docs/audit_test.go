// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// The API server parses the sample, and records by it what an investigation needs, and never the content of a Secret.
func TestAuditPolicy(t *testing.T) {
	content, err := os.ReadFile("../../config/audit/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := policy.LoadPolicyFromBytes(content)
	if err != nil {
		t.Fatal(err)
	}
	const operator = "system:serviceaccount:etcd-foreman-system:etcd-foreman"
	for _, tc := range []struct {
		who, verb, what string
		want            audit.Level
	}{
		{operator, "get", "/secrets", audit.LevelMetadata},
		{operator, "create", "/secrets", audit.LevelMetadata},
		{"jane", "list", "/secrets", audit.LevelMetadata},
		{operator, "patch", "druid.gardener.cloud/etcds/status", audit.LevelNone},
		{"jane", "patch", "druid.gardener.cloud/etcds/status", audit.LevelRequest},
		{"jane", "create", "druid.gardener.cloud/etcdoperatortasks", audit.LevelRequest},
		{operator, "create", "druid.gardener.cloud/etcdoperatortasks", audit.LevelRequest},
		{operator, "delete", "/pods", audit.LevelRequest},
		{operator, "create", "/pods/eviction", audit.LevelRequest},
		{operator, "create", "batch/jobs", audit.LevelRequest},
		{operator, "list", "/pods", audit.LevelNone},
		{operator, "create", "events.k8s.io/events", audit.LevelNone},
		{operator, "update", "coordination.k8s.io/leases", audit.LevelNone},
		{"system:serviceaccount:a:main", "patch", "coordination.k8s.io/leases", audit.LevelNone},
		{"jane", "patch", "coordination.k8s.io/leases", audit.LevelRequest},
		{operator, "create", "coordination.k8s.io/leases", audit.LevelRequest},
		{"jane", "create", "/pods/exec", audit.LevelMetadata},
		{"jane", "delete", "admissionregistration.k8s.io/validatingadmissionpolicybindings", audit.LevelRequest},
		{"jane", "create", "rbac.authorization.k8s.io/rolebindings", audit.LevelRequest},
		{"jane", "create", "apps/deployments", audit.LevelNone},
	} {
		group, resource, _ := strings.Cut(tc.what, "/")
		resource, subresource, _ := strings.Cut(resource, "/")
		who := &user.DefaultInfo{Name: tc.who}
		if strings.HasPrefix(tc.who, "system:serviceaccount:") {
			who.Groups = []string{"system:serviceaccounts"}
		}
		got := policy.NewPolicyRuleEvaluator(parsed).EvaluatePolicyRule(authorizer.AttributesRecord{
			User: who, Verb: tc.verb, APIGroup: group, APIVersion: "v1", Resource: resource, Subresource: subresource, Namespace: "a", ResourceRequest: true,
		})
		if got.Level != tc.want {
			t.Errorf("%s of %s by %s is recorded at level %s, want %s", tc.verb, tc.what, tc.who, got.Level, tc.want)
		}
	}
}
