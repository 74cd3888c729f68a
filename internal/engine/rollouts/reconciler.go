// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package rollouts creates a task for every template change that pods have yet to follow. It is the part of DEP-07's OnDelete controller
// that is not in the task type QuorumAwareRollout.
package rollouts

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/logging"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Reconciler creates rollout tasks.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server. Tasks are only created on live reads.
	Live  client.Reader
	Clock clock.PassiveClock
	// Recorder of events of Etcds.
	Recorder events.EventRecorder
	// Rule decides whose pods the operator replaces.
	Rule    replacer.Rule
	Metrics *Metrics
}

// Reconcile ensures that a task covers the update revision of a StatefulSet while a pod is outdated.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	key := request.NamespacedName
	var (
		task *v1alpha1.EtcdOperatorTask
		etcd *v1alpha1.Etcd
	)
	// The cache may be stale, and even a task that replaces nothing may take a snapshot.
	for _, reader := range []client.Reader{r.Client, r.Live} {
		p, err := r.outdated(ctx, reader, key)
		if err != nil || p == nil {
			return ctrl.Result{}, err
		}
		if p.covered() {
			r.Metrics.show(key, false)
			return ctrl.Result{}, nil
		}
		r.Metrics.show(key, true)
		var wait time.Duration
		etcd = p.etcd
		if task, wait = p.next(r.Clock.Now()); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	created, err := etcdtasks.Creator{Client: r.Client, Live: r.Live, Recorder: r.Recorder}.Create(ctx, etcd, task)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.Metrics.show(key, false)
	if !created {
		// Its event triggers another reconcile of this Etcd.
		return ctrl.Result{}, nil
	}
	log.FromContext(ctx).Info("Created rollout task", logging.KeyTask, klog.KObj(task), "targetRevision", rollout.TargetOf(task).Revision, "suspend", task.Spec.Suspend)
	return ctrl.Result{}, nil
}

// outdated returns the template change that pods of an Etcd have yet to follow; nil if there is none, or if the operator does not replace
// its pods.
func (r *Reconciler) outdated(ctx context.Context, reader client.Reader, key types.NamespacedName) (*pending, error) {
	set, etcd := &appsv1.StatefulSet{}, &v1alpha1.Etcd{}
	for _, object := range []client.Object{set, etcd} {
		if err := reader.Get(ctx, key, object); apierrors.IsNotFound(err) {
			r.Metrics.forget(key)
			return nil, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading %T %s: %w", object, key, err)
		}
	}
	if r.Rule.Objection(etcd, set) != "" || set.DeletionTimestamp != nil || etcd.DeletionTimestamp != nil {
		r.Metrics.forget(key)
		return nil, nil
	}
	if set.Status.ObservedGeneration < set.Generation {
		return nil, nil
	}
	outdated, err := hasOutdatedPod(ctx, reader, set)
	if err != nil {
		return nil, err
	}
	if !outdated {
		r.Metrics.show(key, false)
		return nil, nil
	}
	tasks := &v1alpha1.EtcdOperatorTaskList{}
	if err := reader.List(ctx, tasks, etcdtasks.Of(key)); err != nil {
		return nil, fmt.Errorf("listing the tasks of Etcd %s: %w", key, err)
	}
	return &pending{etcd: etcd, set: set.UID, revision: set.Status.UpdateRevision, tasks: tasks.Items}, nil
}

func concerns(set *appsv1.StatefulSet) bool {
	return set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
}

func hasOutdatedPod(ctx context.Context, reader client.Reader, set *appsv1.StatefulSet) (bool, error) {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(set.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: set.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the pods of StatefulSet %s: %w", klog.KObj(set), err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if metav1.IsControlledBy(pod, set) && pod.DeletionTimestamp == nil && (pod.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision || cluster.MarkOf(pod) != nil) {
			return true, nil
		}
	}
	return false, nil
}

// Metrics are the metrics of the controller. A nil *Metrics has none.
type Metrics struct{ uncovered *prometheus.GaugeVec }

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcddruid_rollout_outdated_without_task", Help: "1 while a StatefulSet whose pods the operator replaces has an outdated pod, and no task replaces it.",
	}, []string{"etcd", "etcd_namespace"})}
	registerer.MustRegister(m.uncovered)
	return m
}

// show publishes whether an outdated pod of an Etcd waits without a task.
func (m *Metrics) show(etcd types.NamespacedName, uncovered bool) {
	if m == nil {
		return
	}
	value := 0.0
	if uncovered {
		value = 1
	}
	m.uncovered.WithLabelValues(etcd.Name, etcd.Namespace).Set(value)
}

// forget removes the series of an Etcd whose pods the operator does not replace.
func (m *Metrics) forget(etcd types.NamespacedName) {
	if m != nil {
		m.uncovered.DeleteLabelValues(etcd.Name, etcd.Namespace)
	}
}
