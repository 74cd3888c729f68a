// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/crash/operator/proxy"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	name     = "main"
	taskName = "task"
	store    = "store"
	members  = 3
	poll     = 50 * time.Millisecond
)

// world is an Etcd under an operator.
type world struct {
	*env.Cluster
	scenario scenario
	agent    *disturb.Agent
	clock    clock.PassiveClock
	operator *operator
	// claims are those that the members have at first.
	claims map[string]types.UID
	// rebuiltFor is the task whose recovery the members have carried out; empty for none.
	rebuiltFor string

	mu      sync.Mutex
	disturb disturbance
	// armed: writes are counted. last is when there was one, counted or not.
	armed  bool
	last   time.Time
	writes []disturb.Write
	// seen counts the writes that are the same but for their number, and revisions are the newest before each.
	seen      map[string]int
	revisions []string
	// hit is when the disturbance came about.
	hit time.Time
	// removed counts removals of pods, and made creations of Jobs.
	removed, made map[string]int
	revisionOf    map[types.UID]string
	broken        []string
}

func newWorld(t *testing.T, s scenario, d disturbance) *world {
	t.Helper()
	w := &world{
		Cluster: testEnv.NewCluster(t, name), scenario: s, disturb: d, agent: disturb.NewAgent(), clock: clock.RealClock{},
		seen: map[string]int{}, removed: map[string]int{}, made: map[string]int{}, revisionOf: map[types.UID]string{},
	}
	t.Cleanup(w.agent.Close)
	if s.swift {
		w.clock = swift{time.Now()}
	}
	w.Simulate(members)
	return w
}

func pod(i int) string { return env.PodName(name, i) }

func (w *world) must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// get reads an object; false if there is none.
func (w *world) get(o client.Object, name string) bool {
	w.T.Helper()
	err := testEnv.Client.Get(w.T.Context(), w.Key(name), o)
	w.must(client.IgnoreNotFound(err))
	return err == nil
}

// begin makes the cluster, waits until all is well, and starts the scenario.
func (w *world) begin() {
	w.T.Helper()
	w.Create(storeClaim(w.Namespace))
	w.CreateEtcd(members, func(e *v1alpha1.Etcd) {
		e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: store, Prefix: w.Namespace + "/main"}}
	})
	w.operator = w.start()
	w.until("the cluster is ready", func() bool {
		e, set := &v1alpha1.Etcd{}, &appsv1.StatefulSet{}
		return w.get(e, name) && e.Status.Ready != nil && *e.Status.Ready && e.Status.ClusterID != "" && w.get(set, name) && set.Status.ReadyReplicas == members
	})
	w.untilQuiet()
	w.claims = w.Claims()
	w.WatchPods(w.seePod)
	w.scenario.begin(w)
}

func (w *world) untilQuiet() {
	w.T.Helper()
	w.until("the operator writes nothing", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Since(w.last) > time.Second
	})
}

// storeClaim is the claim of the store of backups.
func storeClaim(namespace string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: store}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
}

// arm has writes counted from now on.
func (w *world) arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = true
}

func (w *world) createTask() {
	w.T.Helper()
	w.CreateTask(taskName, w.scenario.taskType, strings.ReplaceAll(w.scenario.config, "NAMESPACE", w.Namespace))
}

// until has all that is simulated go on until a condition holds. An operator that was killed is followed by another one.
func (w *world) until(what string, holds func() bool) {
	w.T.Helper()
	deadline := time.Now().Add(2 * machine.Patience())
	for !holds() {
		w.tick()
		if time.Now().After(deadline) {
			w.T.Fatalf("it did not come about that %s:\n%s\n%s\nwrites: %v\n%s", what, w.state(), w.acts(), w.writes, w.status())
		}
		<-time.After(poll)
	}
}

func (w *world) tick() {
	w.T.Helper()
	if w.operator.Killed() {
		w.operator.stop()
		w.operator = w.start(w.inThePast)
	}
	w.release()
	w.runJobs()
	w.rebuild()
}

// inThePast has the successor begin with a cache from before the last writes, which does not change for a while.
func (w *world) inThePast(p *proxy.Proxy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.disturb.past) == 0 || len(w.revisions) == 0 {
		return
	}
	of := w.disturb.past
	if len(of) == len(kinds) {
		of = nil // other kinds, too
	}
	p.FromThePast(w.revisions[max(0, len(w.revisions)-2)], of...)
	p.Hold(w.disturb.past...)
	w.hit = time.Now()
}

// release delivers what was held for long enough.
func (w *world) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.disturb.long > 0 && !w.hit.IsZero() && time.Since(w.hit) >= w.disturb.long {
		w.disturb.long = 0
		w.operator.FromThePast("")
		w.operator.Hold()
	}
}

// decide is asked for the fate of each write.
func (w *world) decide(p *proxy.Proxy, write disturb.Write) disturb.Fate {
	write.Name = stable(write)
	revision := w.revision()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check(write)
	w.last = time.Now()
	if !w.armed {
		return disturb.Answered
	}
	write.Number = len(w.writes) + 1
	w.writes, w.revisions = append(w.writes, write), append(w.revisions, revision)
	w.seen[write.What()]++
	if write.What() != w.disturb.what || w.seen[write.What()] != w.disturb.nth {
		return disturb.Answered
	}
	w.hit = time.Now()
	if len(w.disturb.hold) > 0 {
		p.Hold(w.disturb.hold...)
	}
	return w.disturb.fate
}

// revision is the newest of the API server.
func (w *world) revision() string {
	all := &v1alpha1.EtcdList{}
	if len(w.disturb.past) == 0 || testEnv.Client.List(context.Background(), all, client.InNamespace(w.Namespace)) != nil {
		return ""
	}
	return all.ResourceVersion
}

// stable is the name of what is written, without what differs from run to run.
func stable(write disturb.Write) string {
	if write.Kind == "jobs" || write.Kind == "etcdoperatortasks" && write.Name != taskName {
		return "*"
	}
	return write.Name
}

// check looks at a write with eyes of its own.
func (w *world) check(write disturb.Write) {
	ready := map[string]bool{}
	for i := range members {
		ready[pod(i)] = w.Up(i)
	}
	if harm := disturb.Harm(write, w.Namespace, ready); harm != "" {
		w.broken = append(w.broken, harm)
	}
}

// seePod counts the pods of members that are removed, and looks for pods of two revisions at a time.
func (w *world) seePod(event watch.EventType, p *corev1.Pod) {
	if p.Labels[appsv1.ControllerRevisionHashLabelKey] == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if event == watch.Deleted {
		delete(w.revisionOf, p.UID)
		w.removed[p.Name]++
		return
	}
	w.revisionOf[p.UID] = p.Labels[appsv1.ControllerRevisionHashLabelKey]
	for _, other := range w.revisionOf {
		if w.scenario.alone && other != w.revisionOf[p.UID] {
			w.broken = append(w.broken, fmt.Sprintf("pods of two revisions: %v", w.revisionOf))
			return
		}
	}
}

// runJobs has the agent do the work of each Job at once.
func (w *world) runJobs() {
	w.T.Helper()
	all := &batchv1.JobList{}
	w.List(w, all)
	for i := range all.Items {
		j := &all.Items[i]
		w.mu.Lock()
		w.made[j.Labels[v1alpha1.LabelComponent]+" "+string(j.UID)]++
		w.mu.Unlock()
		if len(j.Status.Conditions) > 0 || j.DeletionTimestamp != nil {
			continue
		}
		if err := w.run(j); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			w.T.Fatal(err)
		}
	}
}

func (w *world) run(j *batchv1.Job) error {
	p, status := env.PodOf(j, j.Name+"-pod", corev1.ContainerStateTerminated{Message: w.scenario.result(j)})
	// The kubelet, which has members run for ever, leaves it alone.
	w.Kubelet.Set(p.Name, env.Lost)
	if err := testEnv.Client.Create(w.T.Context(), p); err != nil {
		return err
	}
	p.Status = status
	p.Status.Phase = corev1.PodSucceeded
	if err := testEnv.Client.Status().Update(w.T.Context(), p); err != nil {
		return err
	}
	j.Status = env.Succeeded()
	return testEnv.Client.Status().Update(w.T.Context(), j)
}

// rebuild has members carry out a recovery that they are told to, and serve.
func (w *world) rebuild() {
	w.T.Helper()
	config := &corev1.ConfigMap{}
	if !w.get(config, name+"-config") || config.Data[member.KeyRecovery] == "" {
		return
	}
	shared, err := member.ParseShared(config.Data)
	w.must(err)
	if shared.Recovery.Task == w.rebuiltFor {
		return
	}
	w.rebuiltFor = shared.Recovery.Task
	w.Members.Rebuild(shared.RecoveredID())
	for i := range members {
		w.Kubelet.Set(pod(i), env.Ready)
	}
}
