// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package metrics has the metrics that say how Etcds and tasks are now. They are read from the cache when they are collected,
// so they need no bookkeeping, are right after a restart, and are gone with their objects.
package metrics

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/schedule"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("etcd_foreman_"+name, help, labels, nil)
}

var (
	active = gauge("active", "1 if this instance is the active one. The others do not report Etcds and tasks.")

	condition = gauge("etcd_condition", "A condition of an Etcd: 1 if it is True, 0 if it is False, -1 if it is Unknown.",
		"etcd", "etcd_namespace", "condition", "reason")
	stopped      = gauge("etcd_stopped", "1 while all members of an Etcd are stopped that has served and is not hibernated: a task keeps them stopped, or the Etcd has yet to wake up.", "etcd", "etcd_namespace")
	snapshotTime = gauge("backup_snapshot_timestamp_seconds", "Unix time of the newest snapshot in the store of an Etcd, by its kind: full or delta.",
		"etcd", "etcd_namespace", "kind")
	snapshotDue = gauge("backup_full_snapshot_due_timestamp_seconds", "Unix time at which the schedule of an Etcd wants the full snapshot after the newest one.",
		"etcd", "etcd_namespace")
	restorableSince = gauge("backup_restorable_since_timestamp_seconds", "Unix time since which every second of an Etcd can be restored, as the leader's agent last found. Before it, only full snapshots can be.",
		"etcd", "etcd_namespace")
	restorableFor = gauge("backup_restorable_expected_seconds", "How far back every second of an Etcd can be restored at least, by its schedule of full snapshots and deltaSnapshotRetentionPeriod.",
		"etcd", "etcd_namespace")

	held       = gauge("rollout_held", "1 while a guard blocks a rollout. Changes of members do not count, nor do rollouts that are suspended or wait for a window.", "etcd", "etcd_namespace", "guard")
	taskCount  = gauge("tasks", "Tasks that exist, by their state.", "etcd", "etcd_namespace", "type", "state")
	oldestTask = gauge("task_oldest_waiting_timestamp_seconds", "Unix time at which the task was created that has waited longest to start. Suspended tasks do not count, nor those that wait for an EtcdFleetPolicy.",
		"etcd", "etcd_namespace")
)

// Collector implements prometheus.Collector.
type Collector struct {
	// Cache of Etcds, tasks and Leases.
	Cache client.Reader
	// TasksOnly: etcd-druid manages the Etcds (executor mode), so their conditions are not known here, and their backups are not the operator's.
	TasksOnly bool
	// Active is closed once this instance is the active one.
	Active <-chan struct{}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{active, condition, stopped, snapshotTime, snapshotDue, restorableSince, restorableFor, held, taskCount, oldestTask} {
		to <- d
	}
}

// timeout of reading the cache, which waits until it is filled.
const timeout = 5 * time.Second

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	select {
	case <-c.Active:
		put(active, 1)
	default:
		put(active, 0)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	tasks := &v1alpha1.EtcdOperatorTaskList{}
	if err := c.Cache.List(ctx, tasks, client.UnsafeDisableDeepCopy); err != nil {
		to <- prometheus.NewInvalidMetric(taskCount, err)
		return
	}
	collectTasks(tasks.Items, put)
	if c.TasksOnly {
		return
	}
	etcds, labels := &v1alpha1.EtcdList{}, labelPairs{}
	if err := c.Cache.List(ctx, etcds, client.UnsafeDisableDeepCopy); err != nil {
		to <- prometheus.NewInvalidMetric(condition, err)
		return
	}
	for i := range etcds.Items {
		collectConditions(&etcds.Items[i], labels, to)
		c.collectEtcd(ctx, &etcds.Items[i], put)
	}
}

type put func(d *prometheus.Desc, value float64, labels ...string)

// conditionMetric is a condition of an Etcd. Ten thousand Etcds have a hundred thousand, and a scrape has all of them in memory: they share
// labels, which a const metric has for itself.
type conditionMetric struct {
	labels [4]*dto.LabelPair
	value  float64
}

// Desc implements prometheus.Metric.
func (m *conditionMetric) Desc() *prometheus.Desc { return condition }

// Write implements prometheus.Metric.
func (m *conditionMetric) Write(to *dto.Metric) error {
	to.Label, to.Gauge = m.labels[:], &dto.Gauge{Value: &m.value}
	return nil
}

// labelPairs are labels that series have in common.
type labelPairs map[[2]string]*dto.LabelPair

func (l labelPairs) of(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	if l[key] == nil {
		l[key] = &dto.LabelPair{Name: &name, Value: &value}
	}
	return l[key]
}

func collectConditions(etcd *v1alpha1.Etcd, labels labelPairs, to chan<- prometheus.Metric) {
	name, namespace := labels.of("etcd", etcd.Name), &dto.LabelPair{Name: ptr.To("etcd_namespace"), Value: &etcd.Namespace}
	for _, is := range etcd.Status.Conditions {
		value := map[metav1.ConditionStatus]float64{metav1.ConditionTrue: 1, metav1.ConditionFalse: 0, metav1.ConditionUnknown: -1}[is.Status]
		// Sorted by their names, as the registry wants them.
		to <- &conditionMetric{[4]*dto.LabelPair{labels.of("condition", is.Type), name, namespace, labels.of("reason", is.Reason)}, value}
	}
}

func (c *Collector) collectEtcd(ctx context.Context, etcd *v1alpha1.Etcd, put put) {
	if isStopped(etcd) {
		put(stopped, 1, etcd.Name, etcd.Namespace)
	}
	if !etcd.HasBackupStore() {
		return
	}
	lease := c.lease(ctx, etcd.Namespace, etcd.FullSnapshotLeaseName())
	if full := renewed(lease); !full.IsZero() {
		put(snapshotTime, seconds(full), etcd.Name, etcd.Namespace, "full")
		// Nothing is due of a hibernated cluster, and of one whose schedule is invalid the status says so.
		if s, err := schedule.Parse(component.FullSnapshotSchedule(etcd)); err == nil && etcd.Spec.Replicas > 0 {
			put(snapshotDue, seconds(s.Next(full.UTC())), etcd.Name, etcd.Namespace)
			shortest, longest := schedule.Gaps(s, full.UTC())
			put(restorableFor, component.RestorableFor(etcd, shortest, longest).Seconds(), etcd.Name, etcd.Namespace)
		}
	}
	if all := backup.ReadIntervals(lease.Annotations[v1alpha1.AnnotationRestorable]); len(all) > 0 {
		put(restorableSince, seconds(all[0].From.Time), etcd.Name, etcd.Namespace)
	}
	if delta := renewed(c.lease(ctx, etcd.Namespace, etcd.DeltaSnapshotLeaseName())); !delta.IsZero() {
		put(snapshotTime, seconds(delta), etcd.Name, etcd.Namespace, "delta")
	}
}

// isStopped reports whether all members of a cluster are stopped that is to serve again. A quorum that is lost has an alert of its own.
func isStopped(etcd *v1alpha1.Etcd) bool {
	ready := etcd.Status.Conditions.Find(v1alpha1.ConditionReady)
	return etcd.Spec.Replicas > 0 && etcd.Status.ClusterID != "" && ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason != v1alpha1.ReasonQuorumLost
}

// lease returns a Lease; an empty one if it cannot be read.
func (c *Collector) lease(ctx context.Context, namespace, name string) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{}
	if err := c.Cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, lease); err != nil {
		return &coordinationv1.Lease{}
	}
	return lease
}

// renewed returns when a Lease was renewed; zero if it was not.
func renewed(lease *coordinationv1.Lease) time.Time {
	return ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// group is what tasks are counted by.
type group struct {
	etcd, namespace string
	taskType        v1alpha1.TaskType
	state           v1alpha1.TaskState
}

func collectTasks(tasks []v1alpha1.EtcdOperatorTask, put put) {
	count := map[group]int{}
	guards := map[[3]string]bool{}
	oldest := map[client.ObjectKey]time.Time{}
	for i := range tasks {
		t := &tasks[i]
		key := t.EtcdKey()
		state := cmp.Or(t.Status.State, v1alpha1.TaskStatePending)
		count[group{key.Name, key.Namespace, t.Spec.Type, state}]++
		if guard := blockedBy(t); guard != "" {
			guards[[3]string{key.Name, key.Namespace, string(guard)}] = true
		}
		if created := t.CreationTimestamp.Time; state == v1alpha1.TaskStatePending && !t.Spec.Suspend && !meta.IsStatusConditionFalse(t.Status.Conditions, v1alpha1.ConditionAdmitted) && (oldest[key].IsZero() || created.Before(oldest[key])) {
			oldest[key] = created
		}
	}
	for g, n := range count {
		put(taskCount, float64(n), g.etcd, g.namespace, string(g.taskType), string(g.state))
	}
	for labels := range guards {
		put(held, 1, slices.Clone(labels[:])...)
	}
	for key, created := range oldest {
		put(oldestTask, seconds(created), key.Name, key.Namespace)
	}
}

// blockedBy returns the guard that blocks a rollout; empty if none does. What the status of a rollout says of guards is from before it was
// suspended, or had to wait for a window. A change of members may wait for a cut-over for as long as a person wants; one that is stuck is stalled.
func blockedBy(t *v1alpha1.EtcdOperatorTask) v1alpha1.GuardName {
	p := t.Status.Progressing()
	goesOn := p.Status == metav1.ConditionTrue || p.Reason == v1alpha1.ReasonStalled || p.Reason == v1alpha1.ReasonRetrying
	if !goesOn || t.Status.Rollout == nil || t.Status.Rollout.HeldBy == nil {
		return ""
	}
	return t.Status.Rollout.HeldBy.Guard
}
