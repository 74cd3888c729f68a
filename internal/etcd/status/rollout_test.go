// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRolloutTask(t *testing.T) {
	task := func(name string, state v1alpha1.TaskState, target string, age time.Duration, change ...func(*v1alpha1.EtcdOperatorTask)) v1alpha1.EtcdOperatorTask {
		t := v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-age))}}
		t.Spec.Type, t.Status.State = v1alpha1.QuorumAwareRollout, state
		if target != "" {
			t.Status.Rollout = &v1alpha1.RolloutStatus{TargetRevision: target}
		}
		for _, c := range change {
			c(&t)
		}
		return t
	}
	snapshot := func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Type = v1alpha1.OnDemandSnapshot }
	recreate := func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Type = v1alpha1.RecreateRollout }
	const pending, running, done = v1alpha1.TaskStatePending, v1alpha1.TaskStateInProgress, v1alpha1.TaskStateSucceeded
	for _, tc := range []struct {
		name  string
		tasks []v1alpha1.EtcdOperatorTask
		want  string
	}{
		{"none", nil, ""},
		{"finished, and of another type", []v1alpha1.EtcdOperatorTask{task("a", done, "new", 1), task("b", pending, "", 1, snapshot)}, ""},
		{"to another revision", []v1alpha1.EtcdOperatorTask{task("a", running, "old", 1)}, ""},
		{"shows the revision", []v1alpha1.EtcdOperatorTask{task("a", running, "new", 2), task("b", pending, "", 1)}, "a"},
		{"new, while the old one ends", []v1alpha1.EtcdOperatorTask{task("a", running, "old", 2), task("b", "", "", 1)}, "b"},
		{"none shows a revision", []v1alpha1.EtcdOperatorTask{task("a", pending, "", 1), task("b", pending, "", 2)}, "a"},
		{"none shows a revision, in another order", []v1alpha1.EtcdOperatorTask{task("a", pending, "", 2), task("b", pending, "", 1)}, "b"},
		{"of the other type", []v1alpha1.EtcdOperatorTask{task("a", running, "new", 1, recreate)}, "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			got := ""
			if task := rolloutTask(tc.tasks, "new"); task != nil {
				got = task.Name
			}
			g.Expect(got).To(Equal(tc.want))
		})
	}
}
