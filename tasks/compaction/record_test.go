// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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
		{"a full snapshot was taken since", map[string]string{"revision": "7", "createdOn": told}, at(time.Minute), false},
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

// Between the look at the lease and the write the leading agent may have recorded a newer snapshot: that is not overwritten.
func TestNewerSnapshotIsNotOverwritten(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct{ before, want string }{
		"nothing was recorded":               {"", "7"},
		"the agent has recorded a newer one": {"9", "9"},
	} {
		t.Run(name, func(t *testing.T) {
			g, scheme := NewWithT(t), runtime.NewScheme()
			g.Expect(coordinationv1.AddToScheme(scheme)).To(Succeed())
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-full-snap"}}
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(lease).Build()
			key, read, live := client.ObjectKeyFromObject(lease), &coordinationv1.Lease{}, &coordinationv1.Lease{}
			g.Expect(api.Get(t.Context(), key, read)).To(Succeed())
			if tc.before != "" {
				g.Expect(api.Get(t.Context(), key, live)).To(Succeed())
				live.Spec.HolderIdentity, live.Spec.RenewTime = &tc.before, &metav1.MicroTime{Time: noon.Add(time.Second)}
				g.Expect(api.Update(t.Context(), live)).To(Succeed())
			}
			h := &Handler{Jobs: tasks.Jobs{Client: api, Live: api}}
			err := h.carryOut(t.Context(), recording{read, made{7, noon}})
			g.Expect(apierrors.IsConflict(err)).To(Equal(tc.before != ""), "%v", err)
			g.Expect(api.Get(t.Context(), key, live)).To(Succeed())
			g.Expect(live.Spec.HolderIdentity).To(HaveValue(Equal(tc.want)))
		})
	}
}
