// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
)

// Where a cluster begins is recorded above what is there, however others write the lease in between, or not at all.
func TestWhereAClusterBeginsIsRecorded(t *testing.T) {
	g := NewWithT(t)
	s, config := serveOne(t)
	record, err := Begins(config, "ns", "full")
	g.Expect(err).NotTo(HaveOccurred())
	above := func(began int64) int64 { return began + 10 }
	g.Expect(record(t.Context(), above)).To(BeEquivalentTo(10))
	g.Expect(record(t.Context(), above)).To(BeEquivalentTo(20))
	g.Expect(s.lease.Annotations).To(Equal(map[string]string{"other": "stays", v1alpha1.AnnotationBeganAt: "20"}))
	g.Expect(s.lease.Spec).To(BeZero())
	patches := s.patches
	g.Expect(record(t.Context(), func(began int64) int64 { return began })).To(BeEquivalentTo(20))
	g.Expect(s.patches).To(Equal(patches), "nothing is written to look")

	s.between = func() {
		s.between = nil
		s.change(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationBeganAt] = "70" })
	}
	g.Expect(record(t.Context(), above)).To(BeEquivalentTo(80), "another agent was faster")
	s.between = func() { s.change(func(*coordinationv1.Lease) {}) }
	_, err = record(t.Context(), above)
	g.Expect(err).To(MatchError(ContainSubstring("patching lease full")))
	g.Expect(s.lease.Annotations[v1alpha1.AnnotationBeganAt]).To(Equal("80"))
	s.between = nil

	s.lost = true
	_, err = record(t.Context(), above)
	g.Expect(err).To(MatchError(ContainSubstring("patching lease full")))
	s.lost = false
	g.Expect(record(t.Context(), above)).To(BeEquivalentTo(100), "the answer was lost, and not the record")

	for _, wrong := range []string{"many", "-7", "92233720368547758070"} {
		s.change(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationBeganAt] = wrong })
		g.Expect(record(t.Context(), above)).To(BeEquivalentTo(10), wrong)
		g.Expect(s.lease.Annotations[v1alpha1.AnnotationBeganAt]).To(Equal("10"), wrong)
	}
	s.gone = true
	_, err = record(t.Context(), above)
	g.Expect(err).To(MatchError(ContainSubstring("reading lease full")), "the operator makes it first")
}
