// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package servedcrd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the API server stores in another form, such as a time without nanoseconds, and what it adds, is kept.
func TestCheckKept(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 7, 1, 12, 0, 0, 5, time.FixedZone("east", 3600)))
	written := func() *v1alpha1.EtcdOperatorTaskStatus {
		return &v1alpha1.EtcdOperatorTaskStatus{
			State: v1alpha1.TaskStateInProgress, InitiatedAt: &now, Conditions: []metav1.Condition{{Type: "A"}, {Type: "B"}},
			Rollout: &v1alpha1.RolloutStatus{TargetRevision: "m-1", Pods: []v1alpha1.RolloutPod{{Name: "m-0"}, {Name: "m-1", UID: "u"}}},
		}
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.EtcdOperatorTaskStatus)
		lost   string
	}{
		"all of it": {func(*v1alpha1.EtcdOperatorTaskStatus) {}, ""},
		"the same time": {func(s *v1alpha1.EtcdOperatorTaskStatus) {
			s.InitiatedAt = &metav1.Time{Time: now.UTC().Truncate(time.Second)}
		}, ""},
		"more":              {func(s *v1alpha1.EtcdOperatorTaskStatus) { s.Progress = "1/2" }, ""},
		"an empty list":     {func(s *v1alpha1.EtcdOperatorTaskStatus) { s.LastErrors = []v1alpha1.LastError{} }, ""},
		"no object":         {func(s *v1alpha1.EtcdOperatorTaskStatus) { s.Rollout = nil }, "status.rollout"},
		"no field":          {func(s *v1alpha1.EtcdOperatorTaskStatus) { s.Rollout.Pods[1].UID = "" }, "status.rollout.pods[1].uid"},
		"another value":     {func(s *v1alpha1.EtcdOperatorTaskStatus) { s.State = v1alpha1.TaskStatePending }, "status.state"},
		"a shorter list":    {func(s *v1alpha1.EtcdOperatorTaskStatus) { s.Conditions = s.Conditions[:1] }, "status.conditions"},
		"a field of a list": {func(s *v1alpha1.EtcdOperatorTaskStatus) { s.Conditions[1].Type = "" }, "status.conditions[1].type"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			kept := written()
			c.change(kept)
			if err := CheckKept(written(), kept); c.lost == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(HavePrefix("the API server has not kept " + c.lost + ": ")))
			}
		})
	}
}
