// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/explain"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/faults"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/operations"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/proxy"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/report"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/traffic"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/view"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespace = "robustness"
	name      = "main"
	// other is the Etcd that a migration moves the cluster to.
	other     = "next"
	nodeIP    = "10.88.0.1"
	proxyPort = 16443
	apiServer = "https://" + nodeIP + ":6443"

	operatorUser = "system:serviceaccount:etcd-foreman-system:etcd-foreman"
	// endPatience is how long it may take to read everything at the end.
	endPatience = 2 * time.Minute
	// preparing is how long it may take until the cluster is there.
	preparing = 6 * time.Minute
)

var operator = types.NamespacedName{Namespace: "etcd-foreman-system", Name: "etcd-foreman"}

// runner is one run.
type runner struct {
	options
	root, dir string
	plan      *plan

	built    string
	began    time.Time
	cluster  *operations.Cluster
	machine  *faults.Machine
	kube     kubernetes.Interface
	traffic  *traffic.Traffic
	recorder *view.Recorder

	mutex    sync.Mutex
	timeline report.Timeline
	// tasks are those of the present operation that have ended.
	tasks []report.Task
}

func (r *runner) now() time.Duration { return time.Since(r.began) }

func (r *runner) say(format string, args ...any) {
	fmt.Printf("%7s %s\n", r.now().Round(100*time.Millisecond), fmt.Sprintf(format, args...))
}

// run runs and leaves the records in the folder.
func (r *runner) run(ctx context.Context) error {
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	r.began, r.built = time.Now(), r.commit()
	if err := r.connect(); err != nil {
		return err
	}
	p, err := proxy.Start(proxy.Options{
		Address: fmt.Sprintf("%s:%d", nodeIP, proxyPort), Server: apiServer, Seed: r.seed,
		CA: r.pki("ca.crt"), Certificate: r.pki("kube-apiserver.crt"), Key: r.pki("kube-apiserver.key"),
	})
	if err != nil {
		return err
	}
	defer p.Close() //nolint:errcheck // it serves nobody any more
	r.machine.Proxy = p
	defer r.tidy(context.WithoutCancel(ctx))
	auditFrom, err := size(r.auditLog())
	if err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil {
		fmt.Println(r.scene())
		return fmt.Errorf("preparing the run: %w", err)
	}
	if err := r.record(ctx); err != nil {
		return err
	}
	return r.save(auditFrom)
}

func (r *runner) pki(file string) string { return filepath.Join(r.root, ".local/run/pki", file) }
func (r *runner) auditLog() string       { return filepath.Join(r.root, ".local/run/audit.log") }

func (r *runner) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(r.root, ".local/kubeconfig"))
	if err != nil {
		return fmt.Errorf("connecting to the local Kubernetes: %w: run \"make up\"", err)
	}
	config.QPS, config.Burst = 100, 200
	scheme := apiruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connecting to the local Kubernetes: %w", err)
	}
	if r.kube, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("connecting to the local Kubernetes: %w", err)
	}
	r.cluster = &operations.Cluster{
		Kube: c, Namespace: namespace, Name: name, Other: other, Members: r.members, Operator: operations.Deployment{Kube: c, Key: operator}, Now: r.now,
		Migrated: func(m oracle.Migration) {
			r.mutex.Lock()
			defer r.mutex.Unlock()
			r.timeline.Migrations = append(r.timeline.Migrations, m)
		},
		Outage: func(o oracle.Outage) {
			r.mutex.Lock()
			defer r.mutex.Unlock()
			r.timeline.Outages = append(r.timeline.Outages, o)
		},
		Ended: func(name string, status v1alpha1.EtcdOperatorTaskStatus) {
			task := report.Task{Name: name, State: string(status.State)}
			for _, e := range status.LastErrors {
				task.Codes = append(task.Codes, string(e.Code))
			}
			r.mutex.Lock()
			defer r.mutex.Unlock()
			r.tasks = append(r.tasks, task)
		},
	}
	r.machine = &faults.Machine{Kube: c, Namespace: namespace, Name: name, Other: other, Members: r.members, Operator: operator, ProxyPort: proxyPort}
	return nil
}

// prepare creates the cluster, after removing an existing one, and has the operator connect through the proxy.
func (r *runner) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, preparing)
	defer cancel()
	r.say("seed %d, records in %s", r.seed, r.dir)
	old := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := client.IgnoreNotFound(r.cluster.Kube.Delete(ctx, old)); err != nil {
		return err
	}
	for {
		err := r.cluster.Kube.Get(ctx, client.ObjectKeyFromObject(old), old)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err != nil {
			break
		}
		if !pause(ctx, time.Second) {
			return context.Cause(ctx)
		}
	}
	if err := operations.PrepareImages(ctx); err != nil {
		return err
	}
	if err := r.cluster.Operator.ThroughProxy(ctx, nodeIP, fmt.Sprint(proxyPort)); err != nil {
		return err
	}
	if err := r.cluster.Create(ctx); err != nil {
		return err
	}
	return r.cluster.Settled(ctx)
}

// tidy undoes prepare.
func (r *runner) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, preparing)
	defer cancel()
	err := r.cluster.Kube.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err = errors.Join(client.IgnoreNotFound(err), r.cluster.Operator.ThroughProxy(ctx, "", "")); err != nil {
		fmt.Fprintln(os.Stderr, "tidying up:", err)
	}
}

// record runs the clients, the recorder and the operations, and at the end looks at what every member has.
func (r *runner) record(ctx context.Context) error {
	clientsFile, err := os.Create(filepath.Join(r.dir, report.HistoryFile))
	if err != nil {
		return err
	}
	defer clientsFile.Close() //nolint:errcheck // the writer's Close reports what was not written
	samplesFile, err := os.Create(filepath.Join(r.dir, report.SamplesFile))
	if err != nil {
		return err
	}
	defer samplesFile.Close() //nolint:errcheck // it is flushed below
	following, stop := context.WithCancel(ctx)
	defer stop()
	roster, err := view.Follow(following, r.kube, namespace, name, other)
	if err != nil {
		return err
	}
	r.machine.Roster = roster
	writer, samples := history.NewWriter(clientsFile, r.began), bufio.NewWriterSize(samplesFile, 1<<16)
	r.traffic, r.recorder = traffic.New(roster, writer, r.seed), view.NewRecorder(roster, samples, r.began)

	r.cluster.Written, r.cluster.Newest, r.cluster.Read = r.traffic.Written, r.traffic.Newest, r.traffic.Read
	r.cluster.Restored = func(restore history.Restore) { writer.Write(history.Line{Restore: &restore}) }

	var background sync.WaitGroup
	var recorded error
	background.Go(func() { recorded = r.recorder.Run(following, r.members+2) })
	clients, silence := context.WithCancel(following)
	var all sync.WaitGroup
	var unwatched error
	all.Go(func() { unwatched = r.traffic.Run(clients, r.members) })
	r.operate(ctx)
	r.explain(ctx)
	pause(ctx, 2*time.Second)
	silence()
	all.Wait()
	ending, cancel := context.WithTimeout(ctx, min(r.patience, endPatience))
	defer cancel()
	if err := errors.Join(unwatched, r.traffic.End(ending)); err != nil && r.timeline.Failed == "" {
		r.timeline.Failed = err.Error()
	}
	stop()
	background.Wait()
	return errors.Join(recorded, writer.Close(), samples.Flush())
}

// operate runs operations until the time is over or one does not end well.
func (r *runner) operate(ctx context.Context) {
	for from := r.now(); r.now()-from < r.length && ctx.Err() == nil; {
		done := r.perform(ctx, r.plan.next(r.machine))
		r.timeline.Operations = append(r.timeline.Operations, done)
		begun, acknowledged := r.traffic.Operations()
		r.say("%s took %s %v %s (%d requests, %d acknowledged, %d samples)", done.Name, (done.To - done.From).Round(time.Second), done.Tasks, done.Error, begun, acknowledged, r.recorder.Count())
		if done.Error != "" {
			fmt.Println(r.scene())
			return
		}
	}
	if ctx.Err() != nil {
		r.timeline.Failed = "the run was interrupted"
	}
}

// perform runs one operation, with faults. They end once the cluster has settled: what they are for is over.
func (r *runner) perform(ctx context.Context, next turn) report.Operation {
	ctx, cancel := context.WithTimeout(ctx, r.patience*time.Duration(max(1, next.operation.Times)))
	defer cancel()
	done := report.Operation{Name: next.operation.Name, From: r.now()}
	r.say("%s after %s, faults: %v", next.operation.Name, next.after.Round(100*time.Millisecond), next.faults)
	done.Faults = make([]oracle.Fault, len(next.faults))
	faulting, over := context.WithCancel(ctx)
	var injecting sync.WaitGroup
	left := make([]error, len(next.faults))
	for i, fault := range next.faults {
		injecting.Go(func() { done.Faults[i], left[i] = r.inject(faulting, fault) })
	}
	pause(ctx, next.after)
	r.tasks, done.Asked = []report.Task{}, r.now()
	err := next.operation.Run(ctx, r.cluster)
	if err == nil {
		err = r.cluster.Settled(ctx)
	}
	over()
	injecting.Wait()
	r.machine.Name, r.machine.Other = r.cluster.Name, r.cluster.Other
	if err == nil {
		err = errors.Join(r.cluster.Operator.Ready(ctx), r.cluster.Settled(ctx))
	}
	if err = errors.Join(append(left, err)...); err != nil {
		done.Error = err.Error()
	}
	done.To, done.Tasks = r.now(), r.tasks
	return done
}

// inject injects a fault, unless the operation is over before. The error is that it could not be ended; one that could not be
// injected has no evidence.
func (r *runner) inject(ctx context.Context, fault planned) (f oracle.Fault, left error) {
	f = oracle.Fault{Kind: fault.Kind.Name, Target: fault.Target(), EndsEtcd: fault.Kind.EndsEtcd, SparesWrites: fault.Kind.SparesWrites}
	begins := pause(ctx, fault.after)
	f.From = r.now()
	if begins {
		var err error
		if f.Evidence, err = fault.Inject(ctx, r.machine, func() { f.Since = r.now() }); err != nil {
			r.say("%v", err)
		}
		if errors.Is(err, faults.ErrNotEnded) {
			left = err
		}
	}
	f.To = r.now()
	r.say("  %s of %s from %s: %s", f.Kind, f.Target, f.From.Round(100*time.Millisecond), cmp.Or(f.Evidence, "it was not in effect"))
	return f, left
}

// scene is what goes on in the namespace of the run.
func (r *runner) scene() explain.Scene {
	return explain.Scene{Kube: r.cluster.Kube, Namespace: namespace, Logs: r.kube}
}

// explain keeps what a person needs to see why an operation did not end well, or why the operator did what is judged later.
func (r *runner) explain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for file, args := range map[string]string{
		"objects.yaml":        "get etcds,etcdoperatortasks,statefulsets,pods,persistentvolumeclaims,jobs -n robustness -o yaml",
		"events.txt":          "events -n robustness",
		"nodes.yaml":          "get nodes -o yaml",
		"operator.log":        "logs -n etcd-foreman-system -l app.kubernetes.io/name=etcd-foreman --prefix --tail=-1",
		"operator-before.log": "logs -n etcd-foreman-system -l app.kubernetes.io/name=etcd-foreman --prefix --tail=-1 --previous",
	} {
		cmd := exec.CommandContext(ctx, filepath.Join(r.root, ".local/bin/kubectl"), append(strings.Fields(args), "--kubeconfig="+filepath.Join(r.root, ".local/kubeconfig"))...)
		out, _ := cmd.CombinedOutput()
		_ = os.WriteFile(filepath.Join(r.dir, file), out, 0o644)
	}
	// A process that is stopped (T) is a fault that was not ended.
	out, _ := exec.CommandContext(ctx, "ps", "-eo", "pid,stat,lstart,comm").CombinedOutput()
	_ = os.WriteFile(filepath.Join(r.dir, "processes.txt"), out, 0o644)
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
