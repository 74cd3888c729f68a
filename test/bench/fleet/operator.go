// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// configuration of the operator: its defaults, with ports for this process.
const configuration = `apiVersion: operator.config.druid.gardener.cloud/v1alpha1
kind: OperatorConfiguration
featureGates: {QuorumAwareUpdatesWithOnDelete: true, FleetPolicies: %t}
images: {etcdAgent: localhost/etcd-agent:fleet}
leaderElection: {namespace: etcd-foreman-system}
server: {metricsBindAddress: "127.0.0.1:%d", insecureMetrics: true, healthBindAddress: "0", pprofBindAddress: "%s"}
`

// cores that the operator may use.
const cores = 2

// endTimeout is how long the operator may take to end.
const endTimeout = 30 * time.Second

// operator is a running operator.
type operator struct {
	cmd     *exec.Cmd
	started time.Time
	exited  chan struct{}
	// metrics and profiles are the URLs of its endpoints.
	metrics, profiles string
}

func binary(dir string) string { return filepath.Join(dir, operatorProgram) }

func buildOperator(ctx context.Context, dir string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", binary(dir), "./cmd/etcd-foreman").CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the operator: %w\n%s", err, out)
	}
	return nil
}

// startOperator starts an operator that logs to operator.log, and serves profiles and knows policies on request.
func startOperator(dir string, kubeconfig []byte, profiles, policies bool) (*operator, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	pprof := "0"
	if profiles {
		other, err := freePort()
		if err != nil {
			return nil, err
		}
		pprof = fmt.Sprintf("127.0.0.1:%d", other)
	}
	for name, data := range map[string][]byte{"kubeconfig": kubeconfig, "config.yaml": fmt.Appendf(nil, configuration, policies, port, pprof)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, fmt.Errorf("writing the operator's configuration: %w", err)
		}
	}
	log, err := os.OpenFile(filepath.Join(dir, "operator.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the operator's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the process has it
	o := &operator{
		cmd:     exec.Command(binary(dir), "--config="+filepath.Join(dir, "config.yaml")),
		metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", port), profiles: "http://" + pprof + "/debug/pprof/", exited: make(chan struct{}),
	}
	// An empty GOGC is none: the operator sets it.
	o.cmd.Env = append(os.Environ(), "GOGC=", "KUBECONFIG="+filepath.Join(dir, "kubeconfig"), fmt.Sprintf("GOMAXPROCS=%d", cores))
	o.cmd.Stdout, o.cmd.Stderr = log, log
	o.started = time.Now()
	if err := o.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the operator: %w", err)
	}
	go func() {
		defer close(o.exited)
		// Its log says how it ended.
		_ = o.cmd.Wait()
	}()
	return o, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// alive returns an error if the operator has ended.
func (o *operator) alive() error {
	select {
	case <-o.exited:
		return fmt.Errorf("the operator has ended (%s): see operator.log", o.cmd.ProcessState)
	default:
		return nil
	}
}

// end ends the operator and waits until it has.
func (o *operator) end(signal syscall.Signal) error {
	if err := o.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending the operator: %w", err)
	}
	select {
	case <-o.exited:
		return nil
	case <-time.After(endTimeout):
		return fmt.Errorf("ending the operator: it is still running after %s", endTimeout)
	}
}

// scrape reads metrics.
func scrape(ctx context.Context, client *http.Client, url string) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("requesting metrics: %w", err)
	}
	// Compressing would cost the measured process more than sending.
	request.Header.Set("Accept-Encoding", "identity")
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("requesting metrics: %w", err)
	}
	defer func() { _, _ = io.Copy(io.Discard, response.Body); _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("requesting metrics: %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return families, nil
}

// sum adds up the series of a family that have the labels.
func sum(family *dto.MetricFamily, labels map[string]string) float64 {
	total := 0.0
	for _, m := range family.GetMetric() {
		matches := 0
		for _, l := range m.GetLabel() {
			if labels[l.GetName()] == l.GetValue() {
				matches++
			}
		}
		if matches == len(labels) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return total
}

// ready reports whether the operator has reconciled every Etcd, and its queue is empty.
func (o *operator) ready(ctx context.Context, etcds int) bool {
	families, err := scrape(ctx, http.DefaultClient, o.metrics)
	if err != nil {
		return false
	}
	looked := sum(families["controller_runtime_reconcile_total"], map[string]string{"controller": "etcd"})
	return looked >= float64(etcds) && sum(families["workqueue_depth"], nil) == 0
}

// memory returns the resident memory, in MiB: now, and its maximum.
func (o *operator) memory() (now, greatest float64) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.cmd.Process.Pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(data)) {
		switch fields := strings.Fields(line); fields[0] {
		case "VmRSS:":
			now = kibibytes(fields[1])
		case "VmHWM:":
			greatest = kibibytes(fields[1])
		}
	}
	return now, greatest
}

// kibibytes converts KiB to MiB.
func kibibytes(number string) float64 {
	n, _ := strconv.ParseFloat(number, 64)
	return n / 1024
}

// cpu returns the operator's CPU time.
func (o *operator) cpu() time.Duration {
	p, _ := readProcess(fmt.Sprintf("/proc/%d/stat", o.cmd.Process.Pid))
	return p.used
}
