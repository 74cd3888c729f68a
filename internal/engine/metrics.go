// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics are the metrics of the task engine. DEP-05 defines the first two.
type Metrics struct {
	duration    *prometheus.HistogramVec
	total       *prometheus.CounterVec
	length      *prometheus.GaugeVec
	queued      *prometheus.HistogramVec
	replacement *prometheus.HistogramVec
	inPlace     *prometheus.CounterVec
	held        *prometheus.CounterVec
	stalled     *prometheus.GaugeVec
	others      []TaskMetrics
}

// TaskMetrics are further metrics of tasks.
type TaskMetrics interface {
	// Observe counts a change of a task's status that was written.
	Observe(before, after *v1alpha1.EtcdOperatorTask, now time.Time)
	// Show publishes the tasks of an Etcd that have not ended: none for an Etcd that is gone.
	Show(etcd types.NamespacedName, q queue.Queue)
}

const (
	labelEtcd      = "etcd"
	labelNamespace = "etcd_namespace"
	labelType      = "type"
	labelState     = "state"
	labelGuard     = "guard"
)

// buckets are seconds, from half a second to more than an hour.
var buckets = prometheus.ExponentialBuckets(0.5, 2, 14)

// NewMetrics makes the metrics and registers them. It forwards every call to the others.
func NewMetrics(registerer prometheus.Registerer, others ...TaskMetrics) *Metrics {
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, append(labels, labelEtcd, labelNamespace))
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels, labelEtcd, labelNamespace))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{labelEtcd, labelNamespace})
	}
	m := &Metrics{
		duration:    histogram("etcddruid_operator_task_duration_seconds", "Time from the start of a task to its end.", labelType, labelState),
		total:       counter("etcddruid_operator_tasks_total", "Tasks that have ended.", labelType, labelState),
		length:      gauge("etcddruid_operator_task_queue_length", "Tasks of an Etcd that have not ended."),
		queued:      histogram("etcddruid_operator_task_queue_seconds", "Time from the creation of a task to its start.", labelType),
		replacement: histogram("etcddruid_rollout_pod_replacement_seconds", "Time from the deletion of a pod until its successor participates."),
		inPlace:     counter("etcddruid_rollout_pods_updated_in_place_total", "Pods that were updated in place, and participate."),
		held:        counter("etcddruid_rollout_held_seconds_total", "Time that rollouts were held, by the guard that held them.", labelGuard),
		stalled:     gauge("etcddruid_rollout_stalled", "1 while a rollout of an Etcd, or a change of its members, is stalled, or a task runs whose type only a newer operator knows."),
		others:      others,
	}
	registerer.MustRegister(m.duration, m.total, m.length, m.queued, m.replacement, m.inPlace, m.held, m.stalled)
	return m
}

// show publishes the tasks of an Etcd that have not ended.
func (m *Metrics) show(etcd types.NamespacedName, q queue.Queue) {
	stalled := 0.0
	if slices.ContainsFunc(q, func(t *v1alpha1.EtcdOperatorTask) bool {
		return t.Status.Progressing().Reason == v1alpha1.ReasonStalled || t.OfNewerOperator()
	}) {
		stalled = 1
	}
	for _, o := range m.others {
		o.Show(etcd, q)
	}
	m.length.With(labelsOf(etcd)).Set(float64(len(q)))
	m.stalled.With(labelsOf(etcd)).Set(stalled)
}

// observe counts a change of status that was written. The write is under optimistic locking, so a change is
// never counted twice; a crash in between loses it.
func (m *Metrics) observe(before, after *v1alpha1.EtcdOperatorTask, now time.Time) {
	for _, o := range m.others {
		o.Observe(before, after, now)
	}
	etcd := labelsOf(after.EtcdKey())
	if was, is := before.Status.State, after.Status.State; was != is {
		if is == v1alpha1.TaskStateInProgress {
			m.queued.With(with(etcd, labelType, string(after.Spec.Type))).Observe(now.Sub(after.CreationTimestamp.Time).Seconds())
		}
		if is.IsFinal() {
			ended := with(with(etcd, labelType, string(after.Spec.Type)), labelState, strings.ToLower(string(is)))
			m.total.With(ended).Inc()
			m.duration.With(ended).Observe(now.Sub(after.Status.InitiatedAt.Time).Seconds())
		}
	}
	was, _ := before.Status.Held()
	if is, _ := after.Status.Held(); was != nil && (is == nil || is.Guard != was.Guard || is.Pod != was.Pod) {
		m.held.With(with(etcd, labelGuard, string(was.Guard))).Add(max(now.Sub(was.Since.Time).Seconds(), 0))
	}
	if after.Status.Rollout != nil {
		m.observeRollout(etcd, before.Status.Rollout, after.Status.Rollout, now)
	}
}

func (m *Metrics) observeRollout(etcd prometheus.Labels, before, after *v1alpha1.RolloutStatus, now time.Time) {
	if before == nil {
		return
	}
	running := map[types.UID]bool{}
	for _, p := range before.Pods {
		running[p.UID] = p.LastOperation.State == v1alpha1.OperationStateInProgress
	}
	for _, p := range after.Pods {
		switch {
		case !running[p.UID] || p.LastOperation.State != v1alpha1.OperationStateCompleted:
		case inplace.IsWrite(p.LastOperation.Name):
			m.inPlace.With(etcd).Inc()
		default:
			m.replacement.With(etcd).Observe(now.Sub(p.Evidence.ObservedAt.Time).Seconds())
		}
	}
}

// forget removes the series of an Etcd that is gone.
func (m *Metrics) forget(etcd types.NamespacedName) {
	for _, o := range m.others {
		o.Show(etcd, nil)
	}
	labels := labelsOf(etcd)
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.duration, m.total, m.length, m.queued, m.replacement, m.inPlace, m.held, m.stalled} {
		v.DeletePartialMatch(labels)
	}
}

func labelsOf(etcd types.NamespacedName) prometheus.Labels {
	return prometheus.Labels{labelEtcd: etcd.Name, labelNamespace: etcd.Namespace}
}

func with(labels prometheus.Labels, name, value string) prometheus.Labels {
	all := maps.Clone(labels)
	all[name] = value
	return all
}
