// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package hibernation

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/controller/etcd/state"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func setOf(replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(replicas)}}
}

func etcdOf(replicas int32, policy v1alpha1.PersistentVolumeClaimRetentionPolicy) *v1alpha1.Etcd {
	return &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: replicas, PersistentVolumeClaimRetentionPolicy: &policy}}
}

func TestBlocked(t *testing.T) {
	onScaling := v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
	backedUp := etcdOf(0, onScaling)
	backedUp.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
	unusable, failing := backedUp.DeepCopy(), backedUp.DeepCopy()
	unusable.Spec.Backup.Store.Provider = "tape"
	failing.Status.Conditions.Set(conditions.False(v1alpha1.ConditionBackupReady, v1alpha1.ReasonBackupFailed, "The last snapshot failed: no space left."))
	for name, tc := range map[string]struct {
		etcd *v1alpha1.Etcd
		set  *appsv1.StatefulSet
		want string // empty: it may hibernate
	}{
		"volumes are kept":                  {etcdOf(0, v1alpha1.PersistentVolumeClaimRetentionPolicy{}), setOf(3), ""},
		"volumes deleted, without a backup": {etcdOf(0, onScaling), setOf(3), "there is no backup to wake up from"},
		"volumes deleted, without a driver": {unusable, setOf(3), "is not supported"},
		"volumes deleted, backups fail":     {failing, setOf(3), "snapshots fail: The last snapshot failed: no space left; to hibernate it"},
		"volumes deleted, with backups":     {backedUp, setOf(3), ""},
		"backups fail, hibernated":          {failing, setOf(0), ""},
		"already hibernated":                {etcdOf(0, onScaling), setOf(0), ""},
		"never started":                     {etcdOf(0, onScaling), nil, ""},
		"not to hibernate":                  {etcdOf(3, onScaling), setOf(3), ""},
	} {
		t.Run(name, func(t *testing.T) {
			why := Blocked(tc.etcd, tc.set)
			if (why == "") != (tc.want == "") || !strings.Contains(why, tc.want) {
				t.Errorf("%q", why)
			}
		})
	}
}

// apiServer returns a fake API server with some objects.
func apiServer(g Gomega, objects ...client.Object) *fake.ClientBuilder {
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	g.Expect(corev1.AddToScheme(scheme)).To(Succeed())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
}

// slow is an API server with delayed answers.
type slow struct {
	client.Reader
	clock *clocktesting.FakePassiveClock
	takes time.Duration
}

func (s slow) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	s.clock.SetTime(s.clock.Now().Add(s.takes))
	return s.Reader.Get(ctx, key, into, options...)
}

// Claims are deleted only by the record of the live Etcd, and not by an operator that was paused.
func TestRecordedClaimsAreDeleted(t *testing.T) {
	record := &v1alpha1.Hibernation{ID: "job", Claims: []v1alpha1.HibernatedClaim{{Name: "claim", UID: "uid"}}}
	for name, tc := range map[string]struct {
		live    *v1alpha1.Hibernation
		takes   time.Duration
		deleted bool
	}{
		"given up":                   {record, time.Second, true},
		"of a cluster that woke up":  {nil, time.Second, false},
		"of another hibernation":     {&v1alpha1.Hibernation{ID: "other"}, time.Second, false},
		"and the operator is paused": {record, 5 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, now := NewWithT(t), clocktesting.NewFakePassiveClock(noon)
			cached := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
			live := cached.DeepCopy()
			cached.Status.Hibernation, live.Status.Hibernation = record, tc.live
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "uid", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"}}}
			api := apiServer(g, live, claim).Build()
			h := Hibernator{Access: state.Access{Client: api, API: slow{api, now, tc.takes}, Clock: now}}
			err := h.deleteClaims(t.Context(), cached, record.Claims)
			g.Expect(err).To(Or(BeNil(), MatchError(state.ErrBehind)))
			err = api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)
			g.Expect(apierrors.IsNotFound(err)).To(Equal(tc.deleted))
		})
	}
}
