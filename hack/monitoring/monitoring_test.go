// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A metric that is not on the page, or a panel that is not in the dashboard, fails here.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	for path, generate := range files {
		want, err := generate()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, []byte(read(t, path))) {
			t.Errorf("%s is not what the code says: run make generate", path)
		}
	}
}

// A package that makes metrics is one of those that the page is generated from.
func TestNoOtherPackageMakesMetrics(t *testing.T) {
	makes := regexp.MustCompile(`prometheus\.(New(Counter|Gauge|Histogram|Summary|Desc)|MustNewConst)`)
	documented := []string{"internal/agent/backup/snapshotter", "internal/agent/serve", "internal/base/version/buildinfo", "internal/druid/compactionmetrics", "internal/engine", "internal/engine/rollouts", "internal/fleet/control", "internal/operator/metrics"}
	var found []string
	for _, dir := range []string{"internal", "cmd", "tasks", "api"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			if err == nil && makes.Match(data) {
				if in, _ := filepath.Rel(root, filepath.Dir(path)); !slices.Contains(found, in) {
					found = append(found, in)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if slices.Sort(found); !slices.Equal(found, documented) {
		t.Errorf("metrics are made in %v: add those that are missing to the sections of hack/monitoring", found)
	}
}

// Every alert has a section in the runbook, and every section an alert.
func TestEveryAlertHasARunbook(t *testing.T) {
	rules, page := read(t, "config/monitoring/rules.yaml"), read(t, "docs/alerts.md")
	var alerts, sections []string
	for _, m := range regexp.MustCompile(`(?m)- alert: (\w+)$`).FindAllStringSubmatch(rules, -1) {
		alerts = append(alerts, m[1])
		url := "runbook_url: https://github.com/etcd-foreman/etcd-foreman/blob/main/docs/alerts.md#" + strings.ToLower(m[1]) + "\n"
		if strings.Count(rules, url) != 1 {
			t.Errorf("%s has no runbook_url of its own", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(page, -1) {
		sections = append(sections, m[1])
	}
	if !slices.Equal(alerts, sections) || len(alerts) == 0 {
		t.Errorf("alerts %v\nsections %v", alerts, sections)
	}
	for _, field := range []string{"severity: ", "summary: ", "description: ", "runbook_url: "} {
		if n := strings.Count(rules, field); n != len(alerts) {
			t.Errorf("%d of %d alerts have %s", n, len(alerts), field)
		}
	}
}

// What alerts ask for exists.
func TestMetricsOfAlertsExist(t *testing.T) {
	page := read(t, "docs/metrics.md")
	for _, name := range regexp.MustCompile(`\b(etcd_foreman|etcddruid|etcdbr|etcd_agent)_\w+`).FindAllString(read(t, "config/monitoring/rules.yaml"), -1) {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// A member that is scraped, which may be a tenant's choice, gives no metric the name of one of the operator's, by which alerts about others
// could be fired or silenced.
func TestMembersForgeNoMetricsOfTheOperator(t *testing.T) {
	drop := regexp.MustCompile(`action: drop, sourceLabels: \[__name__\], regex: (.+)\}\n`).FindStringSubmatch(read(t, "config/monitoring/podmonitors.yaml"))
	if drop == nil {
		t.Fatal("the PodMonitor of the members drops nothing")
	}
	dropped := regexp.MustCompile("^(?:" + drop[1] + ")$")
	for _, m := range sections[0].all() {
		// Members and their agents are to have those of the process and the build.
		if !dropped.MatchString(m.name) && strings.Contains(read(t, "config/monitoring/rules.yaml"), m.name) {
			t.Errorf("an alert asks for %s, which members can forge", m.name)
		}
	}
	for _, name := range []string{"etcd_server_has_leader", "etcd_mvcc_db_total_size_in_bytes", "etcd_debugging_mvcc_keys_total"} {
		if dropped.MatchString(name) {
			t.Errorf("%s of a member is dropped", name)
		}
	}
}

// What an alert says of members, a diagnosis says more of: their runbooks begin with it. Where no member runs, the task is described.
func TestRunbooksOfMembersBeginWithACommand(t *testing.T) {
	runbook := read(t, "docs/alerts.md")
	const diagnose, describe = "`kubectl etcdtask diagnose NAME", "`kubectl etcdtask describe NAME"
	for alert, command := range map[string]string{
		"EtcdQuorumLost": diagnose, "EtcdNotAnswering": diagnose, "EtcdMemberDown": diagnose, "EtcdWithoutLeader": diagnose, "EtcdDatabaseNearQuota": diagnose, "EtcdAlarmRaised": diagnose,
		"EtcdStopped": describe, "EtcdRolloutStalled": describe, "EtcdRolloutHeld": describe,
	} {
		_, section, _ := strings.Cut(runbook, "\n## "+alert+"\n")
		_, first, _ := strings.Cut(section, "\n- ")
		if !strings.HasPrefix(first, command) {
			t.Errorf("the runbook of %s begins with something else: %.80q", alert, first)
		}
	}
}
