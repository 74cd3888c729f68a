// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	return clustertest.Healthy(3), nil
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
			api := apitest.API(etcd, set)
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
