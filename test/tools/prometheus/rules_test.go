// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package prometheus tests config/monitoring with Prometheus' own code: the rules with promtool, and the queries of the
// dashboard with its parser.
package prometheus

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"
)

const monitoring = "../../../config/monitoring"

func TestRules(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(monitoring, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rule struct {
		Spec yaml.MapSlice `yaml:"spec"`
	}
	if err := yaml.Unmarshal(data, &rule); err != nil {
		t.Fatal(err)
	}
	aggregated(t, data)
	spec, err := yaml.Marshal(rule.Spec)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("rules_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Every alert has a test in which it does not fire, and one in which it does.
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(data), -1) {
		if strings.Count(string(tests), "alertname: "+alert[1]+"}") != 1 || strings.Count(string(tests), `{alertname="`+alert[1]+`"}'`) != 1 {
			t.Errorf("%s is not tested", alert[1])
		}
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"rules.yaml": spec, "rules_test.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Without what discovers targets in clouds, promtool builds in a fraction of the time.
	promtool := []string{"run", "-tags", "remove_all_sd", "github.com/prometheus/prometheus/cmd/promtool"}
	for _, args := range [][]string{
		{"check", "rules", filepath.Join(dir, "rules.yaml")},
		{"test", "rules", filepath.Join(dir, "rules_test.yaml")},
	} {
		if out, err := exec.CommandContext(t.Context(), "go", append(promtool, args...)...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// aggregated fails the test where an alert has the labels of the instance of the operator that it is about: it would resolve and begin again
// whenever another instance takes over.
func aggregated(t *testing.T, file []byte) {
	t.Helper()
	rules := regexp.MustCompile(`(?m)alert: (\w+)\n +expr: ["'](.+)["']$`).FindAllStringSubmatch(string(file), -1)
	if all := strings.Count(string(file), "alert: "); len(rules) != all {
		t.Errorf("the expressions of %d alerts were found, of %d", len(rules), all)
	}
	for _, m := range rules {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(m[2])
		if err != nil {
			t.Errorf("%s: %v", m[1], err)
			continue
		}
		parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if ok && ofOperator.MatchString(selector.Name) && !slices.ContainsFunc(path, dropsInstance) {
				t.Errorf("%s: %s is not aggregated", m[1], selector)
			}
			return nil
		})
	}
}

func dropsInstance(node parser.Node) bool {
	switch n := node.(type) {
	case *parser.AggregateExpr:
		return !n.Without && !slices.Contains(n.Grouping, "pod") && !slices.Contains(n.Grouping, "instance")
	case *parser.Call:
		return n.Func.Name == "absent"
	}
	return false
}

var ofOperator = regexp.MustCompile("^(etcd_foreman|etcddruid)_")

// ofEtcd are the beginnings of the names of etcd's own metrics. That etcd has those of the dashboard is tested with a running one
// (test/integration/diagnose).
var ofEtcd = regexp.MustCompile("^(etcd_(server|disk|mvcc|network)|process)_")

func TestQueriesOfTheDashboard(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(monitoring, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	metrics, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	// What Grafana replaces before it asks Prometheus.
	variables := strings.NewReplacer("$__rate_interval", "5m", "$namespace", "a", "$etcd", "main")
	parsed := 0
	for _, p := range dashboard.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q has no query", p.Title)
		}
		for _, target := range p.Targets {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(target.Expr))
			if err != nil {
				t.Errorf("panel %q: %v", p.Title, err)
				continue
			}
			parsed++
			for _, selector := range parser.ExtractSelectors(expr) {
				for _, m := range selector {
					name := strings.TrimSuffix(m.Value, "_bucket")
					if m.Name == "__name__" && !ofEtcd.MatchString(name) && !strings.Contains(string(metrics), "`"+name+"`") {
						t.Errorf("panel %q: there is no metric %s", p.Title, name)
					}
				}
			}
		}
	}
	if parsed < 20 {
		t.Errorf("only %d queries were found", parsed)
	}
}
