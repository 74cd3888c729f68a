// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Leases of Etcds that are gone are not remembered for ever; one that is read again counts from then.
func TestLeasesAreForgotten(t *testing.T) {
	g := NewWithT(t)
	var r renewals
	at := time.Unix(1000, 0)
	lease := func(uid string, renewed time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("1:Leader"), RenewTime: &metav1.MicroTime{Time: renewed},
		}}
	}
	for i := range 1000 {
		r.leaseRole(lease(fmt.Sprint(i), at), at)
	}
	later := at.Add(time.Hour)
	g.Expect(r.leaseRole(lease("0", later), later)).To(Equal(v1alpha1.RoleUnknown), "it was not read for an hour")
	g.Expect(r.seen).To(HaveLen(1))
	for second := range 1000 {
		later = later.Add(time.Second)
		g.Expect(r.leaseRole(lease("0", later), later)).To(Equal(v1alpha1.RoleLeader), "after %ds", second)
	}
}

// A lease of the right name and with the right labels may be another owner's.
func TestForeignLeasesSayNothing(t *testing.T) {
	for owner, want := range map[types.UID]v1alpha1.Role{"etcd": v1alpha1.RoleLeader, "earlier": v1alpha1.RoleUnknown, "": v1alpha1.RoleUnknown} {
		g := NewWithT(t)
		now := time.Unix(1000, 0)
		etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "etcd"}}
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m-0", Labels: map[string]string{v1alpha1.LabelPartOf: "m", v1alpha1.LabelComponent: v1alpha1.ComponentMemberLease}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("1:Leader"), RenewTime: &metav1.MicroTime{Time: now}},
		}
		if owner != "" {
			lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "m", UID: owner, Controller: ptr.To(true)}}
		}
		ordinals := []cluster.Ordinal{{Name: "m-0", Member: "m-0", LeaseRole: v1alpha1.RoleUnknown}}
		o := New(nil, clocktesting.NewFakePassiveClock(now), FromAfar())
		g.Expect(o.readLeases(t.Context(), fake.NewClientBuilder().WithObjects(lease).Build(), etcd, ordinals)).To(Succeed())
		g.Expect(ordinals[0].LeaseRole).To(Equal(want), "controlled by %q", owner)
	}
}

// What agents have read is believed of the Etcd's own leases, and only if it was written for this Etcd.
func TestReads(t *testing.T) {
	for name, c := range map[string]struct {
		owner types.UID
		text  string
		want  cluster.Read
	}{
		"read":                      {"etcd", `{"etcd":"etcd","generation":7,"leaving":true}`, cluster.Read{Etcd: "etcd", Generation: 7, Leaving: true}},
		"read for an earlier Etcd":  {"etcd", `{"etcd":"earlier","generation":7,"leaving":true}`, cluster.Read{}},
		"nothing was read":          {"etcd", "", cluster.Read{}},
		"in the lease of something": {"other", `{"etcd":"etcd","generation":7,"leaving":true}`, cluster.Read{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "etcd"}}
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "m-0", Labels: map[string]string{v1alpha1.LabelPartOf: "m", v1alpha1.LabelComponent: v1alpha1.ComponentMemberLease},
				Annotations:     map[string]string{v1alpha1.AnnotationMembersRead: c.text},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "m", UID: c.owner, Controller: ptr.To(true)}},
			}}
			s := &cluster.Snapshot{Ordinals: []cluster.Ordinal{{Name: "m-0", Member: "m-0"}, {Name: "m-1", Member: "m-1"}}}
			o := New(nil, clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
			g.Expect(o.Reads(t.Context(), fake.NewClientBuilder().WithObjects(lease).Build(), etcd, s)).To(Succeed())
			g.Expect(s.Ordinals[0].Read).To(Equal(c.want))
			g.Expect(s.Ordinals[1].Read).To(Equal(cluster.Read{}))
		})
	}
}
