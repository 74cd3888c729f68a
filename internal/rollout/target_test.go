// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

func TestTargetOf(t *testing.T) {
	for name, c := range map[string]struct {
		taskType v1alpha1.TaskType
		config   string
		recorded string
		want     Target
		reaches  bool
	}{
		"a rollout that has fixed nothing":         {v1alpha1.QuorumAwareRollout, "", "", Target{}, true},
		"one to this revision":                     {v1alpha1.QuorumAwareRollout, "targetRevision: new", "", Target{Revision: "new"}, true},
		"one to another":                           {v1alpha1.QuorumAwareRollout, "targetRevision: old", "", Target{Revision: "old"}, false},
		"one that has fixed another":               {v1alpha1.QuorumAwareRollout, "", "old", Target{Revision: "old"}, false},
		"a restart":                                {v1alpha1.QuorumAwareRollout, "restart: true", "old", Target{"old", true}, true},
		"a recreation to another":                  {v1alpha1.RecreateRollout, "targetRevision: old", "", Target{Revision: "old"}, false},
		"a recreation has no restart":              {v1alpha1.RecreateRollout, "restart: true", "", Target{}, true},
		"a config that does not decode fixes none": {v1alpha1.QuorumAwareRollout, "targetRevision: old\nnonsense: 1", "", Target{}, true},
		"nor does a revision that is too long":     {v1alpha1.RecreateRollout, "targetRevision: " + strings.Repeat("x", 254), "", Target{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			task := &v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: c.taskType, Config: c.config}}
			if c.recorded != "" {
				task.Status.Rollout = &v1alpha1.RolloutStatus{TargetRevision: c.recorded}
			}
			g.Expect(TargetOf(task)).To(Equal(c.want))
			g.Expect(TargetOf(task).Reaches("new")).To(Equal(c.reaches))
		})
	}
}
