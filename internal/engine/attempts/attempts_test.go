// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package attempts

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBackoff(t *testing.T) {
	for attempt, want := range map[int]time.Duration{1: 10 * time.Second, 2: 20 * time.Second, 4: 80 * time.Second, 7: 10 * time.Minute, 99: 10 * time.Minute} {
		if got := backoff(attempt); got != want {
			t.Errorf("attempt %d: %s, want %s", attempt, got, want)
		}
	}
}

// The clock of the operator that ended the last attempt may be ahead, or behind.
func TestTheNextAttemptWaitsForNoClock(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		ended time.Duration
		want  time.Duration
	}{
		"a moment ago":    {-time.Second, 19 * time.Second},
		"long ago":        {-time.Hour, 0},
		"in five seconds": {5 * time.Second, 20 * time.Second},
		"in an hour":      {time.Hour, 20 * time.Second},
	} {
		failed := v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: "main-rollout-2"}}
		failed.Spec.Type = v1alpha1.QuorumAwareRollout
		failed.Status.State, failed.Status.CompletedAt = v1alpha1.TaskStateFailed, &metav1.Time{Time: now.Add(c.ended)}
		attempt, wait := Next([]v1alpha1.EtcdOperatorTask{failed}, v1alpha1.QuorumAwareRollout, "main-rollout-", now)
		if attempt != 3 || wait != c.want {
			t.Errorf("%s: attempt %d after %s, want %s", name, attempt, wait, c.want)
		}
	}
}
