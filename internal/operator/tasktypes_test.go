// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"
)

const root = "../../"

const quoted = "`([A-Z][a-z]\\w+)`"

// places are where each task type is, besides the constants of the API.
var places = []struct {
	where string
	types func(*testing.T) []string
}{
	{"the enum of TaskType in api/v1alpha1/etcdoperatortask_types.go (make generate)", enum},
	{"TaskType.Known in api/v1alpha1/etcdoperatortask_types.go", known},
	{"the registry in internal/operator/registry.go", registered},
	{"a verb in internal/cli/submit/verbs.go", fieldsOf("internal/cli/submit/verbs.go")},
	{"one of the roles in config/admission/task/task_roles.yaml: dangerous, if it stops a cluster, or replaces or copies its data", matches("config/admission/task/task_roles.yaml", `- create:`, `create:(\w+)`)},
	{"a scenario in test/crash/engine/crash_test.go", fieldsOf("test/crash/engine/crash_test.go")},
	{"a scenario in test/crash/operator/scenarios_test.go", fieldsOf("test/crash/operator/scenarios_test.go")},
	{"a sample config/samples/task_*.yaml", matches("config/samples/task_*.yaml", `^  type:`, `type: (\w+)`)},
	{"the row of spec.type in docs/tasks.md, with a link to its page", matches("docs/tasks.md", "^\\| `type` \\|", quoted)},
	{"the roles in docs/security.md", matches("docs/security.md", "^\\| `etcd-foreman-(operate|dangerous)` ", quoted)},
	{"the table in docs/executor.md", matches("docs/executor.md", "^\\| `[A-Z]", quoted)},
	{"the verbs in docs/cli.md", matches("docs/cli.md", "^\\| `[a-z-]+` \\| `[A-Z]", quoted)},
	{"the entry on task types in docs/glossary.md", matches("docs/glossary.md", `^- \*\*Task type\*\*: `, quoted)},
}

// A new task type is a constant of the API, a package beneath tasks, and something in each of the places.
func TestEveryTaskTypeIsEverywhere(t *testing.T) {
	types := constants(t)
	g := NewWithT(t)
	g.Expect(len(types)).To(BeNumerically(">", 1))
	for _, p := range places {
		t.Run(p.where, func(t *testing.T) {
			found := p.types(t)
			slices.Sort(found)
			NewWithT(t).Expect(slices.Compact(found)).To(ConsistOf(types))
		})
	}
	packages, err := filepath.Glob(root + "tasks/*/handler.go")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(packages).To(HaveLen(len(types)), "a package beneath tasks")
}

// constants returns the values of the constants of type TaskType.
func constants(t *testing.T) (types []string) {
	t.Helper()
	ast.Inspect(parsed(t, "api/v1alpha1/etcdoperatortask_types.go"), func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "TaskType" {
			name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil || name != spec.Names[0].Name {
				t.Errorf("the constant %s has the value %s", spec.Names[0].Name, name)
			}
			types = append(types, name)
		}
		return true
	})
	return types
}

func enum(t *testing.T) (types []string) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(read(t, "config/crd/task/druid.gardener.cloud_etcdoperatortasks.yaml"), crd); err != nil {
		t.Fatal(err)
	}
	for _, value := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["type"].Enum {
		types = append(types, strings.Trim(string(value.Raw), `"`))
	}
	return types
}

func known(t *testing.T) []string {
	return slices.DeleteFunc(constants(t), func(name string) bool { return !v1alpha1.TaskType(name).Known() })
}

func registered(t *testing.T) (types []string) {
	t.Helper()
	o, err := New(&configv1alpha1.OperatorConfiguration{}, Dependencies{Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Tasks.Registry)) {
		types = append(types, string(name))
	}
	return types
}

// fieldsOf returns the values of the fields taskType of the literals in a file.
func fieldsOf(path string) func(*testing.T) []string {
	return func(t *testing.T) (types []string) {
		t.Helper()
		ast.Inspect(parsed(t, path), func(n ast.Node) bool {
			if field, ok := n.(*ast.KeyValueExpr); ok {
				if name, ok := field.Key.(*ast.Ident); ok && name.Name == "taskType" {
					types = append(types, field.Value.(*ast.SelectorExpr).Sel.Name)
				}
			}
			return true
		})
		return types
	}
}

// matches returns what the group of an expression matches in certain lines of files.
func matches(pattern, lines, expression string) func(*testing.T) []string {
	in, of := regexp.MustCompile(lines), regexp.MustCompile(expression)
	return func(t *testing.T) (types []string) {
		t.Helper()
		paths, err := filepath.Glob(root + pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no such file: %v", pattern, err)
		}
		for _, path := range paths {
			for line := range strings.Lines(string(read(t, strings.TrimPrefix(path, root)))) {
				for _, m := range of.FindAllStringSubmatch(line, -1) {
					if in.MatchString(line) {
						types = append(types, m[1])
					}
				}
			}
		}
		return types
	}
}

func parsed(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), root+path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(root + path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The removals that a rollout has recorded may happen late: while its task rests, they are revoked, in each mode.
func TestRolloutsRevokeIntents(t *testing.T) {
	for _, mode := range []configv1alpha1.Mode{configv1alpha1.ModeOperator, configv1alpha1.ModeExecutor} {
		g := NewWithT(t)
		o, err := New(&configv1alpha1.OperatorConfiguration{Mode: mode}, Dependencies{Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()})
		g.Expect(err).NotTo(HaveOccurred())
		for name, kind := range o.Tasks.Registry {
			g.Expect(kind.RevokeIntents != nil).To(Equal(name == v1alpha1.QuorumAwareRollout), "%s", name)
		}
	}
}
