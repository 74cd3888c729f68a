// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// TestAnnotationsOfUsers checks that docs/etcd.md lists every annotation that users set, on whatever object.
func TestAnnotationsOfUsers(t *testing.T) {
	_, block, _ := strings.Cut(read(t, "../../api/v1alpha1/labels.go"), "// Annotations that users or automation set.\nconst (\n")
	block, _, _ = strings.Cut(block, "\n)\n")
	page := read(t, "../../docs/etcd.md")
	found := regexp.MustCompile(`(?m)^\tAnnotation\w+ += "(.+)"$`).FindAllStringSubmatch(block, -1)
	if len(found) < 10 {
		t.Fatalf("found %d annotations", len(found))
	}
	for _, m := range found {
		if !strings.Contains(page, "`"+m[1]) {
			t.Errorf("docs/etcd.md lacks %s", m[1])
		}
	}
}
