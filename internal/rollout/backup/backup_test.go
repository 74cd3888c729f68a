// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// A snapshot that failed is retried after a while, and at once by a clock that has jumped.
func TestWaiting(t *testing.T) {
	failed := State{Failed: "the store is full", FailedAt: noon}
	for name, c := range map[string]struct {
		state State
		at    time.Duration
		waits bool
	}{
		"nothing is known":      {State{}, 0, false},
		"it is being taken":     {State{Running: true}, 0, true},
		"it has just failed":    {failed, 0, true},
		"a moment before retry": {failed, retry - 1, true},
		"it is retried":         {failed, retry, false},
		"the clock has jumped":  {failed, -1, false},
	} {
		if got := c.state.Waiting("why", noon.Add(c.at)); (got != "") != c.waits {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The record keeps when the snapshot was first asked for.
func TestRecord(t *testing.T) {
	g := NewWithT(t)
	later := noon.Add(time.Minute)
	g.Expect(State{}.Record(nil, false, noon)).To(BeNil())
	g.Expect(State{Taken: "a"}.Record(nil, false, noon)).To(BeNil(), "nobody has asked for it")
	asked := State{}.Record(nil, true, noon)
	g.Expect(*asked).To(Equal(v1alpha1.RolloutSnapshot{State: v1alpha1.OperationStateInProgress, RequestedAt: metav1.Time{Time: noon}}))
	g.Expect(State{}.Record(asked, true, later)).To(Equal(asked), "it is asked for again")
	taken := State{Taken: "a"}.Record(asked, false, later)
	g.Expect(*taken).To(Equal(v1alpha1.RolloutSnapshot{State: v1alpha1.OperationStateCompleted, RequestedAt: metav1.Time{Time: noon}, Name: "a"}))
	g.Expect(State{Configured: true}.IsMissing(asked)).To(BeTrue())
	g.Expect(State{Configured: true}.IsMissing(taken)).To(BeFalse())
}
