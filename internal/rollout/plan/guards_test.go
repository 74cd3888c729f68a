// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const root = "../../../"

// A new guard is a constant of the API with a comment, an entry of the enum if it can be overridden, a row of the table, a resolver of
// plans, and an entry in docs/rollout.md and in the
// glossary, in the same order everywhere.
func TestEveryGuardIsEverywhere(t *testing.T) {
	g := NewWithT(t)
	var names, resolved []string
	for _, name := range rollout.Guards() {
		names = append(names, string(name))
	}
	for _, name := range slices.Sorted(maps.Keys(resolvers)) {
		resolved = append(resolved, string(name))
	}
	g.Expect(constants(t)).To(Equal(names), "api/v1alpha1/rollout_types.go, against the table of internal/rollout/guards.go")
	g.Expect(resolved).To(ConsistOf(names), "resolvers of internal/rollout/plan/resolve.go, against the table")
	g.Expect(enum(t)).To(Equal(append(rollout.Overridable(), "BackedUp")), "the enum of OverridableGuard, against the overridable rows of the table, and of that of internal/membership")
	g.Expect(listed(t, "docs/rollout.md")).To(Equal(names), "the list in docs/rollout.md, against the table")
	g.Expect(listed(t, "docs/glossary.md")).To(Equal(names), "the list in docs/glossary.md, against the table")
	g.Expect(listed(t, "docs/troubleshooting.md")).To(Equal(names), "the table in docs/troubleshooting.md, against the table")
	g.Expect(len(names)).To(BeNumerically("<=", maxBlockedBy(t)), "maxItems of status.rollout.blockedBy")
}

// constants returns the values of the constants of type GuardName, each of which has a comment.
func constants(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), root+"api/v1alpha1/rollout_types.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != "GuardName" {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || !strings.HasPrefix(spec.Doc.Text(), "Guard"+name+" requires") {
			t.Errorf("the comment of %s does not say what it requires", spec.Names[0])
		}
		names = append(names, name)
		return true
	})
	return names
}

func schema(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	raw, err := os.ReadFile(root + "config/crd/task/druid.gardener.cloud_etcdoperatortasks.yaml")
	if err == nil {
		err = yaml.Unmarshal(raw, crd)
	}
	if err != nil {
		t.Fatal(err)
	}
	return *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

func enum(t *testing.T) (names []string) {
	t.Helper()
	for _, value := range schema(t).Properties["spec"].Properties["overrideGuards"].Items.Schema.Enum {
		name, err := strconv.Unquote(string(value.Raw))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func maxBlockedBy(t *testing.T) int {
	t.Helper()
	return int(*schema(t).Properties["status"].Properties["rollout"].Properties["blockedBy"].MaxItems)
}

// listed returns the guards that a page lists: in a numbered list, in the entry on guards of the glossary, or in the first column of a table.
func listed(t *testing.T, page string) (names []string) {
	t.Helper()
	raw, err := os.ReadFile(root + page)
	if err != nil {
		t.Fatal(err)
	}
	item := regexp.MustCompile("(?m)^\\d+\\. `([A-Z][A-Za-z]+)`: ")
	text, quoted := string(raw), regexp.MustCompile("`([A-Z][A-Za-z]+)`")
	switch page {
	case "docs/glossary.md":
		_, text, _ = strings.Cut(text, "- **Guard**: ")
		text, _, _ = strings.Cut(text, "\n")
		item = quoted
	case "docs/troubleshooting.md":
		_, text, _ = strings.Cut(text, "\n## A rollout is blocked\n")
		text, _, _ = strings.Cut(text, "\n## ")
		text = strings.Join(regexp.MustCompile("(?m)^\\| `[^|]+").FindAllString(text, -1), "\n")
		item = quoted
	}
	for _, m := range item.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}
