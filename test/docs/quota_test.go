// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// ephemeral are kinds that the operator creates and a quota does not count: reviews are not stored, and events expire.
var ephemeral = map[string]bool{"tokenreviews": true, "subjectaccessreviews": true, "events": true, "pods/eviction": true}

// TestQuotaCountsEveryKind checks that the sample counts every kind that etcd-foreman defines, and every one that its operator creates.
func TestQuotaCountsEveryKind(t *testing.T) {
	first, _, _ := strings.Cut(read(t, "../../config/samples/resourcequota.yaml"), "\n---\n")
	var quota corev1.ResourceQuota
	if err := yaml.UnmarshalStrict([]byte(first), &quota); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"pods": true, "persistentvolumeclaims": true}
	files, err := filepath.Glob("../../config/crd/*/druid*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal([]byte(read(t, file)), &crd); err != nil {
			t.Fatal(err)
		}
		// A quota counts what is in its namespace.
		want[crd.Name] = crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	}
	for _, file := range []string{"../../config/rbac/role.yaml", "../../config/admission/managed_tls_role.yaml"} {
		for resource := range created(t, read(t, file)) {
			want[resource] = true
		}
	}
	for resource, namespaced := range want {
		if _, counted := quota.Spec.Hard[corev1.ResourceName("count/"+resource)]; !counted && namespaced && !ephemeral[strings.SplitN(resource, ".", 2)[0]] {
			t.Errorf("the sample does not count %s", resource)
		}
	}
}

// created returns the resources that a role may create.
func created(t *testing.T, manifests string) map[string]bool {
	all := map[string]bool{}
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if !strings.Contains(strings.Join(rule.Verbs, " ")+" ", "create ") {
				continue
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					all[strings.TrimSuffix(resource+"."+group, ".")] = true
				}
			}
		}
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
