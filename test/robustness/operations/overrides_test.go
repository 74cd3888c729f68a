// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"os"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The definition of tasks names the guards, and those that protect the quorum are not among them.
func TestOverridable(t *testing.T) {
	content, err := os.ReadFile("../../../config/crd/task/druid.gardener.cloud_etcdoperatortasks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &definition.Object); err != nil {
		t.Fatal(err)
	}
	guards, err := overridable(definition)
	if err != nil || !slices.Contains(guards, "UnreadyConfirmed") || slices.Contains(guards, "QuorumKept") {
		t.Errorf("%v, %v", guards, err)
	}
	if _, err := overridable(&unstructured.Unstructured{}); err == nil {
		t.Error("a definition without guards has some")
	}
}
