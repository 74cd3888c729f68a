// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command fleet measures the operator with a thousand Etcds.
//
//	KUBEBUILDER_ASSETS=.local/bin go run ./test/bench/fleet [-etcds 1000] [-rollouts 50] [-idle 5m] [-profiles] [-strict]
//	KUBEBUILDER_ASSETS=.local/bin go run ./test/bench/fleet -etcds 50 -attack 10m
//	KUBEBUILDER_ASSETS=.local/bin go run ./test/bench/fleet -policy crashes|restarts|alarms|good [-slots 50] [-soak 1m]
//	KUBEBUILDER_ASSETS=.local/bin go run ./test/bench/fleet -etcds 200 -policy good -slots 5 -soak 10s -operators 2 [-pause 1m]
//
// What is real: the operator's binary, in its own process with two cores and the permissions of its ServiceAccount;
// kube-apiserver, its etcd, and kube-controller-manager with the controllers of StatefulSets, PodDisruptionBudgets
// and the garbage collector. All of them share the machine with the benchmark.
//
// What is simulated, in the process of the benchmark: scheduler, kubelet and volumes (a pod is ready some seconds after its
// creation; nothing runs), and the members, which answer the operator over gRPC, each at its own address in 127.0.0.0/8.
// Agents are not simulated: leases of members are not renewed.
//
// It creates the Etcds, restarts the operator with one change pending, rolls one Etcd alone and then many at once, beside
// rollouts blocked by a hanging member, and watches an idle operator. Finally it measures how fast the operator reacts for healthy
// Etcds beside others whose members all hang, or that have many tasks. After each step it writes its results to
// .local/bench-fleet.json.
//
// With -policy, it measures instead how a template goes through all Etcds under an EtcdFleetPolicy: how many a bad one reaches and when it
// is paused, or how long a good one takes compared with the ideal. With several -operators, all act at the same time, without leader
// election, and one after the other is paused: at no revision of the ledger may more slots be in use than there are.
//
// With -attack, it measures instead how fast the operator reacts for the Etcds, and how much memory it takes, while all is quiet, beside
// another namespace with many honest Etcds, and while the administrator of that namespace does all that package attack knows to keep it busy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/attack"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/simulated"
	"github.com/etcd-foreman/etcd-foreman/test/bench/target"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// options are the flags.
type options struct {
	etcds, rollouts, hung int
	samples               int
	idle                  time.Duration
	podStart, spread      time.Duration
	strict, profiles      bool
	// attack is for how long the operator is attacked.
	attack              time.Duration
	hanging, configMaps int
	means               string
	// policy is the template that goes through the fleet under a policy with so many slots; soak is how long each cluster is watched.
	policy string
	slots  int
	soak   time.Duration
	// operators is how many act at the same time then, and pause how long one of them is paused in turn.
	operators int
	pause     time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.etcds, "etcds", 1000, "how many Etcds of 3 members")
	flag.IntVar(&o.rollouts, "rollouts", 50, "how many are rolled at the same time")
	flag.IntVar(&o.hung, "hung", 10, "how many further rollouts are blocked by a hanging member")
	flag.IntVar(&o.samples, "samples", 15, "how often the reaction for a healthy Etcd is measured beside others that are frozen or have many tasks")
	flag.DurationVar(&o.idle, "idle", 5*time.Minute, "how long the idle operator is watched")
	flag.DurationVar(&o.podStart, "pod-start", 3*time.Second, "how long a pod takes to become ready")
	flag.DurationVar(&o.spread, "spread", 0, "over how long the changes of the rollouts at the same time are spread; 0: as fast as the API server takes them")
	flag.BoolVar(&o.profiles, "profiles", false, "have the operator write profiles to .local/fleet/*.pprof, at some cost of time and memory")
	flag.BoolVar(&o.strict, "strict", false, "exit with 1 when a target is missed")
	flag.DurationVar(&o.attack, "attack", 0, "instead of all the rest, measure for so long, for so long again beside an honest tenant, and for so long while that one attacks the operator; with -etcds 50, say")
	flag.StringVar(&o.means, "means", strings.Join(attack.Means(), ","), "what that tenant does")
	flag.IntVar(&o.hanging, "hanging", 300, "how many Etcds that tenant has: at first their members answer, and in the attack they hang")
	flag.IntVar(&o.configMaps, "config-maps", 200, "how many ConfigMaps of almost a megabyte the tenant has")
	flag.StringVar(&o.policy, "policy", "", "instead of all the rest, change all templates at once under an EtcdFleetPolicy, to one that is: "+strings.Join(templates(), ", "))
	flag.IntVar(&o.slots, "slots", 50, "how many slots that policy has")
	flag.DurationVar(&o.soak, "soak", time.Minute, "for how long it watches each cluster")
	flag.IntVar(&o.operators, "operators", 1, "how many operators act at the same time then, without leader election; several are paused in turn")
	flag.DurationVar(&o.pause, "pause", time.Minute, "for how long one of several operators is paused")
	flag.Parse()
	// The benchmark disturbs the cluster; what libraries log about that is noise.
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// errMissed is returned with -strict.
var errMissed = errors.New("a target was missed")

// check reports what is wrong with the flags.
func (o options) check() error {
	for name := range strings.SplitSeq(o.means, ",") {
		if !slices.Contains(attack.Means(), name) {
			return fmt.Errorf("attacking by %q: there are %s", name, strings.Join(attack.Means(), ", "))
		}
	}
	if o.policy != "" && (!slices.Contains(templates(), o.policy) || o.slots < 1) {
		return fmt.Errorf("changing templates to %q, with %d slots: there are %s, and one slot at least", o.policy, o.slots, strings.Join(templates(), ", "))
	}
	if o.operators < 1 || o.operators > 1 && o.policy != good {
		return fmt.Errorf("starting %d operators: several are measured with -policy %s", o.operators, good)
	}
	if o.attack == 0 && o.policy == "" && (o.rollouts < 1 || o.hung < 0 || o.etcds < firstOfMany+o.rollouts+o.hung) {
		return fmt.Errorf("measuring %d rollouts while %d hang: at least one rollout, and %d more Etcds than both together are needed", o.rollouts, o.hung, firstOfMany)
	}
	return nil
}

func run(ctx context.Context, o options) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	dir, err := filepath.Abs(filepath.Join(".local", "fleet"))
	if err != nil {
		return fmt.Errorf("resolving the folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	b := &bench{options: o, console: console.New(os.Stderr), dir: dir}
	defer func() { err = errors.Join(err, b.tearDown()) }()
	if err := b.setUp(ctx); err != nil {
		return err
	}
	steps := []func(context.Context) error{b.make, b.restart, b.rollOne, b.rollMany, b.rest, b.besideOthers}
	if o.attack > 0 {
		steps = []func(context.Context) error{b.make, b.underAttack}
	}
	if o.policy != "" {
		steps = []func(context.Context) error{b.make, b.throughPolicy}
	}
	for _, measure := range steps {
		// Write the results after each step.
		if err = errors.Join(measure(ctx), b.write()); err != nil {
			break
		}
	}
	b.profiling.Wait()
	targets := b.results.targets(b.etcds)
	fmt.Print(b.results.table(targets))
	b.console.Line("\n  results                  %s", b.file())
	if err != nil {
		return err
	}
	if o.strict && !target.Met(targets) {
		return errMissed
	}
	return nil
}

// space is the quota of the API server's etcd: that of ten thousand Etcds has more than the default of 2 GiB, with what their creation leaves
// until it is compacted.
const space = 8 << 30

// bench is one run.
type bench struct {
	options
	console *console.Console
	dir     string

	env      *env.Env
	server   apiServer
	fleet    *simulated.Fleet
	stop     context.CancelFunc
	kubelet  *simulated.Kubelet
	operator *operator
	twins    []*operator
	results  results
	// profiling waits for the profiles being recorded.
	profiling sync.WaitGroup
}

// setUp starts the operator's environment.
func (b *bench) setUp(ctx context.Context) error {
	return b.console.Step("control plane", func(note func(string)) (string, error) {
		var err error
		// Without the Secret of the key that is installed, each operator that starts has another one, and tells it all members.
		if b.env, err = env.Start(env.WithSpace(space), env.WithControllerManager(), env.WithRoles(), env.WithManifests("fleet/role.yaml", "manager/signing_key.yaml")); err != nil {
			return "", err
		}
		b.server = apiServer{b.env.Config}
		note("building the operator")
		if err := buildOperator(ctx, b.dir); err != nil {
			return "", err
		}
		if b.fleet, err = simulated.NewFleet(b.etcds, b.hanging); err != nil {
			return "", err
		}
		// It continues after an interrupt, until everything is torn down.
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		b.stop = stop
		b.kubelet, err = simulated.StartKubelet(running, b.env, b.fleet, b.podStart)
		return "kube-apiserver, kube-controller-manager; simulated: nodes, volumes, members", err
	})
}

func (b *bench) tearDown() error {
	var all []error
	for _, o := range append(b.twins, b.operator) {
		if o != nil {
			all = append(all, o.end(syscall.SIGKILL))
		}
	}
	if b.stop != nil {
		b.stop()
		b.kubelet.Wait()
	}
	if b.env != nil {
		all = append(all, b.env.Stop())
	}
	return errors.Join(all...)
}
