// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/tasks"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatTheLeaseIsToTell(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	const told = "2026-07-01T12:00:00Z"
	at := func(d time.Duration) *metav1.MicroTime { return &metav1.MicroTime{Time: noon.Add(d)} }
	for _, tc := range []struct {
		name   string
		result map[string]string
		lease  *metav1.MicroTime
		want   bool
	}{
		{"first snapshot of all", map[string]string{"revision": "7", "createdOn": told}, nil, true},
		{"newer than the lease's", map[string]string{"revision": "7", "createdOn": told}, at(-time.Second), true},
		{"recorded already", map[string]string{"revision": "7", "createdOn": told}, at(0), false},
		{"a full snapshot was taken meanwhile", map[string]string{"revision": "7", "createdOn": told}, at(time.Minute), false},
		{"no revision", map[string]string{"createdOn": told}, nil, false},
		{"no time", map[string]string{"revision": "7"}, nil, false},
	} {
		snapshot, ok := madeBy(tc.result)
		got := ok && snapshot.isNews(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: tc.lease}})
		if got != tc.want {
			t.Errorf("%s: to be recorded: %v", tc.name, got)
		}
	}
}

// Beside an operator whose agents own the lease, it is neither read nor written.
func TestLeaseOfOtherAgentsIsNotWritten(t *testing.T) {
	h := &Handler{SkipLease: true}
	v, err := h.record(t.Context(), tasks.Task{}, tasks.Verdict{
		Outcome: tasks.Done, Message: "compacted", Result: map[string]string{"revision": "7", "createdOn": "2026-07-01T12:00:00Z"},
	})
	if err != nil || v.Outcome != tasks.Done || v.Step != nil || !strings.Contains(v.Message, "the agents of the Etcd write it") {
		t.Errorf("verdict %+v, error %v", v, err)
	}
}
