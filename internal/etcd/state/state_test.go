// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observing returns a Snapshot, or an error.
type observing struct{ err error }

func (o observing) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	if o.err != nil {
		return nil, o.err
	}
	return &cluster.Snapshot{}, nil
}

func TestRead(t *testing.T) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd)),
		}},
		Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3)},
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-main-1"}}
	foreign := set.DeepCopy()
	foreign.OwnerReferences[0].UID = "another"
	orphaned := set.DeepCopy()
	orphaned.DeletionTimestamp, orphaned.Finalizers = &metav1.Time{Time: time.Now()}, []string{metav1.FinalizerOrphanDependents}
	broken := errors.New("broken")
	crowd := set.DeepCopy()
	crowd.Spec.Replicas = ptr.To[int32](math.MaxInt32)
	for name, tc := range map[string]struct {
		cached, live []client.Object
		observe      error
		err          error
		set, crowd   bool
	}{
		"no StatefulSet":                       {},
		"a StatefulSet":                        {cached: []client.Object{set, claim}, set: true},
		"the cache is late":                    {cached: []client.Object{claim}, live: []client.Object{set}, set: true},
		"a StatefulSet that is not the Etcd's": {cached: []client.Object{foreign, claim}, live: []client.Object{foreign}},
		"a StatefulSet that is being replaced": {cached: []client.Object{orphaned}, err: ErrBehind},
		"the members could not be observed":    {cached: []client.Object{set}, observe: broken, err: broken},
		"a StatefulSet of too many replicas":   {cached: []client.Object{crowd, claim}, observe: fmt.Errorf("no: %w", observe.ErrTooManyReplicas), set: true, crowd: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a := Access{Client: apitest.API(tc.cached...), API: apitest.API(tc.live...), Observer: observing{tc.observe}}
			s, err := a.Read(t.Context(), etcd)
			if tc.err != nil {
				g.Expect(err).To(MatchError(tc.err))
				g.Expect(s).To(BeNil(), "what is known in part is not passed on")
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.StatefulSet != nil).To(Equal(tc.set))
			g.Expect(s.Snapshot != nil).To(Equal(tc.set && !tc.crowd))
			g.Expect(s.TooManyReplicas).To(Equal(tc.crowd))
			g.Expect(len(s.Claims) > 0).To(Equal(tc.set))
		})
	}
}

func TestLiveReads(t *testing.T) {
	g := NewWithT(t)
	now := clocktesting.NewFakePassiveClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	reads := Access{API: apitest.API(etcd), Clock: now}.Live()
	_, err := reads.Etcd(t.Context(), etcd)
	g.Expect(err).NotTo(HaveOccurred())
	earlier := etcd.DeepCopy()
	earlier.UID = "earlier"
	_, err = reads.Etcd(t.Context(), earlier)
	g.Expect(err).To(MatchError(ErrBehind))
	gone := etcd.DeepCopy()
	gone.Name = "gone"
	_, err = reads.Etcd(t.Context(), gone)
	g.Expect(err).To(MatchError(ErrBehind))

	now.SetTime(now.Now().Add(MaxReadAge))
	g.Expect(reads.Fresh(t.Context())).To(Succeed())
	now.SetTime(now.Now().Add(time.Millisecond))
	g.Expect(reads.Fresh(t.Context())).To(MatchError(ErrBehind))
}

// Whatever request fails, nothing is known; and what the live Etcd is, is passed on as it was read.
func TestRequestsFail(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"},
		Spec:       v1alpha1.EtcdSpec{Backup: &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}},
	}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "main", OwnerReferences: apitest.ControlledBy(etcd)}
	lease := &coordinationv1.Lease{ObjectMeta: meta}
	lease.Name = "main-full-snap"
	druid := meta.DeepCopy()
	druid.Labels, druid.Annotations = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid}, map[string]string{v1alpha1.AnnotationAdoptedBy: "etcd"}
	set := &appsv1.StatefulSet{ObjectMeta: *druid, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2)}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-main-1"}}
	for name, objects := range map[string][]client.Object{"with a StatefulSet": {etcd, set, claim, lease}, "without": {etcd, lease}} {
		t.Run(name, func(t *testing.T) {
			api := apitest.API(objects...)
			read := func(api client.WithWatch) (*State, error) {
				return Access{Client: api, API: api, Observer: apitest.Members(func() *cluster.Snapshot { return &cluster.Snapshot{} })}.Read(t.Context(), etcd)
			}
			apitest.EachRequestFails(t, api, func(api client.WithWatch) error {
				s, err := read(api)
				if err != nil {
					g.Expect(s).To(BeNil())
				}
				return err
			})
			s, err := read(api)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.Leases.Full).NotTo(BeNil())
			if name == "without" {
				g.Expect(s.Manager).To(BeEmpty())
				return
			}
			g.Expect(s.Manager).To(Equal(v1alpha1.ManagedByDruid))
			g.Expect(s.Claims).To(HaveLen(1), "a claim that does not exist is not among them")
		})
	}
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	apitest.EachRequestFails(t, apitest.API(etcd), func(api client.WithWatch) error {
		live, err := Access{API: api, Clock: now}.Live().Etcd(t.Context(), etcd)
		g.Expect(live == nil).To(Equal(err != nil))
		return err
	})
	leaving := etcd.DeepCopy()
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"x"}, &metav1.Time{Time: time.Now()}
	_, err := Access{API: apitest.API(leaving), Clock: now}.Live().Etcd(t.Context(), etcd)
	g.Expect(err).To(MatchError(ErrBehind), "it is being deleted")
	live, err := Access{API: apitest.API(etcd), Clock: now}.Live().Etcd(t.Context(), etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(live.UID).To(Equal(etcd.UID))
	plain := etcd.DeepCopy()
	plain.Spec.Backup = nil
	api := apitest.API(plain)
	s, err := Access{Client: api, API: api}.Read(t.Context(), plain)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Leases).To(BeNil(), "there is no store")
}

func TestWhatIsAskedFor(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Awake(nil)).To(BeFalse())
	g.Expect(Awake(&appsv1.StatefulSet{})).To(BeTrue(), "one replica is the default")
	g.Expect(Awake(&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](0)}})).To(BeFalse())
	for _, key := range []string{v1alpha1.AnnotationOperation, v1alpha1.AnnotationGardenerOperation} {
		etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: v1alpha1.OperationReconcile}}}
		g.Expect(OperationRequested(etcd)).To(BeTrue())
		g.Expect(Due(etcd)).To(BeTrue())
		etcd.Annotations[key] = "other"
		g.Expect(OperationRequested(etcd)).To(BeFalse())
		g.Expect(Due(etcd)).To(BeFalse())
		etcd.Generation = 1
		g.Expect(Due(etcd)).To(BeTrue(), "there is a newer spec")
	}
}
