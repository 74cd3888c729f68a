// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/controller/task/status"
	"github.com/etcd-foreman/etcd-foreman/internal/queue"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
)

func TestMetricsCountTheEndOfATaskOnce(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	before := newTask()
	before.Namespace, before.Spec.OwnerEtcdReference.Name = "ns", "main"
	after := before.DeepCopy()
	status.RecordEnd(after, tasks.Reject, v1alpha1.ErrInvalidConfig, "no", epoch)
	m.observe(before, after, epoch)
	m.observe(after, after, epoch)
	g.Expect(testutil.ToFloat64(m.total.WithLabelValues("OnDemandSnapshot", "rejected", "main", "ns"))).To(Equal(1.0))
	m.forget(types.NamespacedName{Namespace: "ns", Name: "main"})
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(families).To(BeEmpty())
}

// The metrics of the queue follow it, also when a task is deleted in the middle, and when an operator takes over.
func TestMetricsOfTheQueue(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	etcd := types.NamespacedName{Namespace: "ns", Name: "main"}
	task := inState(newTask(), v1alpha1.TaskStateInProgress)
	status.RecordVerdict(task, tasks.Verdict{Reason: v1alpha1.ReasonStalled}, epoch)
	m.show(etcd, queue.New([]*v1alpha1.EtcdOperatorTask{task}))
	g.Expect(testutil.ToFloat64(m.length.WithLabelValues("main", "ns"))).To(Equal(1.0))
	g.Expect(testutil.ToFloat64(m.stalled.WithLabelValues("main", "ns"))).To(Equal(1.0))
	m.show(etcd, nil)
	g.Expect(testutil.ToFloat64(m.length.WithLabelValues("main", "ns"))).To(BeZero())
	g.Expect(testutil.ToFloat64(m.stalled.WithLabelValues("main", "ns"))).To(BeZero())
	m.forget(etcd)
	g.Expect(registry.Gather()).To(BeEmpty())
}

// A pod that is updated in place is no replacement, and is counted once.
func TestMetricsOfUpdatesInPlace(t *testing.T) {
	g := NewWithT(t)
	m := NewMetrics(prometheus.NewRegistry())
	pod := v1alpha1.RolloutPod{Name: "m-0", UID: "u", LastOperation: v1alpha1.LastOperation{Name: "PatchMetadata", State: v1alpha1.OperationStateInProgress}}
	before := &v1alpha1.RolloutStatus{Pods: []v1alpha1.RolloutPod{pod}}
	pod.LastOperation.State = v1alpha1.OperationStateCompleted
	after := &v1alpha1.RolloutStatus{Pods: []v1alpha1.RolloutPod{pod}}
	labels := labelsOf(types.NamespacedName{Namespace: "ns", Name: "main"})
	m.observeRollout(labels, before, after, epoch)
	m.observeRollout(labels, after, after, epoch)
	g.Expect(testutil.ToFloat64(m.inPlace.With(labels))).To(Equal(1.0))
	g.Expect(testutil.CollectAndCount(m.replacement)).To(BeZero())
}
