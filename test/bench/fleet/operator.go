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
leaderElection: {namespace: %s, enabled: %t}
server: {metricsBindAddress: "127.0.0.1:%d", insecureMetrics: true, healthBindAddress: "0", pprofBindAddress: "%s"}
`

// operatorNamespace is that of the operator.
const operatorNamespace = "etcd-foreman-system"

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

// startOperator starts an operator that logs to operator.log, and serves profiles and knows policies on request. Further ones have a number.
func (b *bench) startOperator(number int) (*operator, error) {
	kubeconfig, err := b.env.OperatorKubeconfig()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	pprof := "0"
	if b.profiles {
		other, err := freePort()
		if err != nil {
			return nil, err
		}
		pprof = fmt.Sprintf("127.0.0.1:%d", other)
	}
	suffix := ""
	if number > 0 {
		suffix = fmt.Sprint("-", number)
	}
	path := func(name, extension string) string { return filepath.Join(b.dir, name+suffix+extension) }
	config := fmt.Appendf(nil, configuration, b.policy != "", operatorNamespace, b.operators == 1, port, pprof)
	for path, data := range map[string][]byte{path("kubeconfig", ""): kubeconfig, path("config", ".yaml"): config} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return nil, fmt.Errorf("writing the operator's configuration: %w", err)
		}
	}
	log, err := os.OpenFile(path("operator", ".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the operator's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the process has it
	o := &operator{
		cmd:     exec.Command(binary(b.dir), "--config="+path("config", ".yaml")),
		metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", port), profiles: "http://" + pprof + "/debug/pprof/", exited: make(chan struct{}),
	}
	// An empty GOGC is none: the operator sets it. The limit is that of config/manager.
	o.cmd.Env = append(os.Environ(), "GOGC=", "GOMEMLIMIT=900MiB", "KUBECONFIG="+path("kubeconfig", ""), fmt.Sprintf("GOMAXPROCS=%d", cores))
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

// memory is what the memory of an operator is, in MiB, as its runtime accounts for it.
type memory struct {
	// Heap is what is alive and what is garbage, HeapInUse that with what is free between objects, and Stacks those of Goroutines.
	Heap      float64 `json:"heapMiB"`
	HeapInUse float64 `json:"heapInUseMiB"`
	Stacks    float64 `json:"stacksMiB"`
	// Runtime is what the garbage collector and the runtime need, and Unused what has not been given back yet.
	Runtime    float64 `json:"runtimeMiB"`
	Unused     float64 `json:"unusedMiB"`
	Goroutines float64 `json:"goroutines"`
	// Series are those of its metrics.
	Series int `json:"series"`
}

// account reads what the memory of the operator is.
func (o *operator) account(ctx context.Context) (memory, error) {
	families, err := scrape(ctx, http.DefaultClient, o.metrics)
	if err != nil {
		return memory{}, err
	}
	mebibytes := func(names ...string) (total float64) {
		for _, name := range names {
			total += sum(families["go_memstats_"+name+"_bytes"], nil) / (1 << 20)
		}
		return total
	}
	m := memory{
		Heap: mebibytes("heap_alloc"), HeapInUse: mebibytes("heap_inuse"), Stacks: mebibytes("stack_inuse"),
		Runtime: mebibytes("gc_sys", "other_sys", "mspan_sys", "mcache_sys", "buck_hash_sys"),
		Unused:  mebibytes("heap_idle") - mebibytes("heap_released"), Goroutines: sum(families["go_goroutines"], nil),
	}
	for _, f := range families {
		m.Series += len(f.GetMetric())
	}
	return m, nil
}

// String describes it.
func (m memory) String() string {
	return fmt.Sprintf("of which %.0f heap (%.0f in use), %.0f stacks of %.0f goroutines, %.0f runtime, %.0f unused; %d series of metrics", m.Heap, m.HeapInUse, m.Stacks, m.Goroutines, m.Runtime, m.Unused, m.Series)
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
