// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
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
