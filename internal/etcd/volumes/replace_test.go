// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// healthy are healthy members that take a while to answer.
type healthy struct {
	clock *clocktesting.FakePassiveClock
	takes time.Duration
}

func (h healthy) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	h.clock.SetTime(h.clock.Now().Add(h.takes))
	return healthyMembers(), nil
}

func healthyMembers() *cluster.Snapshot {
	s := clustertest.Healthy(3)
	for i := range s.Ordinals {
		s.Ordinals[i].Pod.UID = types.UID(s.Ordinals[i].Name)
	}
	return s
}

// podsOf are the pods of healthyMembers.
func podsOf(set *appsv1.StatefulSet) (pods []client.Object) {
	for _, o := range healthyMembers().Ordinals {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: o.Name, UID: o.Pod.UID,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		}})
	}
	return pods
}

// Once the StatefulSet is deleted without its pods, the Etcd alone owns them: if it is deleted before another one has adopted them, the garbage
// collector deletes them.
func TestPodsBelongToTheEtcdBeforeTheirStatefulSetGoes(t *testing.T) {
	s := newSmall(t)
	for i := range 3 {
		s.claim(i, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources = storage("8Gi") })
	}
	s.seen = func(*Grower) { s.Expect(s.owners()).To(HaveEach(ConsistOf("main")), "it is not decided yet") }
	_, err := s.reconcile(all)
	s.Expect(err).To(MatchError(state.ErrBehind))
	s.Expect(s.owners()).To(HaveEach(ConsistOf("main", "etcd")), "the garbage collector takes the StatefulSet out")
	pod := &corev1.Pod{}
	s.Expect(s.api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "etcd-main-1"}, pod)).To(Succeed())
	s.Expect(metav1.GetControllerOf(pod).UID).To(BeEquivalentTo("main"), "another StatefulSet adopts no pod that has a controller")
	s.Expect(pod.OwnerReferences).To(ContainElement(metav1.OwnerReference{APIVersion: "druid.gardener.cloud/v1alpha1", Kind: "Etcd", Name: "main", UID: "etcd"}))
}

// A pod of which it is not certain that it is the one that was observed keeps the StatefulSet.
func TestNoStatefulSetGoesBeforeItsPodsBelongToTheEtcd(t *testing.T) {
	s := newSmall(t)
	for i := range 3 {
		s.claim(i, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources = storage("8Gi") })
	}
	s.Expect(s.api.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd-main-1"}})).To(Succeed())
	_, err := s.reconcile(all)
	s.Expect(err).To(MatchError(ContainSubstring("making Etcd main an owner of pod ns/etcd-main-1")))
	s.Expect(s.replaced()).To(BeFalse())
}

// An admission policy or webhook that refuses owners, or any write to these pods, keeps no volume from growing.
func TestStatefulSetIsReplacedWhereOwnersAreRefused(t *testing.T) {
	for name, refusal := range map[string]error{
		"forbidden":   apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "etcd-main-0", errors.New("the operator does not change whose a pod is")),
		"invalid":     apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "etcd-main-0", nil),
		"bad request": apierrors.NewBadRequest("admission webhook denied the request"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSmall(t)
			for i := range 3 {
				s.claim(i, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources = storage("8Gi") })
			}
			s.grower = s.through(interceptor.NewClient(s.api, interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return refusal
			}}))
			_, err := s.reconcile(all)
			s.Expect(err).To(MatchError(state.ErrBehind))
			s.Expect(s.replaced()).To(BeTrue())
		})
	}
}

// While the spec is suspended, no StatefulSet is created: none is deleted either, although the cache does not show the suspension yet.
func TestNoStatefulSetGoesWhileTheSpecIsSuspended(t *testing.T) {
	s := newSmall(t)
	for i := range 3 {
		s.claim(i, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources = storage("8Gi") })
	}
	cached := &v1alpha1.Etcd{}
	s.Expect(s.api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "main"}, cached)).To(Succeed())
	live := cached.DeepCopy()
	live.Annotations = map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""}
	s.Expect(s.api.Update(t.Context(), live)).To(Succeed())
	s.Expect(s.grower.replaceSet(t.Context(), cached)).To(MatchError(state.ErrBehind))
	s.Expect(s.replaced()).To(BeFalse())
	s.Expect(s.owners()).To(HaveEach(ConsistOf("main")))
	live.Annotations = nil
	s.Expect(s.api.Update(t.Context(), live)).To(Succeed())
	s.Expect(s.grower.replaceSet(t.Context(), cached)).To(MatchError(state.ErrBehind))
	s.Expect(s.replaced()).To(BeTrue())
}

// owners are the UIDs of the owners of each pod.
func (s *small) owners() (owners [][]string) {
	pods := &corev1.PodList{}
	s.Expect(s.api.List(s.t.Context(), pods)).To(Succeed())
	for _, p := range pods.Items {
		var of []string
		for _, r := range p.OwnerReferences {
			of = append(of, string(r.UID))
		}
		owners = append(owners, of)
	}
	s.Expect(owners).To(HaveLen(3))
	return owners
}

// A StatefulSet that has changed since it was judged is not deleted: by its new spec its claims, or its pods, could go with it.
func TestReplacedStatefulSetIsTheOneThatWasJudged(t *testing.T) {
	const retain, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	policy := func(whenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType) *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy {
		return &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: whenDeleted, WhenScaled: retain}
	}
	for name, tc := range map[string]struct {
		policy   *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy
		then     func(*appsv1.StatefulSet)
		takes    time.Duration
		replaced bool
		conflict bool
	}{
		"as it was judged":              {policy(retain), nil, 0, true, false},
		"its claims would be deleted":   {policy(remove), nil, 0, false, false},
		"it was judged long ago":        {policy(retain), nil, state.MaxReadAge + time.Second, false, false},
		"its claims are no longer kept": {policy(retain), func(set *appsv1.StatefulSet) { set.Spec.PersistentVolumeClaimRetentionPolicy = policy(remove) }, 0, false, true},
		"it is scaled":                  {policy(retain), func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To(int32(1)) }, 0, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd-main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
			set := apitest.StatefulSet(etcd, 3)
			set.Spec.PersistentVolumeClaimRetentionPolicy = tc.policy
			api := apitest.API(append(podsOf(set), etcd, set)...)
			writes := interceptor.NewClient(api, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
				if tc.then != nil {
					changed := &appsv1.StatefulSet{}
					g.Expect(c.Get(ctx, client.ObjectKeyFromObject(set), changed)).To(Succeed())
					tc.then(changed)
					g.Expect(c.Update(ctx, changed)).To(Succeed())
				}
				asked := (&client.DeleteOptions{}).ApplyOptions(options)
				g.Expect(asked.PropagationPolicy).To(HaveValue(Equal(metav1.DeletePropagationOrphan)))
				g.Expect(asked.Preconditions).To(HaveField("UID", HaveValue(Equal(set.UID))), "the fake does not check it")
				return c.Delete(ctx, o, options...)
			}})
			now := clocktesting.NewFakePassiveClock(noon)
			grower := &Grower{Access: state.Access{Client: writes, API: api, Observer: healthy{now, tc.takes}, Locker: &lock.Locks{}, Clock: now}}
			err := grower.replaceSet(t.Context(), etcd)
			switch {
			case tc.replaced, tc.takes > 0:
				g.Expect(err).To(MatchError(state.ErrBehind))
			case tc.conflict:
				g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
			default:
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(apierrors.IsNotFound(api.Get(t.Context(), client.ObjectKeyFromObject(set), set))).To(Equal(tc.replaced))
		})
	}
}
