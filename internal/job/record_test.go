// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// The record is the snapshot that was taken last, whatever the revision of a full one. A delta continues a full one: etcd-druid renews its Lease
// without one.
func TestRecordArgs(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	lease := func(name, holder string, at time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: ptr.To(metav1.NewMicroTime(at))},
		}
	}
	live := func(leases ...client.Object) client.Client {
		return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(leases...).Build()
	}
	g.Expect(RecordArgs(t.Context(), live(), etcd)).To(BeEmpty())
	both := live(lease("main-full-snap", "100", noon.Add(time.Hour)), lease("main-delta-snap", "200", noon))
	g.Expect(RecordArgs(t.Context(), both, etcd)).To(Equal([]string{"--recorded-revision=100", "--recorded-created=2026-07-01T13:00:00Z"}))
	renewed := live(lease("main-full-snap", "300", noon), lease("main-delta-snap", "200", noon.Add(time.Hour)))
	g.Expect(RecordArgs(t.Context(), renewed, etcd)).To(Equal([]string{"--recorded-revision=300", "--recorded-created=2026-07-01T12:00:00Z"}))
	_, err := RecordArgs(t.Context(), live(lease("main-full-snap", "x", noon)), etcd)
	g.Expect(err).To(MatchError(ContainSubstring("lease ns/main-full-snap")))
}
