// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// collected are the names of the metrics of an engine that have values.
func collected(e *engine) []string {
	e.t.Helper()
	families, err := e.gatherer.Gather()
	e.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	return names
}

// seconds is the number of values of a histogram, and their sum.
func seconds(g Gomega, of prometheus.Observer) (count uint64, sum float64) {
	var m dto.Metric
	g.Expect(of.(prometheus.Metric).Write(&m)).To(Succeed())
	return m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum()
}

// The times of a task are those from its creation to its start, and from its start to its end.
func TestMetricsOfTheTimesOfATask(t *testing.T) {
	g := NewWithT(t)
	m := NewMetrics(prometheus.NewRegistry())
	created := newTask()
	created.Namespace, created.Spec.OwnerEtcdReference.Name = "ns", "main"
	started := created.DeepCopy()
	status.RecordAdmission(started, "{}", "", epoch.Add(7*time.Second))
	ended := started.DeepCopy()
	status.RecordEnd(ended, tasks.Done, "", "", epoch.Add(10*time.Second))
	m.observe(created, started, epoch.Add(7*time.Second))
	m.observe(started, started, epoch.Add(8*time.Second))
	m.observe(started, ended, epoch.Add(10*time.Second))
	m.observe(ended, ended, epoch.Add(11*time.Second))
	count, sum := seconds(g, m.queued.WithLabelValues("OnDemandSnapshot", "main", "ns"))
	g.Expect([]any{count, sum}).To(Equal([]any{uint64(1), 7.0}))
	count, sum = seconds(g, m.duration.WithLabelValues("OnDemandSnapshot", "succeeded", "main", "ns"))
	g.Expect([]any{count, sum}).To(Equal([]any{uint64(1), 3.0}))
	g.Expect(testutil.ToFloat64(m.total.WithLabelValues("OnDemandSnapshot", "succeeded", "main", "ns"))).To(Equal(1.0))
}

// What held a rollout counts when something else does, or nothing. Its pods count once, as what became of them.
func TestMetricsOfARollout(t *testing.T) {
	labels := labelsOf(types.NamespacedName{Namespace: "ns", Name: "main"})
	held := func(guard v1alpha1.GuardName, pod string, since time.Duration) *v1alpha1.RolloutStatus {
		return &v1alpha1.RolloutStatus{HeldBy: &v1alpha1.Hold{Guard: guard, Pod: pod, Since: metav1.Time{Time: epoch.Add(since)}}}
	}
	for name, c := range map[string]struct {
		before, after *v1alpha1.RolloutStatus
		want          float64
	}{
		"nothing did":               {&v1alpha1.RolloutStatus{}, held("a", "m-0", 0), 0},
		"the same goes on":          {held("a", "m-0", 0), held("a", "m-0", 0), 0},
		"nothing does any more":     {held("a", "m-0", 0), &v1alpha1.RolloutStatus{}, 5},
		"another guard does":        {held("a", "m-0", 0), held("b", "m-0", 5*time.Second), 5},
		"the same, for another pod": {held("a", "m-0", 0), held("a", "m-1", 5*time.Second), 5},
		"the clock has jumped":      {held("a", "m-0", time.Hour), &v1alpha1.RolloutStatus{}, 0},
	} {
		m := NewMetrics(prometheus.NewRegistry())
		before, after := newTask(), newTask()
		for _, t := range []*v1alpha1.EtcdOperatorTask{before, after} {
			t.Namespace, t.Spec.OwnerEtcdReference.Name = "ns", "main"
		}
		before.Status.Rollout, after.Status.Rollout = c.before, c.after
		m.observe(before, after, epoch.Add(5*time.Second))
		if got := testutil.ToFloat64(m.held.With(with(labels, labelGuard, "a"))); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}

	g := NewWithT(t)
	m := NewMetrics(prometheus.NewRegistry())
	in := func(states ...v1alpha1.OperationState) *v1alpha1.RolloutStatus {
		r := &v1alpha1.RolloutStatus{}
		for i, s := range states {
			r.Pods = append(r.Pods, v1alpha1.RolloutPod{UID: types.UID(fmt.Sprint(i)), LastOperation: v1alpha1.LastOperation{Name: "DeletePod", State: s}, Evidence: v1alpha1.Evidence{ObservedAt: metav1.MicroTime{Time: epoch}}})
		}
		return r
	}
	const runs, done, failed = v1alpha1.OperationStateInProgress, v1alpha1.OperationStateCompleted, v1alpha1.OperationStateFailed
	m.observeRollout(labels, nil, in(done), epoch)
	m.observeRollout(labels, in(runs, runs, done, runs, runs, runs), in(runs, failed, done, done, done, done, done), epoch.Add(9*time.Second))
	count, sum := seconds(g, m.replacement.With(labels))
	g.Expect([]any{count, sum}).To(Equal([]any{uint64(3), 27.0}))
	g.Expect(testutil.CollectAndCount(m.inPlace)).To(BeZero())
}

// Each metric goes with its Etcd, and with no other.
func TestMetricsAreForgotten(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	main, other := types.NamespacedName{Namespace: "ns", Name: "main"}, types.NamespacedName{Namespace: "ns", Name: "other"}
	for _, etcd := range []types.NamespacedName{main, other} {
		labels := labelsOf(etcd)
		m.show(etcd, nil)
		ended := with(with(labels, labelType, "a"), labelState, "b")
		m.total.With(ended).Inc()
		m.duration.With(ended).Observe(1)
		m.queued.With(with(labels, labelType, "a")).Observe(1)
		m.replacement.With(labels).Observe(1)
		m.inPlace.With(labels).Inc()
		m.held.With(with(labels, labelGuard, "a")).Inc()
	}
	m.forget(main)
	g.Expect(testutil.GatherAndCount(registry)).To(Equal(8))
	m.forget(other)
	g.Expect(registry.Gather()).To(BeEmpty())
}

// shown is a TaskMetrics: the state of a task as it was last shown, and the end that was counted.
type shown struct{ state, end v1alpha1.TaskState }

func (s *shown) Observe(_, after *v1alpha1.EtcdOperatorTask, _ time.Time) {
	if after.Status.State.IsFinal() {
		s.end = after.Status.State
	}
}

func (s *shown) Show(_ types.NamespacedName, q queue.Queue) {
	if s.state = ""; len(q) > 0 {
		s.state = q[0].Status.State
	}
}

// Further metrics show a task that runs until it has ended, or is gone with its Etcd.
func TestFurtherMetrics(t *testing.T) {
	for _, gone := range []bool{false, true} {
		s := newServer(t)
		s.add(t, "a", running)
		e, further := newEngine(t, s), &shown{}
		e.Metrics = NewMetrics(prometheus.NewRegistry(), further)
		e.look()
		e.Expect(further.state).To(Equal(v1alpha1.TaskStateInProgress))
		if gone {
			s.deleteA(t)
			e.Expect(s.tracker.Delete(t.Context(), etcdOf(""))).To(Succeed())
		} else {
			e.execute = endsAs(tasks.Verdict{Outcome: tasks.Done})
			e.look()
			e.Expect(further.end).To(Equal(v1alpha1.TaskStateSucceeded))
		}
		e.look()
		e.Expect(further.state).To(BeEmpty(), "gone: %t", gone)
	}
}

// Tasks take from less than a second to more than an hour.
func TestBuckets(t *testing.T) {
	g := NewWithT(t)
	g.Expect(buckets[0]).To(BeNumerically("<", time.Second.Seconds()))
	g.Expect(buckets[len(buckets)-1]).To(And(BeNumerically(">", time.Hour.Seconds()), BeNumerically("<", 2*time.Hour.Seconds())))
}
