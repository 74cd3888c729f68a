// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"maps"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lagging is a cluster before which there is a cache that may be behind. It records what the API server is asked for.
type lagging struct {
	*cluster
	cached map[string]client.Object
	asked  []string
}

func (l *lagging) Get(ctx context.Context, key types.NamespacedName, into client.Object, options ...client.GetOption) error {
	return (&cluster{objects: l.cached}).Get(ctx, key, into, options...)
}

// live reads from the API server.
type live struct{ *lagging }

func (l live) Get(ctx context.Context, key types.NamespacedName, into client.Object, options ...client.GetOption) error {
	l.asked = append(l.asked, nameIn(into, key.Name))
	return l.cluster.Get(ctx, key, into, options...)
}

// replace replaces an object, which the cache shows as it was, by one that is not the Etcd's.
func (l *lagging) replace(object client.Object, name string) {
	object.SetName(name)
	object.SetNamespace("ns")
	l.put(object)
}

// While all members run, a change of the template asks the API server for the StatefulSet, which it writes, and for what new pods start with,
// and leaves the rest to the cache. What is written, missing, or started with is always read.
func TestAChangeReadsWhatItConcerns(t *testing.T) {
	role := inputOfThree().Etcd.RoleName()
	set, account, config := nameIn(&appsv1.StatefulSet{}, "etcd-main"), nameIn(&corev1.ServiceAccount{}, "etcd-main"), nameIn(&corev1.ConfigMap{}, "etcd-main-config")
	peer, budget := nameIn(&corev1.Service{}, "etcd-main-peer"), nameIn(&policyv1.PodDisruptionBudget{}, "etcd-main")
	concerned := []string{set, account, config}
	every := append([]string{
		nameIn(&rbacv1.Role{}, role), nameIn(&rbacv1.RoleBinding{}, role), nameIn(&corev1.Service{}, "etcd-main-client"), peer, budget,
		nameIn(&coordinationv1.Lease{}, "etcd-main-0"), nameIn(&coordinationv1.Lease{}, "etcd-main-1"), nameIn(&coordinationv1.Lease{}, "etcd-main-2"),
	}, concerned...)
	for name, c := range map[string]struct {
		change func(l *lagging, in *component.Input)
		asked  []string
		writes []string
		// foreign are the kinds that are in the way.
		foreign []string
	}{
		"all are its own": {func(*lagging, *component.Input) {}, concerned, []string{set}, nil},
		"the ServiceAccount is another's by now": {func(l *lagging, _ *component.Input) { l.replace(&corev1.ServiceAccount{}, "etcd-main") },
			concerned, nil, []string{"ServiceAccount"}},
		"the ConfigMap is another's by now": {func(l *lagging, _ *component.Input) { l.replace(&corev1.ConfigMap{}, "etcd-main-config") },
			concerned, nil, []string{"ConfigMap"}},
		"the StatefulSet is another's by now": {func(l *lagging, _ *component.Input) { l.replace(setOf(3), "etcd-main") },
			append([]string{"*v1.PersistentVolumeClaim etcd-main-etcd-main-0", "*v1.PersistentVolumeClaim etcd-main-etcd-main-1", "*v1.PersistentVolumeClaim etcd-main-etcd-main-2"}, every...), nil, []string{"StatefulSet"}},
		"a Service that stays is another's by now": {func(l *lagging, _ *component.Input) { l.replace(&corev1.Service{}, "etcd-main-peer") },
			concerned, []string{set}, nil},
		"a Service that is written is another's by now": {func(l *lagging, _ *component.Input) {
			was := l.cached[peer].DeepCopyObject().(*corev1.Service)
			was.Spec.PublishNotReadyAddresses = false
			l.cached[peer] = was
			l.replace(&corev1.Service{}, "etcd-main-peer")
		}, append([]string{peer}, concerned...), nil, []string{"Service"}},
		"the cache shows that one is another's": {func(l *lagging, _ *component.Input) {
			l.replace(&policyv1.PodDisruptionBudget{}, "etcd-main")
			l.cached[budget] = l.objects[budget]
		}, every, nil, []string{"PodDisruptionBudget"}},
		"the cache lacks one, which is another's": {func(l *lagging, _ *component.Input) {
			l.replace(&policyv1.PodDisruptionBudget{}, "etcd-main")
			delete(l.cached, budget)
		}, every, nil, []string{"PodDisruptionBudget"}},
		"the cache lacks one, which is gone": {func(l *lagging, _ *component.Input) {
			delete(l.cached, budget)
			delete(l.objects, budget)
		}, every, []string{budget, set}, nil},
		"a member starts": {func(l *lagging, _ *component.Input) {
			for _, objects := range []map[string]client.Object{l.objects, l.cached} {
				objects[set].(*appsv1.StatefulSet).Spec.Replicas = ptr.To[int32](2)
			}
		}, append([]string{"*v1.PersistentVolumeClaim etcd-main-etcd-main-2"}, every...), []string{set}, nil},
		"the members stop, and a Service that stays is another's by now": {func(l *lagging, in *component.Input) {
			in.Etcd.Spec.Replicas, in.Etcd.Status.ClusterSize = 0, 3
			l.replace(&corev1.Service{}, "etcd-main-peer")
		}, every, nil, []string{"Service"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			at, _, in := newAppliedCluster(g)
			l := &lagging{cluster: at, cached: maps.Clone(at.objects)}
			o := &Objects{Writer: Writer{Client: l, Live: live{l}}, Clock: clock.RealClock{}}
			in.Images.Etcd = "v2"
			c.change(l, &in)
			seen := l.cached[set].DeepCopyObject().(*appsv1.StatefulSet)
			s, err := o.Begin(t.Context(), in.Etcd, seen, "")
			g.Expect(err).NotTo(HaveOccurred())
			_, err = s.Apply(t.Context(), Request{Input: in, Due: true})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(l.asked).To(ConsistOf(c.asked))
			g.Expect(l.take()).To(Equal(c.writes))
			var foreign []string
			for _, f := range s.Foreign() {
				foreign = append(foreign, f.Kind)
			}
			g.Expect(foreign).To(Equal(c.foreign))
		})
	}
}

// What else is written by a reconcile waits for all objects to be read, also after a change that has left some to the cache.
func TestOthersReadAllAfterAChange(t *testing.T) {
	g := NewWithT(t)
	at, _, in := newAppliedCluster(g)
	l := &lagging{cluster: at, cached: maps.Clone(at.objects)}
	o := &Objects{Writer: Writer{Client: l, Live: live{l}}, Clock: clock.RealClock{}}
	in.Images.Etcd = "v2"
	s, err := o.Begin(t.Context(), in.Etcd, of(at, &appsv1.StatefulSet{}, "etcd-main").DeepCopy(), "")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.Apply(t.Context(), Request{Input: in, Due: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(l.asked).To(HaveLen(3))

	l.asked = nil
	l.replace(&corev1.Service{}, "etcd-main-peer")
	owned, err := s.Owned(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(owned).To(BeFalse())
	g.Expect(s.Foreign()).To(ConsistOf(HaveField("Kind", "Service")))
	n := len(l.asked)
	g.Expect(n).To(Equal(len(component.Keys(in.Etcd, 3, ""))))
	owned, err = s.Owned(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(owned).To(BeFalse())
	g.Expect(l.asked).To(HaveLen(n), "the answer holds for the Session")
}
