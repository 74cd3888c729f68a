// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// owned is the Etcd whose lease serveOne has after owns.
var owned = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "uid"}}

// owns has an Etcd control the lease.
func (s *versioned) owns(uid types.UID) {
	s.change(func(l *coordinationv1.Lease) {
		l.Namespace, l.Name = "ns", "main-full-snap"
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "main", UID: uid, Controller: ptr.To(true)}}
	})
}

// Where a cluster begins is recorded above what is there, however others write the lease in between, or not at all.
func TestWhereAClusterBeginsIsRecorded(t *testing.T) {
	g := NewWithT(t)
	s, config := serveOne(t)
	s.owns("uid")
	record, err := Begins(config, owned, "main-full-snap")
	g.Expect(err).NotTo(HaveOccurred())
	above := func(began int64, _ bool) int64 { return began + 10 }
	g.Expect(record(t.Context(), "one", above)).To(BeEquivalentTo(10))
	g.Expect(record(t.Context(), "two", above)).To(BeEquivalentTo(20))
	g.Expect(s.lease.Annotations).To(Equal(map[string]string{"other": "stays", v1alpha1.AnnotationBeganAt: "20", v1alpha1.AnnotationBeganWith: "two"}))
	g.Expect(s.lease.Spec).To(BeZero())
	patches := s.patches
	g.Expect(record(t.Context(), "", func(began int64, _ bool) int64 { return began })).To(BeEquivalentTo(20))
	g.Expect(s.patches).To(Equal(patches), "nothing is written to look")

	s.between = func() {
		s.between = nil
		s.change(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationBeganAt] = "70" })
	}
	g.Expect(record(t.Context(), "two", above)).To(BeEquivalentTo(80), "another agent was faster")
	s.between = func() { s.change(func(*coordinationv1.Lease) {}) }
	_, err = record(t.Context(), "two", above)
	g.Expect(err).To(MatchError(ContainSubstring("patching lease main-full-snap")))
	g.Expect(s.lease.Annotations[v1alpha1.AnnotationBeganAt]).To(Equal("80"))
	s.between = nil

	s.lost = true
	_, err = record(t.Context(), "two", above)
	g.Expect(err).To(MatchError(ContainSubstring("patching lease main-full-snap")))
	s.lost = false
	g.Expect(record(t.Context(), "two", above)).To(BeEquivalentTo(100), "the answer was lost, and not the record")

	for _, wrong := range []string{"many", "-7", "92233720368547758070"} {
		s.change(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationBeganAt] = wrong })
		g.Expect(record(t.Context(), "two", above)).To(BeEquivalentTo(10), wrong)
		g.Expect(s.lease.Annotations[v1alpha1.AnnotationBeganAt]).To(Equal("10"), wrong)
	}
	s.gone = true
	_, err = record(t.Context(), "two", above)
	g.Expect(err).To(MatchError(And(HavePrefix("Lease ns/main-full-snap does not exist: the operator recreates it, unless"), ContainSubstring(v1alpha1.AnnotationSuspendSpecReconcile))))
}

// A start that is repeated is told from the next one, also where that begins at the same revision or below. What is recorded is not lowered.
func TestAStartThatIsRepeatedIsRecognized(t *testing.T) {
	g := NewWithT(t)
	s, config := serveOne(t)
	s.owns("uid")
	record, err := Begins(config, owned, "main-full-snap")
	g.Expect(err).NotTo(HaveOccurred())
	again := map[string]bool{}
	begins := func(token string, revision int64) {
		got, err := record(t.Context(), token, func(_ int64, repeated bool) int64 { again[token] = repeated; return revision })
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got).To(Equal(revision))
	}
	begins("first", 50)
	begins("second", 50)
	begins("second", 50)
	g.Expect(again).To(Equal(map[string]bool{"first": false, "second": true}))
	begins("third", 40)
	g.Expect(again).To(HaveKeyWithValue("third", false))
	g.Expect(s.lease.Annotations).To(And(HaveKeyWithValue(v1alpha1.AnnotationBeganAt, "50"), HaveKeyWithValue(v1alpha1.AnnotationBeganWith, "third")))
	s.change(func(l *coordinationv1.Lease) { delete(l.Annotations, v1alpha1.AnnotationBeganWith) })
	begins("", 50)
	g.Expect(again).To(HaveKeyWithValue("", false), "agents of before record no token")
}

// A restore while an Etcd is handed back goes on: the Lease is still its own.
func TestALeaseThatIsHandedBackRecords(t *testing.T) {
	g := NewWithT(t)
	s, config := serveOne(t)
	s.owns("uid")
	s.change(func(l *coordinationv1.Lease) {
		l.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid}
	})
	record, err := Begins(config, owned, "main-full-snap")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(record(t.Context(), "token", func(int64, bool) int64 { return 80 })).To(BeEquivalentTo(80))
	g.Expect(s.lease.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationBeganAt, "80"))
}

// A lease of that name that is not the Etcd's own is neither read nor written, and the error says whose it is and what to do.
func TestAForeignLeaseRecordsNothing(t *testing.T) {
	for uid, says := range map[types.UID]string{
		"earlier": "Lease ns/main-full-snap is controlled by an earlier Etcd of this name (UID earlier): wait until the garbage collector has removed it",
		"":        "Lease ns/main-full-snap has no controller: give the Etcd another name, or delete the Lease if it is unused",
	} {
		g := NewWithT(t)
		s, config := serveOne(t)
		s.owns(uid)
		s.change(func(l *coordinationv1.Lease) {
			l.Annotations[v1alpha1.AnnotationBeganAt] = "70"
			if uid == "" {
				l.OwnerReferences = nil
			}
		})
		record, err := Begins(config, owned, "main-full-snap")
		g.Expect(err).NotTo(HaveOccurred())
		_, err = record(t.Context(), "token", func(int64, bool) int64 { t.Error("it is read"); return 80 })
		g.Expect(err).To(MatchError(says))
		g.Expect(s.patches).To(BeZero())
	}
}
