// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A snapshot that failed is retried after a while, and at once by a clock that has jumped.
func TestSnapshotIsAwaited(t *testing.T) {
	failed := Backup{Failed: "the store is full", FailedAt: noon}
	for name, c := range map[string]struct {
		state Backup
		at    time.Duration
		waits bool
	}{
		"nothing is known":      {Backup{}, 0, false},
		"it is being taken":     {Backup{Running: true}, 0, true},
		"it has just failed":    {failed, 0, true},
		"a moment before retry": {failed, snapshotRetry - 1, true},
		"it is retried":         {failed, snapshotRetry, false},
		"the clock has jumped":  {failed, -1, false},
	} {
		if got := c.state.waiting("why", noon.Add(c.at)); (got != "") != c.waits {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The record keeps when the snapshot was first asked for.
func TestSnapshotIsRecorded(t *testing.T) {
	g := NewWithT(t)
	later := noon.Add(time.Minute)
	g.Expect(Backup{}.record(nil, false, noon)).To(BeNil())
	g.Expect(Backup{Taken: "a"}.record(nil, false, noon)).To(BeNil(), "it was not asked for")
	asked := Backup{}.record(nil, true, noon)
	g.Expect(*asked).To(Equal(v1alpha1.RolloutSnapshot{State: v1alpha1.OperationStateInProgress, RequestedAt: metav1.Time{Time: noon}}))
	g.Expect(Backup{}.record(asked, true, later)).To(Equal(asked), "it is asked for again")
	taken := Backup{Taken: "a"}.record(asked, false, later)
	g.Expect(*taken).To(Equal(v1alpha1.RolloutSnapshot{State: v1alpha1.OperationStateCompleted, RequestedAt: metav1.Time{Time: noon}, Name: "a"}))
	g.Expect(Backup{Configured: true}.isMissing(asked)).To(BeTrue())
	g.Expect(Backup{Configured: true}.isMissing(taken)).To(BeFalse())
}
