// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cluster is a client with in-memory objects. It implements only what these tests need.
type cluster struct {
	client.Client
	scheme  *runtime.Scheme
	objects map[string]client.Object
	applied []string
	version int
}

func newCluster(g *WithT) *cluster {
	c := &cluster{scheme: runtime.NewScheme(), objects: map[string]client.Object{}}
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, coordinationv1.AddToScheme, rbacv1.AddToScheme} {
		g.Expect(add(c.scheme)).To(Succeed())
	}
	return c
}

func (c *cluster) Scheme() *runtime.Scheme { return c.scheme }

func nameIn(object client.Object, name string) string { return fmt.Sprintf("%T %s", object, name) }

func (c *cluster) Get(_ context.Context, key types.NamespacedName, into client.Object, _ ...client.GetOption) error {
	found, ok := c.objects[nameIn(into, key.Name)]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found).Elem())
	return nil
}

func (c *cluster) Apply(_ context.Context, config runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	return c.write(config)
}

func (c *cluster) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	if _, there := c.objects[nameIn(c.typed(object), object.GetName())]; there {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, object.GetName())
	}
	return c.write(object)
}

// typed returns an empty object of the same kind.
func (c *cluster) typed(object client.Object) client.Object {
	typed, err := c.scheme.New(object.GetObjectKind().GroupVersionKind())
	if err != nil {
		panic(err)
	}
	return typed.(client.Object)
}

func (c *cluster) write(config any) error {
	data, err := json.Marshal(config)
	if err != nil {
		return err
	}
	kind := metav1.TypeMeta{}
	if err := json.Unmarshal(data, &kind); err != nil {
		return err
	}
	object, err := c.scheme.New(kind.GroupVersionKind())
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, object); err != nil {
		return err
	}
	o := object.(client.Object)
	o.SetUID(types.UID(o.GetName()))
	switch object.(type) {
	case *appsv1.StatefulSet, *policyv1.PodDisruptionBudget:
		o.SetGeneration(1)
	}
	c.put(o)
	c.applied = append(c.applied, nameIn(o, o.GetName()))
	return nil
}

// put is a write by any client: it changes the resourceVersion.
func (c *cluster) put(o client.Object) {
	c.version++
	o.SetResourceVersion(strconv.Itoa(c.version))
	c.objects[nameIn(o, o.GetName())] = o
}

// take returns what was applied since its last call.
func (c *cluster) take() []string {
	applied := c.applied
	c.applied = nil
	return applied
}

func of[T client.Object](c *cluster, object T, name string) T {
	return c.objects[nameIn(object, name)].(T)
}

// newAppliedCluster returns a cluster with the objects of an Etcd, which were applied.
func newAppliedCluster(g *WithT) (*cluster, *Objects, component.Input) {
	c, in := newCluster(g), inputOfThree()
	o := objectsOf(c)
	_, err := c.session(o, in).Apply(context.Background(), Request{Input: in, Due: true})
	g.Expect(err).NotTo(HaveOccurred())
	c.take()
	return c, o, in
}

func objectsOf(c *cluster) *Objects {
	return &Objects{Writer: Writer{Client: c, Live: c}, Clock: clock.RealClock{}}
}

// session begins a session that has seen the StatefulSet.
func (c *cluster) session(o *Objects, in component.Input) *Session {
	var seen *appsv1.StatefulSet
	if set, ok := c.objects[nameIn(&appsv1.StatefulSet{}, in.Etcd.Name)]; ok {
		seen = set.DeepCopyObject().(*appsv1.StatefulSet)
	}
	s, err := o.Begin(context.Background(), in.Etcd, seen, in.Manager)
	if err != nil {
		panic(err)
	}
	return s
}

// Objects are rendered and compared again only after a change. The test breaks a Service without changing its
// resourceVersion: only a comparison detects that.
func TestNothingIsComparedWhenNothingHasChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(c *cluster, in *component.Input)
		compared bool
	}{
		"nothing": {func(*cluster, *component.Input) {}, false},
		"a lease is renewed": {func(c *cluster, _ *component.Input) {
			lease := of(c, &coordinationv1.Lease{}, "etcd-main-0")
			lease.Spec.HolderIdentity = ptr.To("1:Leader")
			c.put(lease)
		}, false},
		"the status of the StatefulSet": {func(c *cluster, _ *component.Input) {
			set := of(c, &appsv1.StatefulSet{}, "etcd-main")
			set.Status.ReadyReplicas = 2
			c.put(set)
		}, false},
		"the status of the Etcd": {func(_ *cluster, in *component.Input) { in.Etcd.Status.Ready = ptr.To(true) }, false},
		"the spec of the StatefulSet": {func(c *cluster, _ *component.Input) {
			set := of(c, &appsv1.StatefulSet{}, "etcd-main")
			set.Generation = 2
			c.put(set)
		}, true},
		"a label of a lease": {func(c *cluster, _ *component.Input) {
			lease := of(c, &coordinationv1.Lease{}, "etcd-main-0")
			delete(lease.Labels, v1alpha1.LabelPartOf)
			c.put(lease)
		}, true},
		"an owner of the StatefulSet": {func(c *cluster, _ *component.Input) {
			set := of(c, &appsv1.StatefulSet{}, "etcd-main")
			set.OwnerReferences = append(set.OwnerReferences, metav1.OwnerReference{UID: "another"})
			c.put(set)
		}, true},
		"the data of the ConfigMap": {func(c *cluster, _ *component.Input) {
			config := of(c, &corev1.ConfigMap{}, "etcd-main-config")
			config.Data = nil
			c.put(config)
		}, true},
		"an object is recreated": {func(c *cluster, _ *component.Input) {
			of(c, &policyv1.PodDisruptionBudget{}, "etcd-main").UID = "another"
		}, true},
		"an object is missing": {func(c *cluster, _ *component.Input) {
			delete(c.objects, nameIn(&corev1.ServiceAccount{}, "etcd-main"))
		}, true},
		"the spec of the Etcd":      {func(_ *cluster, in *component.Input) { in.Etcd.Spec.Labels = map[string]string{"a": "b"} }, true},
		"the images":                {func(_ *cluster, in *component.Input) { in.Images.EtcdAgent = "v2" }, true},
		"the retention of claims":   {func(_ *cluster, in *component.Input) { in.Retention.WhenDeleted = v1alpha1.VolumesDeleted }, true},
		"an annotation of the Etcd": {func(_ *cluster, in *component.Input) { in.Etcd.Annotations = map[string]string{"a": "b"} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(g)
			o := objectsOf(c)
			in := inputOfThree()
			settle := func() bool {
				settled, err := c.session(o, in).Apply(t.Context(), Request{Input: in, Due: false})
				g.Expect(err).NotTo(HaveOccurred())
				return settled
			}
			g.Expect(settle()).To(BeFalse(), "the cache does not show what was just applied")
			g.Expect(c.take()).To(HaveLen(len(c.objects)))
			g.Expect(settle()).To(BeTrue())
			g.Expect(c.take()).To(BeEmpty())

			of(c, &corev1.Service{}, "etcd-main-peer").Spec.PublishNotReadyAddresses = false
			tc.change(c, &in)
			settled := settle()
			peer := nameIn(&corev1.Service{}, "etcd-main-peer")
			if tc.compared {
				g.Expect(c.take()).To(ContainElement(peer))
			} else {
				g.Expect(c.take()).To(BeEmpty())
				g.Expect(settled).To(BeTrue(), "the result is remembered")
			}
		})
	}
}

// A ConfigMap that is missing is created with what members read there beside what is applied, which later writes leave there: without it,
// members would take the cluster for one that has never served.
func TestAConfigMapIsCreatedWithInstructions(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(g)
	o := objectsOf(c)
	in := inputOfThree()
	asked, says := 0, error(nil)
	request := func() Request {
		return Request{Input: in, Due: true, Instructions: func(context.Context) (map[string]string, error) {
			asked++
			return map[string]string{member.KeyClusterID: "cafe", member.KeyKept: "true"}, says
		}}
	}
	apply := func() (map[string]string, error) {
		_, err := c.session(o, in).Apply(t.Context(), request())
		config, ok := c.objects[nameIn(&corev1.ConfigMap{}, "etcd-main-config")]
		if !ok {
			return nil, err
		}
		return config.(*corev1.ConfigMap).Data, err
	}
	says = errors.New("not known")
	g.Expect(apply()).Error().To(MatchError(says))
	g.Expect(c.objects).NotTo(HaveKey(nameIn(&corev1.ConfigMap{}, "etcd-main-config")), "it waits until they are known")

	says = nil
	g.Expect(apply()).To(And(HaveKey(member.KeyConfig), HaveKey(member.KeyBootstrap), HaveKeyWithValue(member.KeyClusterID, "cafe"), HaveKeyWithValue(member.KeyKept, "true")))
	g.Expect(asked).To(Equal(2))

	// It is applied to as it is by then.
	config := of(c, &corev1.ConfigMap{}, "etcd-main-config")
	delete(config.Data, member.KeyKept)
	config.Data[member.KeyClusterID], config.Data[member.KeyAccept], config.Data["of-a-later-operator.yaml"] = "beef", "goes", "stays"
	c.put(config)
	in.Etcd.Spec.Etcd.SnapshotCount = ptr.To[int64](7)
	c.take()
	data, err := apply()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.take()).To(ContainElement(nameIn(config, "etcd-main-config")))
	g.Expect(data).To(And(HaveKeyWithValue(member.KeyConfig, ContainSubstring("snapshot-count: 7")), HaveKeyWithValue(member.KeyClusterID, "beef"), Not(HaveKey(member.KeyKept)), Not(HaveKey(member.KeyAccept)), HaveKey("of-a-later-operator.yaml")))
	g.Expect(asked).To(Equal(2), "it was there")
}

// If a StatefulSet has changed since it was seen, the rendered one has an outdated update strategy and is not applied.
func TestStatefulSetThatHasChangedIsSeenFirst(t *testing.T) {
	g := NewWithT(t)
	c, o, in := newAppliedCluster(g)
	p := c.session(o, in)
	set := of(c, &appsv1.StatefulSet{}, "etcd-main")
	set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
	set.Generation++
	c.put(set)
	in.Images.Etcd = "v2"
	_, err := p.Apply(t.Context(), Request{Input: in, Due: true})
	g.Expect(err).To(Satisfy(apierrors.IsConflict))
	g.Expect(c.take()).NotTo(ContainElement(nameIn(set, "etcd-main")))
}

// While one object is foreign, none is written. Only its owner decides whether an object is foreign.
func TestNothingIsWrittenWhileAnObjectIsForeign(t *testing.T) {
	for name, change := range map[string]func(*corev1.ServiceAccount){
		"its owner reference was removed": func(a *corev1.ServiceAccount) { a.OwnerReferences = nil },
		"another operator manages it":     func(a *corev1.ServiceAccount) { a.Labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedByDruid },
		"it was never applied": func(a *corev1.ServiceAccount) {
			a.OwnerReferences[0].UID = "another"
			a.Annotations = nil
		},
	} {
		for what, drift := range map[string]bool{"alone": false, "and another has to be written": true} {
			t.Run(name+" "+what, func(t *testing.T) {
				g := NewWithT(t)
				c, o, in := newAppliedCluster(g)
				account := of(c, &corev1.ServiceAccount{}, "etcd-main")
				change(account)
				c.put(account)
				of(c, &corev1.Service{}, "etcd-main-peer").Spec.PublishNotReadyAddresses = !drift
				p := c.session(o, in)
				_, err := p.Apply(t.Context(), Request{Input: in, Due: false})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(c.take()).To(BeEmpty())
				g.Expect(p.Foreign()).To(ConsistOf(HaveField("Name", "ns/etcd-main")))
			})
		}
	}
}

// Changes that wait for the reconcile annotation, for example those of a new operator version, are not compared on every
// reconcile either, and are applied once due.
func TestWhatIsNotDueIsRemembered(t *testing.T) {
	g := NewWithT(t)
	c, o, in := newAppliedCluster(g)

	in.Images.Etcd = "v2"
	for range 2 {
		settled, err := c.session(o, in).Apply(t.Context(), Request{Input: in, Due: false})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(settled).To(BeFalse())
		g.Expect(c.take()).To(BeEmpty())
	}
	_, err := c.session(o, in).Apply(t.Context(), Request{Input: in, Due: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.take()).To(Equal([]string{nameIn(&appsv1.StatefulSet{}, "etcd-main")}))
}

// A StatefulSet whose pods could not start is not created, and its absence is not forgotten.
func TestNoStatefulSetWhileBlocked(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(g)
	o := objectsOf(c)
	in := inputOfThree()
	set := nameIn(&appsv1.StatefulSet{}, "etcd-main")
	for range 2 {
		settled, err := c.session(o, in).Apply(t.Context(), Request{Input: in, Due: false, NoStatefulSet: true})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(settled).To(BeFalse())
		g.Expect(c.take()).NotTo(ContainElement(set))
	}
	_, err := c.session(o, in).Apply(t.Context(), Request{Input: in, Due: false})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.take()).To(Equal([]string{set}))
}

// BenchmarkLook measures a check of an Etcd's objects: the first, which renders and compares them, and the next.
func BenchmarkLook(b *testing.B) {
	for name, forget := range map[string]bool{"first": true, "next": false} {
		b.Run(name, func(b *testing.B) {
			g := NewWithT(b)
			c := newCluster(g)
			o := objectsOf(c)
			in := inputOfThree()
			b.ReportAllocs()
			for b.Loop() {
				if forget {
					o.Forget(client.ObjectKeyFromObject(in.Etcd))
				}
				if _, err := c.session(o, in).Apply(b.Context(), Request{Input: in, Due: false}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
