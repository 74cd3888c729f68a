// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/portforward"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options are what a diagnosis rests on, besides what it always does.
type Options struct {
	// Window is how long members are measured.
	Window time.Duration
	// AgentToken reads the metrics of the agents; empty for none, or for that which the operator's key makes, if HotPrefixes read it.
	AgentToken string
	// Logs are read, and agents are asked for hot prefixes, as the operator would.
	Logs, HotPrefixes bool
	// ShowKeys: agents also tell whole keys, if the user has the right to see them.
	ShowKeys bool
	// LargePrefixes: a Job, whose name ends with Suffix, reads the newest full snapshot.
	LargePrefixes bool
	Suffix        string
	// Note tells the user what is being done; nil to say nothing.
	Note func(text string)
	// Progress is called when so many members begin to be measured, and what it returns when that is done.
	Progress func(members int) (done func())
}

// Gather measures the members of an Etcd, and gathers what a diagnosis rests on. It fails only if nothing can be said.
func Gather(ctx context.Context, cluster *kube.Cluster, clock clock.WithTicker, etcd *v1alpha1.Etcd, o Options) (diagnose.Input, error) {
	g := &gatherer{cluster: cluster, clock: clock, etcd: etcd, Options: o}
	defer g.close()
	if err := g.prepare(ctx); err != nil {
		return g.in, err
	}
	done := o.Progress(len(g.targets))
	in := g.measure(ctx)
	done()
	if ctx.Err() != nil {
		return in, fmt.Errorf("measuring Etcd %s: %w", etcd.Name, ctx.Err())
	}
	return in, nil
}

// gatherer gathers the input of a diagnosis.
type gatherer struct {
	Options
	cluster *kube.Cluster
	clock   clock.WithTicker
	etcd    *v1alpha1.Etcd

	in       diagnose.Input
	members  *portforward.Members
	snapshot *cluster.Snapshot
	pods     map[string]*corev1.Pod
	targets  []Target
	// began is when the measurement did.
	began time.Time
	// key is the operator's, if it was read.
	key ed25519.PrivateKey
	// ended are the tasks that had ended before the measurement.
	ended   map[types.UID]bool
	closers []func()
}

func (g *gatherer) close() {
	for _, c := range g.closers {
		c()
	}
}

const portForwardRemedy = "the right to get and create pods/portforward in the namespace, as the ClusterRole edit has it"

// prepare reads what a person would ask first, and finds out how members are reached. It fails only if nothing can be said.
func (g *gatherer) prepare(ctx context.Context) error {
	g.in.Namespace, g.in.Etcd = g.etcd.Namespace, g.etcd.Name
	if err := g.readTasks(ctx); err != nil {
		return err
	}
	g.readKey(ctx)
	if err := g.readPods(ctx); err != nil {
		g.miss(diagnose.SignalPod, err, "the right to list pods in the namespace, as the ClusterRole view has it")
		return nil
	}
	if g.in.Hibernated = g.etcd.Spec.Replicas == 0 && len(g.pods) == 0; g.in.Hibernated {
		return nil
	}
	var err error
	if g.members, err = portforward.Open(ctx, g.cluster, g.clock, g.etcd); err != nil {
		g.miss(diagnose.SignalMetrics, err, portForwardRemedy)
		return nil
	}
	g.closers = append(g.closers, g.members.Close)
	if err = g.members.Failure(); err != nil {
		g.miss(diagnose.SignalMetrics, err, portForwardRemedy)
	}
	snapshot, _, unread := g.members.Observe(ctx, mayLackLeases{g.cluster})
	switch {
	case errors.Is(unread, observe.ErrNoStatefulSet):
		g.miss(diagnose.SignalStatus, unread, fmt.Sprintf("a StatefulSet; \"kubectl etcdtask status %s\" says why there is none", g.etcd.Name))
	case unread != nil:
		g.miss(diagnose.SignalStatus, unread, "the right to get StatefulSets and pods in the namespace, as the ClusterRole view has it")
	}
	if err != nil || unread != nil {
		return nil
	}
	g.snapshot = snapshot
	if why := g.members.Unreachable(ctx, g.snapshot); why != "" {
		g.miss(diagnose.SignalStatus, kube.Failure("%s", why), "a member that answers; with TLS, the right to get the Secrets of clientUrlTls; where etcd has users, a client certificate that may read")
	} else {
		g.readCluster(ctx)
	}
	for i, o := range g.snapshot.Ordinals {
		if g.isTarget(o) {
			g.targets = append(g.targets, g.target(ctx, i))
		}
	}
	return nil
}

// isTarget reports whether there is a member to measure. There is no port-forward to a pod that does not run, such as one that prepares.
func (g *gatherer) isTarget(o cluster.Ordinal) bool {
	pod := g.pods[o.Name]
	return o.Pod != nil && o.Pod.Endpoint != "" && pod != nil && pod.Status.Phase == corev1.PodRunning
}

func (g *gatherer) miss(signal diagnose.Signal, err error, remedy string) {
	g.missOf(signal, "", err, remedy)
}

func (g *gatherer) missOf(signal diagnose.Signal, member string, err error, remedy string) {
	g.in.Missing = append(g.in.Missing, diagnose.Missing{Signal: signal, Member: member, Why: reason(err), Remedy: remedy})
}

func (g *gatherer) readTasks(ctx context.Context) error {
	tasks, err := g.cluster.Tasks(ctx, g.etcd.Name)
	if err != nil {
		return err
	}
	g.ended = map[types.UID]bool{}
	for _, t := range tasks {
		if t.Status.State == v1alpha1.TaskStateInProgress {
			g.in.Tasks = append(g.in.Tasks, diagnose.Task{Name: t.Name, Type: string(t.Spec.Type)})
		}
		g.ended[t.UID] = t.Status.State.IsFinal()
	}
	return nil
}

// readTasksAgain adds the tasks that have begun in the measurement, and notes which have ended. It needs no clock: what is not the same
// as before has happened since. If tasks cannot be read again, they are what they were.
func (g *gatherer) readTasksAgain(ctx context.Context) {
	tasks, err := g.cluster.Tasks(ctx, g.etcd.Name)
	if err != nil {
		return
	}
	running := map[string]bool{}
	for _, t := range tasks {
		running[t.Name] = t.Status.State == v1alpha1.TaskStateInProgress
		ran := running[t.Name] || t.Status.InitiatedAt != nil && (t.Status.State == v1alpha1.TaskStateSucceeded || t.Status.State == v1alpha1.TaskStateFailed)
		if ran && !g.ended[t.UID] && !slices.ContainsFunc(g.in.Tasks, func(known diagnose.Task) bool { return known.Name == t.Name }) {
			g.in.Tasks = append(g.in.Tasks, diagnose.Task{Name: t.Name, Type: string(t.Spec.Type)})
		}
	}
	for i := range g.in.Tasks {
		g.in.Tasks[i].Ended = !running[g.in.Tasks[i].Name]
	}
}

func (g *gatherer) readPods(ctx context.Context) error {
	list := &corev1.PodList{}
	if err := g.cluster.List(ctx, list, client.InNamespace(g.etcd.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: g.etcd.Name}); err != nil {
		return fmt.Errorf("listing the pods of Etcd %s: %w", g.etcd.Name, err)
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		// The pods of Jobs belong to the Etcd, too.
		if pod := &list.Items[i]; slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == v1alpha1.ContainerEtcd }) {
			pods[pod.Name] = pod
		}
	}
	g.pods = pods
	return nil
}

// readCluster reads quorum and alarms.
func (g *gatherer) readCluster(ctx context.Context) {
	alarms, err := g.members.Alarms(ctx, g.snapshot)
	if err != nil {
		g.miss(diagnose.SignalStatus, fmt.Errorf("alarms could not be read: %w", err), "a quorum")
	}
	known := Known(g.snapshot, alarms, nil)
	g.in.Quorum, g.in.Alarms, g.in.Members = known.Quorum, known.Alarms, known.Members
}

// measure measures the members, and returns everything that is known.
func (g *gatherer) measure(ctx context.Context) diagnose.Input {
	g.in.Window, g.began = g.Window, g.clock.Now()
	var watching sync.WaitGroup
	watching.Go(func() { g.watchPrefixes(ctx) })
	measured := Measure(ctx, g.targets, g.Window, g.clock)
	watching.Wait()
	byName := map[string]*Measured{}
	for i := range measured {
		byName[measured[i].Name] = &measured[i]
		g.in.Missing = append(g.in.Missing, measured[i].Missing...)
	}
	g.readHotPrefixes(ctx)
	g.readTasksAgain(ctx)
	if g.pods != nil {
		// A container may have ended in the measurement. If pods cannot be read again, they are what they were.
		_ = g.readPods(ctx)
	}
	g.addReported()
	if _, known := aheadOf("", measured); !known && g.Logs {
		g.miss(diagnose.SignalLogs, kube.Failure("no member has said what time it is: how old lines are is judged by the clock of this machine"), "metrics of a member, which have its time")
	}
	now := g.clock.Now()
	for i := range g.in.Members {
		m := &g.in.Members[i]
		ahead, _ := aheadOf(m.Name, measured)
		if got := byName[m.Name]; got != nil {
			of := got.Member
			of.Leader, of.Learner, of.NoVoter, of.RoleUnknown, of.Serving, of.Reported = m.Leader, m.Learner, m.NoVoter, m.RoleUnknown, m.Serving, m.Reported
			*m = of
		}
		if pod := g.pods[m.Name]; pod != nil {
			m.Pod, m.Logs = podFacts(pod, now.Add(ahead)), g.readLogs(ctx, pod, ahead)
		}
	}
	// It may take minutes.
	g.readAtRest(ctx)
	return g.in
}

// addReported adds what the operator last reported of the members if none of them has answered.
func (g *gatherer) addReported() {
	if g.in.Quorum != nil {
		return
	}
	quorum, members := Reported(g.etcd)
	g.in.Quorum = quorum
	for name := range g.pods {
		if _, known := members[name]; !known {
			members[name] = diagnose.Member{Name: name, Serving: true, RoleUnknown: true}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		g.in.Members = append(g.in.Members, members[name])
	}
}

// mayLackLeases reads a cluster for a user who may not list Leases, as the ClusterRole view has it. Who serves shows by what members
// answer, and by readiness probes.
type mayLackLeases struct{ client.Reader }

func (r mayLackLeases) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.Reader.List(ctx, list, options...)
	if _, leases := list.(*coordinationv1.LeaseList); leases && apierrors.IsForbidden(err) {
		return nil
	}
	return err
}
