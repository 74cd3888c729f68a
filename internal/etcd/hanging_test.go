// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestWhoHangs(t *testing.T) {
	g := NewWithT(t)
	answers := cluster.Ordinal{Pod: &cluster.Pod{}, Answers: true}
	silent := cluster.Ordinal{Pod: &cluster.Pod{}}
	of := func(all ...cluster.Ordinal) *cluster.Snapshot { return &cluster.Snapshot{Ordinals: all} }
	g.Expect(hangs(of(answers, silent), hangsAfter)).To(BeTrue())
	g.Expect(hangs(of(answers, silent), hangsAfter-1)).To(BeFalse(), "it refuses connections")
	g.Expect(hangs(of(answers, answers), hangsAfter)).To(BeFalse(), "it is slow")
	g.Expect(hangs(of(answers, cluster.Ordinal{}), hangsAfter)).To(BeFalse(), "it has no pod")
	g.Expect(hangs(nil, hangsAfter)).To(BeFalse(), "nothing was observed")
}

func TestWaitsForThoseThatHang(t *testing.T) {
	g := NewWithT(t)
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	h := hanging{}
	g.Expect(h.wait()).To(BeZero())
	look := func(after time.Duration) time.Duration {
		now = now.Add(after)
		h = h.next(true, now)
		return h.wait()
	}
	wait := time.Duration(0)
	for _, want := range []time.Duration{2, 4, 8, 16, 30, 30, 30} {
		wait = look(wait + time.Second)
		g.Expect(wait).To(Equal(want * time.Second))
	}
	g.Expect(look(wait-1)).To(Equal(pollTroubled), "something has changed in the meantime")
	g.Expect(look(pollTroubled)).To(Equal(2 * pollTroubled))
	g.Expect(h.next(false, now)).To(Equal(hanging{}), "its members answer again")
}

// An Etcd whose members hang waits longer and longer, but not while the change to RollingUpdate waits for a member: how long that has
// been away counts only if it is observed without a gap.
func TestWaitOfAPass(t *testing.T) {
	for name, tc := range map[string]struct {
		hanging   hanging
		rollWaits bool
		want      time.Duration
	}{
		"its members answer": {hanging{}, false, pollTroubled},
		"they hang":          {hanging{times: 3}, false, 8 * time.Second},
		"a timer runs":       {hanging{times: 3}, true, pollTroubled},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
			scheme := runtime.NewScheme()
			g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).Build()
			g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			p := &pass{parts: &parts{Access: state.Access{Clock: clock.RealClock{}}, status: statusWriter{client: c, clock: clock.RealClock{}, recorder: events.NewFakeRecorder(100)}}, etcd: etcd, session: &apply.Session{}, rollWaits: tc.rollWaits}
			p.found.State = &state.State{Etcd: etcd, Snapshot: &cluster.Snapshot{Ordinals: []cluster.Ordinal{{Name: "main-0", Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{}}}}}
			p.hanging.Set(etcd, tc.hanging)
			after, err := p.writeStatus(t.Context(), true)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(after).To(Equal(tc.want))
		})
	}
}
