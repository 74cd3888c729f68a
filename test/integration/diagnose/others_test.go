// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
)

// etcdDiagnosis is the environment variable with the path of github.com/ahrtr/etcd-diagnosis. With it, each test also logs what that says
// of the injected cause, and what "etcdctl check perf" does, which is itself a load of a minute. What does not last, such as a backup, is
// injected again for each of them. It takes 45 minutes:
//
//	go install github.com/ahrtr/etcd-diagnosis@latest
//	ETCD_DIAGNOSIS=$(go env GOPATH)/bin/etcd-diagnosis go test ./test/integration/diagnose -timeout 90m -v | grep OTHERS
const etcdDiagnosis = "ETCD_DIAGNOSIS"

// versions returns the programs of etcd that a cause is injected into: other tools are compared with the first alone.
func versions(all ...string) []string {
	if os.Getenv(etcdDiagnosis) != "" {
		return all[:1]
	}
	return all
}

// compare logs what other tools say where this verdict was given.
func (c *etcds) compare(name, verdict string) {
	c.t.Helper()
	tool := os.Getenv(etcdDiagnosis)
	if tool == "" {
		return
	}
	c.t.Logf("OTHERS | %s | diagnose | %s", name, verdict)
	var endpoints []string
	for _, m := range c.members {
		endpoints = append(endpoints, "http://"+m.client)
	}
	dir, args := c.t.TempDir(), []string{"--endpoints=" + strings.Join(endpoints, ",")}
	if c.user != "" {
		args = append(args, "--user="+c.user)
	}
	_, took := c.other(dir, tool, args...)
	c.t.Logf("OTHERS | %s | etcd-diagnosis in %s | %s", name, took, said(filepath.Join(dir, "etcd_diagnosis_report.json")))
	out, took := c.other(dir, machine.Program(c.t, "etcdctl"), append(args, "--command-timeout=90s", "check", "perf")...)
	c.t.Logf("OTHERS | %s | etcdctl check perf in %s | %s", name, took, strings.Join(regexp.MustCompile(`(?:PASS|FAIL|Error|Slowest|Stddev).*`).FindAllString(out, -1), "; "))
}

// other runs another tool for two minutes at most.
func (c *etcds) other(dir, tool string, args ...string) (out string, took time.Duration) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	if c.again != nil {
		c.again(ctx)
	}
	cmd, began := exec.CommandContext(ctx, tool, args...), time.Now()
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if err != nil {
		text = fmt.Appendf(text, "\nError: %v", err)
	}
	return string(text), time.Since(began).Round(100 * time.Millisecond)
}

// said returns the summaries of a report of etcd-diagnosis, and how long its reads took.
func said(path string) string {
	var report struct {
		Results []struct {
			Name, Reason  string
			Summary       any
			ReadResponses []struct{ Took, Error string }
		}
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &report)
	}
	if err != nil {
		return "no report: " + err.Error()
	}
	var all []string
	for _, r := range report.Results {
		say := fmt.Sprintf("%s: %v%s", r.Name, r.Summary, r.Reason)
		for _, read := range r.ReadResponses {
			say += " " + read.Took + read.Error
		}
		all = append(all, say)
	}
	return strings.Join(all, "; ")
}
