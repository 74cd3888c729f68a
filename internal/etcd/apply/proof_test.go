// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server serves some objects and records the requests. It refuses writes.
type server struct {
	client.Client
	objects map[string]client.Object
	asked   []string
}

func nameOf(object client.Object, name string) string {
	return fmt.Sprintf("%s %s", reflect.TypeOf(object).Elem().Name(), name)
}

func (s *server) Scheme() *runtime.Scheme { return clientgoscheme.Scheme }

func (s *server) Get(_ context.Context, key types.NamespacedName, into client.Object, _ ...client.GetOption) error {
	name := nameOf(into, key.Name)
	s.asked = append(s.asked, name)
	found, ok := s.objects[name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found).Elem())
	return nil
}

// serverWith returns a server with some objects.
func serverWith(objects ...client.Object) *server {
	s := &server{objects: map[string]client.Object{}}
	for _, o := range objects {
		s.objects[nameOf(o, o.GetName())] = o
	}
	return s
}

// own makes the Etcd the owner of an object.
func own(etcd *v1alpha1.Etcd, o client.Object) client.Object {
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))})
	return o
}

func setOf(replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main"}, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(replicas)}}
}

func claimOf(i int) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("etcd-main-etcd-main-%d", i)}}
}

// Members that are stopped start with their claims again: before they are, foreign ones count. How often is read does not depend on how far
// a user has scaled the StatefulSet.
func TestForeign(t *testing.T) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main", UID: "u"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	for name, c := range map[string]struct {
		runs  int32
		stops bool
		want  []string
	}{
		"while they run":           {3, false, []string{"Service"}},
		"before they are stopped":  {3, true, []string{"Service", "PersistentVolumeClaim"}},
		"once they are":            {0, true, []string{"Service", "PersistentVolumeClaim"}},
		"scaled as far as it gets": {1 << 30, true, []string{"Service", "PersistentVolumeClaim"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main-peer"}}
			s := serverWith(own(etcd, setOf(c.runs)), claimOf(1), service)
			foreign, err := Writer{Client: s, Live: s}.Foreign(t.Context(), etcd, c.stops)
			g.Expect(err).NotTo(HaveOccurred())
			var kinds []string
			for _, f := range foreign {
				kinds = append(kinds, f.Kind)
			}
			g.Expect(kinds).To(Equal(c.want))
			g.Expect(len(s.asked)).To(BeNumerically("<", 220))
		})
	}
}

// A proof reads every object, and the claims of stopped members: those members would be started with them.
func TestProve(t *testing.T) {
	for name, c := range map[string]struct {
		replicas, size int32
		objects        func(*v1alpha1.Etcd) []client.Object
		members        int32
		claims         []string
		foreign        []string
	}{
		"nothing exists": {3, 0, func(*v1alpha1.Etcd) []client.Object { return nil }, 3, []string{"0", "1", "2"}, nil},
		"all run":        {3, 3, func(e *v1alpha1.Etcd) []client.Object { return []client.Object{own(e, setOf(3)), claimOf(0)} }, 3, nil, nil},
		"it grows": {3, 1, func(e *v1alpha1.Etcd) []client.Object {
			return []client.Object{own(e, setOf(1)), claimOf(0), claimOf(2)}
		}, 3, []string{"1", "2"}, []string{"PersistentVolumeClaim shoot-a/etcd-main-etcd-main-2"}},
		"hibernated":                 {0, 3, func(e *v1alpha1.Etcd) []client.Object { return []client.Object{own(e, setOf(0)), claimOf(1)} }, 3, []string{"0", "1", "2"}, []string{"PersistentVolumeClaim shoot-a/etcd-main-etcd-main-1"}},
		"it has too many members":    {1, 3, func(e *v1alpha1.Etcd) []client.Object { return []client.Object{own(e, setOf(3))} }, 3, nil, nil},
		"a foreign StatefulSet runs": {1, 0, func(*v1alpha1.Etcd) []client.Object { return []client.Object{setOf(3), claimOf(0)} }, 1, []string{"0"}, []string{"StatefulSet shoot-a/etcd-main", "PersistentVolumeClaim shoot-a/etcd-main-etcd-main-0"}},
		"several are foreign": {1, 1, func(e *v1alpha1.Etcd) []client.Object {
			return []client.Object{own(e, setOf(1)), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main"}}, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main-peer"}}}
		}, 1, nil, []string{"ServiceAccount shoot-a/etcd-main", "Service shoot-a/etcd-main-peer"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main", UID: "u"}, Spec: v1alpha1.EtcdSpec{Replicas: c.replicas}}
			etcd.Status.ClusterSize = c.size
			objects := c.objects(etcd)
			for _, o := range objects {
				o.SetNamespace("shoot-a")
			}
			s := serverWith(objects...)
			p, err := Writer{Client: s, Live: s}.prove(t.Context(), etcd, nil)
			g.Expect(err).NotTo(HaveOccurred())
			var want []any
			for _, k := range component.Keys(etcd, c.members, "") {
				want = append(want, k.Kind.Kind+" "+k.Name)
			}
			for _, i := range c.claims {
				want = append(want, "PersistentVolumeClaim etcd-main-etcd-main-"+i)
			}
			g.Expect(s.asked).To(ConsistOf(want...), "each once")
			var foreign []string
			for _, f := range p.Foreign {
				foreign = append(foreign, f.Kind+" "+f.Name)
			}
			g.Expect(foreign).To(Equal(c.foreign))
			g.Expect(p.owned()).To(Equal(c.foreign == nil))
		})
	}
}
