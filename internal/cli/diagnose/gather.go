// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/portforward"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gatherer gathers the input of a diagnosis.
type gatherer struct {
	cluster *kube.Cluster
	clock   clock.WithTicker
	etcd    *v1alpha1.Etcd
	token   string
	logs    bool
	// prefixes: the agents are asked for hot prefixes, as the operator would.
	prefixes bool

	in       diagnose.Input
	members  *portforward.Members
	snapshot *cluster.Snapshot
	pods     map[string]*corev1.Pod
	targets  []Target
	// serving are the names of the pods whose members serve.
	serving map[string]bool
	closers []func()
}

func (g *gatherer) close() {
	for _, c := range g.closers {
		c()
	}
}

const portForwardRemedy = "the right to create pods/portforward in the namespace, as the ClusterRole edit has it"

// prepare reads what a person would ask first, and finds out how members are reached. It fails only if nothing can be said.
func (g *gatherer) prepare(ctx context.Context) error {
	g.in.Namespace, g.in.Etcd, g.serving = g.etcd.Namespace, g.etcd.Name, map[string]bool{}
	if err := g.readTasks(ctx); err != nil {
		return err
	}
	if err := g.readPods(ctx); err != nil {
		g.miss(diagnose.SignalPod, err, "the right to list pods in the namespace, as the ClusterRole view has it")
		return nil
	}
	var err error
	if g.members, err = portforward.Open(ctx, g.cluster, g.clock, g.etcd); err != nil {
		g.miss(diagnose.SignalMetrics, err, portForwardRemedy)
		return nil
	}
	g.closers = append(g.closers, g.members.Close)
	if g.snapshot, _, err = g.members.Observe(ctx, g.cluster); err != nil {
		g.miss(diagnose.SignalStatus, err, "the right to get StatefulSets, Leases and pods in the namespace")
		return nil
	}
	if err := g.members.Failure(); err != nil {
		g.miss(diagnose.SignalMetrics, err, portForwardRemedy)
		return nil
	}
	if why := g.members.Unreachable(ctx, g.snapshot); why != "" {
		g.miss(diagnose.SignalStatus, kube.Failure("%s", why), "a member that answers; with TLS, the right to get the Secrets of clientUrlTls; where etcd has users, a client certificate that may read")
	} else {
		g.readCluster(ctx)
	}
	for i, o := range g.snapshot.Ordinals {
		if o.Pod != nil && o.Pod.Endpoint != "" && g.pods[o.Name] != nil {
			g.targets = append(g.targets, g.target(ctx, i))
		}
	}
	return nil
}

func (g *gatherer) miss(signal diagnose.Signal, err error, remedy string) {
	g.missOf(signal, "", err, remedy)
}

func (g *gatherer) missOf(signal diagnose.Signal, member string, err error, remedy string) {
	g.in.Missing = append(g.in.Missing, diagnose.Missing{Signal: signal, Member: member, Why: kube.Sentence(err), Remedy: remedy})
}

func (g *gatherer) readTasks(ctx context.Context) error {
	tasks, err := g.cluster.Tasks(ctx, g.etcd.Name)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if t.Status.State == v1alpha1.TaskStateInProgress {
			g.in.Tasks = append(g.in.Tasks, diagnose.Task{Name: t.Name, Type: string(t.Spec.Type)})
		}
	}
	return nil
}

func (g *gatherer) readPods(ctx context.Context) error {
	list := &corev1.PodList{}
	if err := g.cluster.List(ctx, list, client.InNamespace(g.etcd.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: g.etcd.Name}); err != nil {
		return fmt.Errorf("listing the pods of Etcd %s: %w", g.etcd.Name, err)
	}
	g.pods = map[string]*corev1.Pod{}
	for i := range list.Items {
		g.pods[list.Items[i].Name] = &list.Items[i]
	}
	return nil
}

// readCluster reads quorum and alarms.
func (g *gatherer) readCluster(ctx context.Context) {
	// A member may serve although it does not answer this command: its readiness probe vouches for it.
	var silent []int
	for i, o := range g.snapshot.Ordinals {
		if !o.Answers {
			silent = append(silent, i)
		}
	}
	s := g.snapshot.Vouch(silent)
	for _, v := range s.Cluster.Voters {
		if v.Ordinal >= 0 && v.Serving {
			g.serving[s.Ordinals[v.Ordinal].Name] = true
		}
	}
	g.in.Quorum = &diagnose.Quorum{Voters: len(s.Cluster.Voters), Serving: s.ServingVoters(), Size: s.Quorum(), LeaderKnown: s.Cluster.LeaderKnown}
	alarms, err := g.members.Alarms(ctx, s)
	if err != nil {
		g.miss(diagnose.SignalStatus, fmt.Errorf("alarms could not be read: %w", err), "a quorum")
	}
	for _, a := range alarms {
		g.in.Alarms = append(g.in.Alarms, diagnose.Alarm{Kind: string(a.Kind), Member: g.nameOf(a.MemberID)})
	}
}

func (g *gatherer) nameOf(id uint64) string {
	for _, o := range g.snapshot.Ordinals {
		if o.MemberID == id {
			return o.Name
		}
	}
	return strconv.FormatUint(id, 16)
}

// measure measures the members, and returns everything that is known.
func (g *gatherer) measure(ctx context.Context, window time.Duration) diagnose.Input {
	g.in.Window = window
	measured := Measure(ctx, g.targets, window, g.clock)
	byName := map[string]*Measured{}
	for i := range measured {
		byName[measured[i].Name] = &measured[i]
		g.in.Missing = append(g.in.Missing, measured[i].Missing...)
	}
	g.readHotPrefixes(ctx)
	now := g.clock.Now()
	if g.snapshot == nil {
		for _, name := range slices.Sorted(maps.Keys(g.pods)) {
			g.in.Members = append(g.in.Members, diagnose.Member{Name: name, Serving: true, Pod: podFacts(g.pods[name], now)})
		}
		return g.in
	}
	for _, o := range g.snapshot.Ordinals {
		m := diagnose.Member{Name: o.Name}
		if got := byName[o.Name]; got != nil {
			m = got.Member
		}
		m.Leader, m.Learner = o.Role == v1alpha1.RoleLeader, o.Role == v1alpha1.RoleLearner
		m.Serving = g.serving[o.Name]
		if pod := g.pods[o.Name]; pod != nil {
			m.Pod = podFacts(pod, now)
			m.Logs = g.readLogs(ctx, pod)
		}
		g.in.Members = append(g.in.Members, m)
	}
	return g.in
}
