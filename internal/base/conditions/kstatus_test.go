// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	"github.com/etcd-foreman/etcd-foreman/test/kstatus"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTasksByTheRulesOfKstatus(t *testing.T) {
	at := metav1.Time{Time: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	set := func(task *v1alpha1.EtcdOperatorTask, condition metav1.Condition) {
		condition.LastTransitionTime = at
		meta.SetStatusCondition(&task.Status.Conditions, condition)
	}
	for name, c := range map[string]struct {
		state  v1alpha1.TaskState
		reason string
		want   kstatus.Status
	}{
		"seen":       {v1alpha1.TaskStatePending, "", kstatus.InProgress},
		"queued":     {v1alpha1.TaskStatePending, v1alpha1.ReasonQueued, kstatus.InProgress},
		"suspended":  {v1alpha1.TaskStatePending, v1alpha1.ReasonSuspended, kstatus.InProgress},
		"running":    {v1alpha1.TaskStateInProgress, v1alpha1.ReasonRunning, kstatus.InProgress},
		"held":       {v1alpha1.TaskStateInProgress, v1alpha1.ReasonHeld, kstatus.InProgress},
		"stalled":    {v1alpha1.TaskStateInProgress, v1alpha1.ReasonStalled, kstatus.Failed},
		"goes on":    {v1alpha1.TaskStateInProgress, v1alpha1.ReasonRunning, kstatus.InProgress},
		"succeeded":  {v1alpha1.TaskStateSucceeded, v1alpha1.ReasonSucceeded, kstatus.Current},
		"recreated":  {v1alpha1.TaskStateSucceeded, v1alpha1.ReasonRecreateComplete, kstatus.Current},
		"failed":     {v1alpha1.TaskStateFailed, v1alpha1.ReasonFailed, kstatus.Failed},
		"rejected":   {v1alpha1.TaskStateRejected, v1alpha1.ReasonRejected, kstatus.Failed},
		"late error": {v1alpha1.TaskStateFailed, v1alpha1.ReasonStalled, kstatus.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			task := &v1alpha1.EtcdOperatorTask{}
			task.Generation, task.Status.ObservedGeneration, task.Status.State = 2, 2, c.state
			if c.reason != "" {
				set(task, conditions.True(v1alpha1.ConditionProgressing, c.reason, "because"))
			}
			for _, condition := range conditions.OfTask(&task.Status) {
				g.Expect(condition.Reason).NotTo(BeEmpty(), "the API server requires a reason")
				g.Expect(condition.Status).To(Equal(metav1.ConditionTrue), "they are absent when all is well")
				set(task, condition)
			}
			task.Spec.Suspend = c.reason == v1alpha1.ReasonSuspended
			data, err := json.MarshalIndent(task, "", "  ")
			g.Expect(err).NotTo(HaveOccurred())
			golden.Check(t, "kstatus-"+strings.ReplaceAll(name, " ", "-")+".json", append(data, '\n'))
			got, message, err := kstatus.Compute(task)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(c.want))
			if c.reason != "" && c.want != kstatus.Current {
				g.Expect(message).To(Equal("because"))
			}
		})
	}
}
