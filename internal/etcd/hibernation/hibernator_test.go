// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package hibernation

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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
			if passes := strings.HasPrefix(tc.want, "snapshots fail"); BlockedForNow(tc.etcd, tc.set) != passes {
				t.Errorf("it passes by itself: %v", !passes)
			}
		})
	}
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

// Claims are deleted only by the record of the live Etcd, and not by an operator that was paused. A claim that is another one, or
// another's, or has changed since it was read, stays.
func TestRecordedClaimsAreDeleted(t *testing.T) {
	record := &v1alpha1.Hibernation{ID: "job", Claims: []v1alpha1.HibernatedClaim{{Name: "claim", UID: "uid"}}}
	another := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web"}
	for name, tc := range map[string]struct {
		live  *v1alpha1.Hibernation
		takes time.Duration
		// claim as the API server has it, and what becomes of it after it was read.
		claim, then func(*corev1.PersistentVolumeClaim)
		deleted     bool
		behind      bool
	}{
		"given up":                   {live: record, takes: time.Second, deleted: true},
		"of a cluster that woke up":  {takes: time.Second, behind: true},
		"of another hibernation":     {live: &v1alpha1.Hibernation{ID: "other"}, takes: time.Second, behind: true},
		"and the operator is paused": {live: record, takes: 5 * time.Second, behind: true},
		"created again":              {live: record, claim: func(c *corev1.PersistentVolumeClaim) { c.UID = "again" }},
		"owned by another":           {live: record, claim: func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = []metav1.OwnerReference{another} }},
		"of another Etcd":            {live: record, claim: func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelPartOf] = "other" }},
		"given to another just now":  {live: record, then: func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = []metav1.OwnerReference{another} }},
	} {
		t.Run(name, func(t *testing.T) {
			g, now := NewWithT(t), clocktesting.NewFakePassiveClock(noon)
			cached := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
			live := cached.DeepCopy()
			cached.Status.Hibernation, live.Status.Hibernation = record, tc.live
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "uid", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"}}}
			if tc.claim != nil {
				tc.claim(claim)
			}
			api := apitest.API(live, claim)
			writes := interceptor.NewClient(api, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
				if tc.then != nil {
					changed := claim.DeepCopy()
					g.Expect(c.Get(ctx, client.ObjectKeyFromObject(claim), changed)).To(Succeed())
					tc.then(changed)
					g.Expect(c.Update(ctx, changed)).To(Succeed())
				}
				asked := (&client.DeleteOptions{}).ApplyOptions(options)
				g.Expect(asked.Preconditions).To(HaveField("UID", HaveValue(BeEquivalentTo("uid"))), "the fake does not check it")
				return c.Delete(ctx, o, options...)
			}})
			h := Hibernator{Access: state.Access{Client: writes, API: slow{api, now, tc.takes}, Clock: now}}
			err := h.deleteClaims(t.Context(), cached, record.Claims)
			g.Expect(errors.Is(err, state.ErrBehind)).To(Equal(tc.behind))
			g.Expect(err == nil).To(Equal(!tc.behind))
			err = api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)
			g.Expect(apierrors.IsNotFound(err)).To(Equal(tc.deleted))
		})
	}
}

// live is an API server that can be told from a cache.
type live struct{ client.Reader }

// observed is what an observation of the API server shows; one of the cache fails the test.
type observed struct {
	api      client.Reader
	snapshot *cluster.Snapshot
}

func (o observed) Observe(_ context.Context, reader client.Reader, _ *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	if reader != o.api {
		return nil, errors.New("the members were not observed by live reads")
	}
	if o.snapshot == nil {
		return nil, observe.ErrNoStatefulSet
	}
	return o.snapshot, nil
}

// Volumes are surveyed, and deleted, only when no pod is left that may still write to one, and none can be started.
func TestStopped(t *testing.T) {
	left := clustertest.Healthy(0)
	left.Surplus = []string{"main-2"}
	unseen := clustertest.Healthy(0)
	unseen.StatefulSet.Observed = false
	for name, tc := range map[string]struct {
		snapshot *cluster.Snapshot
		settled  bool
		want     bool
	}{
		"no pod is left": {clustertest.Healthy(0), true, true},
		"members run":    {clustertest.Healthy(1), true, false},
		"a pod is left":  {left, true, false},
		"the StatefulSet controller has not seen": {unseen, true, false},
		"the newest spec is not applied":          {clustertest.Healthy(0), false, false},
		"there is no StatefulSet":                 {nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cache, api := apitest.API(), &live{apitest.API()}
			h := Hibernator{Access: state.Access{Client: cache, API: api, Observer: observed{api, tc.snapshot}}}
			stopped, err := h.stopped(t.Context(), &v1alpha1.Etcd{}, tc.settled)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(stopped).To(Equal(tc.want))
		})
	}
}
