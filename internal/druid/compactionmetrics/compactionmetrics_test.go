// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package compactionmetrics

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func task(taskType v1alpha1.TaskType, state v1alpha1.TaskState, codes ...v1alpha1.ErrorCode) *v1alpha1.EtcdOperatorTask {
	t := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	t.Spec.Type, t.Status.State, t.Status.InitiatedAt = taskType, state, &metav1.Time{Time: start}
	for _, code := range codes {
		t.Status.LastErrors = append(t.Status.LastErrors, v1alpha1.LastError{Code: code})
	}
	return t
}

func TestEnds(t *testing.T) {
	running, failed, succeeded := v1alpha1.TaskStateInProgress, v1alpha1.TaskStateFailed, v1alpha1.TaskStateSucceeded
	for name, tc := range map[string]struct {
		after     *v1alpha1.EtcdOperatorTask
		succeeded string
		reason    string // empty: nothing is counted
	}{
		"succeeded":    {task(v1alpha1.OnDemandCompaction, succeeded), "true", "none"},
		"out of time":  {task(v1alpha1.OnDemandCompaction, failed, v1alpha1.ErrJob, v1alpha1.ErrDeadlineExceeded), "false", "deadlineExceeded"},
		"the agent":    {task(v1alpha1.OnDemandCompaction, failed, v1alpha1.ErrJobFailed), "false", "processFailure"},
		"no image":     {task(v1alpha1.OnDemandCompaction, failed, v1alpha1.ErrJobImage), "false", "unknown"},
		"without code": {task(v1alpha1.OnDemandCompaction, failed), "false", "unknown"},
		"rejected":     {task(v1alpha1.OnDemandCompaction, v1alpha1.TaskStateRejected), "false", ""},
		"still going":  {task(v1alpha1.OnDemandCompaction, running), "false", ""},
		"another type": {task(v1alpha1.OnDemandMaintenance, succeeded), "true", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			registry := prometheus.NewRegistry()
			m := New(registry)
			m.Observe(task(tc.after.Spec.Type, running), tc.after, start.Add(90*time.Second))
			m.Observe(tc.after, tc.after, start.Add(time.Hour))
			if tc.reason == "" {
				g.Expect(registry.Gather()).To(BeEmpty())
				return
			}
			g.Expect(testutil.ToFloat64(m.jobs.WithLabelValues(tc.succeeded, tc.reason, "ns"))).To(Equal(1.0))
			g.Expect(testutil.CollectAndCount(m.duration)).To(Equal(1))
		})
	}
}

// Only full snapshots that the operator requested count.
func TestFullSnapshots(t *testing.T) {
	g := NewWithT(t)
	m := New(prometheus.NewRegistry())
	before, after := task(v1alpha1.OnDemandSnapshot, v1alpha1.TaskStateInProgress), task(v1alpha1.OnDemandSnapshot, v1alpha1.TaskStateSucceeded)
	m.Observe(before, after, start)
	g.Expect(testutil.CollectAndCount(m.fullSnapshots)).To(BeZero())
	after.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	m.Observe(before, after, start)
	g.Expect(testutil.ToFloat64(m.fullSnapshots.WithLabelValues("true", "ns"))).To(Equal(1.0))
}

func TestRunning(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	m := New(registry)
	one, two := types.NamespacedName{Namespace: "ns", Name: "one"}, types.NamespacedName{Namespace: "ns", Name: "two"}
	compacting := queue.New([]*v1alpha1.EtcdOperatorTask{task(v1alpha1.OnDemandCompaction, v1alpha1.TaskStateInProgress)})
	m.Show(one, compacting)
	m.Show(one, compacting)
	m.Show(two, compacting)
	g.Expect(testutil.ToFloat64(m.running.gauge.WithLabelValues("ns"))).To(Equal(2.0))
	m.Show(one, nil)
	g.Expect(testutil.ToFloat64(m.running.gauge.WithLabelValues("ns"))).To(Equal(1.0))
	m.Show(two, nil)
	g.Expect(registry.Gather()).To(BeEmpty())
}
