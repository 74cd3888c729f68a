// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// druids is an Etcd of three members, and its objects, as etcd-druid has left them.
type druids struct {
	*WithT
	t        *testing.T
	api      client.WithWatch
	snapshot *cluster.Snapshot
	change   func(*Adopter)
	// manager of the objects in the cache.
	manager string
}

func newDruids(t *testing.T, operation string) *druids {
	f := adoptable()
	f.etcd.Finalizers = []string{"other", v1alpha1.FinalizerDruid}
	f.etcd.Annotations = map[string]string{v1alpha1.AnnotationOperation: operation}
	f.set.Namespace, f.set.UID, f.set.OwnerReferences = "shoot", "set", apitest.ControlledBy(f.etcd)
	f.set.CreationTimestamp = metav1.NewTime(noon)
	f.set.Annotations = map[string]string{v1alpha1.AnnotationRolloutBy: v1alpha1.ManagedBy}
	mark := func(o client.Object, name string) client.Object {
		o.SetNamespace("shoot")
		o.SetName(name)
		o.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelPartOf: "etcd-main"})
		o.SetOwnerReferences(apitest.ControlledBy(f.etcd))
		return o
	}
	objects := []client.Object{f.etcd, f.set, mark(&corev1.ServiceAccount{}, "etcd-main"), mark(&rbacv1.Role{}, "druid.gardener.cloud:etcd:etcd-main"), mark(&corev1.Service{}, "etcd-main-client")}
	for i := range 3 {
		objects = append(objects, claim(i))
	}
	return &druids{WithT: NewWithT(t), t: t, api: apitest.API(objects...), snapshot: f.snapshot, change: func(*Adopter) {}}
}

func claim(i int) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shoot", Name: fmt.Sprintf("etcd-main-etcd-main-%d", i), CreationTimestamp: metav1.NewTime(noon),
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelPartOf: "etcd-main"},
	}}
}

func (d *druids) with(api client.WithWatch) Adopter {
	a := Adopter{
		Access: state.Access{
			Client: api, API: api, Observer: apitest.Members(func() *cluster.Snapshot { return d.snapshot }),
			Locker: &lock.Locks{}, Clock: clocktesting.NewFakePassiveClock(noon),
		},
		Images: configv1alpha1.Images{Etcd: "etcd:v3.6.16", EtcdAgent: "agent:v1"}, QuorumAware: true, Enabled: true,
	}
	d.change(&a)
	return a
}

// state as the cache has it.
func (d *druids) state() *state.State {
	s := &state.State{Etcd: &v1alpha1.Etcd{}, StatefulSet: &appsv1.StatefulSet{}, Snapshot: d.snapshot, Manager: d.manager}
	key := client.ObjectKey{Namespace: "shoot", Name: "etcd-main"}
	d.Expect(d.api.Get(d.t.Context(), key, s.Etcd)).To(Succeed())
	if d.api.Get(d.t.Context(), key, s.StatefulSet) != nil {
		s.StatefulSet = nil
	}
	var err error
	s.Claims, err = state.Claims(d.t.Context(), d.api, s.Etcd, 5)
	d.Expect(err).NotTo(HaveOccurred())
	return s
}

func (d *druids) reconcile() (progress, error) {
	d.t.Helper()
	return d.with(d.api).reconcile(d.t.Context(), d.state())
}

// each reconciles with each of the requests failing.
func (d *druids) each() {
	d.t.Helper()
	s := d.state()
	apitest.EachRequestFails(d.t, d.api, func(api client.WithWatch) error {
		_, err := d.with(api).reconcile(d.t.Context(), s)
		return err
	})
}

func (d *druids) get(o client.Object, name string) client.Object {
	d.Expect(d.api.Get(d.t.Context(), client.ObjectKey{Namespace: "shoot", Name: name}, o)).To(Succeed())
	return o
}

func (d *druids) update(change func(*v1alpha1.Etcd)) {
	etcd := d.state().Etcd
	change(etcd)
	d.Expect(d.api.Update(d.t.Context(), etcd)).To(Succeed())
}

// adopted are the names of the objects that are adopted.
func (d *druids) adopted() (names []string) {
	for name, o := range map[string]client.Object{"etcd-main": &appsv1.StatefulSet{}, "etcd-main-client": &corev1.Service{}, "druid.gardener.cloud:etcd:etcd-main": &rbacv1.Role{}} {
		if d.get(o, name).GetAnnotations()[v1alpha1.AnnotationAdoptedBy] == "uid" {
			names = append(names, fmt.Sprintf("%T", o))
		}
	}
	for i := range 3 {
		if c := d.get(&corev1.PersistentVolumeClaim{}, claim(i).Name); c.GetAnnotations()[v1alpha1.AnnotationAdoptedBy] == "uid" {
			names = append(names, c.GetName())
		}
	}
	return names
}

// writtenByDruid is an API server where etcd-druid wrote the Etcd at some time.
type writtenByDruid struct {
	client.Reader
	at time.Time
}

func (w writtenByDruid) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	err := w.Reader.Get(ctx, key, o, options...)
	if _, ok := o.(*v1alpha1.Etcd); ok {
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: v1alpha1.ManagedByDruid, Subresource: "status", Time: &metav1.Time{Time: w.at}}})
	}
	return err
}

// Whether etcd-druid has just written is judged by the clock of the API server, which has recorded when it wrote.
func TestDruidIsQuietByTheClockOfTheAPIServer(t *testing.T) {
	d := newDruids(t, v1alpha1.OperationAdopt)
	d.change = func(a *Adopter) {
		a.API, a.Clock = writtenByDruid{a.API, time.Now().Add(-quiet / 2)}, clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour))
	}
	why, err := d.reconcile()
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(why.why).To(ContainSubstring("etcd-druid is running"))
	d.Expect(d.adopted()).To(BeEmpty())
}

// An adoption and its way back. What is interrupted is continued.
func TestAdoptAndHandBack(t *testing.T) {
	d := newDruids(t, v1alpha1.OperationAdopt)
	d.each()
	_, err := d.reconcile()
	d.Expect(err).To(MatchError(state.ErrBehind))
	d.Expect(d.adopted()).To(ConsistOf("*v1.StatefulSet", "*v1.Service", claim(0).Name, claim(1).Name, claim(2).Name), "the Role has rights that the operator has not")
	set := d.state().StatefulSet
	d.Expect(set.Annotations).To(And(HaveKeyWithValue(v1alpha1.AnnotationAdoptedVersion, "3.5.27"), Not(HaveKey(v1alpha1.AnnotationRolloutBy))))
	d.Expect(d.get(&corev1.Service{}, "etcd-main-client").GetAnnotations()).NotTo(HaveKey(v1alpha1.AnnotationAdoptedVersion))
	etcd := d.state().Etcd
	d.Expect(etcd.Finalizers).To(Equal([]string{"other"}))
	d.Expect(etcd.Annotations).NotTo(HaveKey(v1alpha1.AnnotationOperation))

	for i := range d.snapshot.Ordinals {
		d.snapshot.Ordinals[i].Versions.Etcd = "3.6.16"
	}
	d.update(func(e *v1alpha1.Etcd) {
		e.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationAdopt}
	})
	_, err = d.reconcile()
	d.Expect(err).To(MatchError(state.ErrBehind))
	d.Expect(d.state().StatefulSet.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationAdoptedVersion, "3.5.27"), "that is what etcd-druid ran")

	d.update(func(e *v1alpha1.Etcd) {
		e.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationHandBack}
	})
	d.each()
	_, err = d.reconcile()
	d.Expect(err).To(MatchError(state.ErrBehind))
	d.Expect(d.adopted()).To(BeEmpty())
	set = d.state().StatefulSet
	d.Expect(set.Annotations).To(BeEmpty())
	d.Expect(set.Spec.UpdateStrategy).To(Equal(appsv1.StatefulSetUpdateStrategy{
		Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To(int32(0))},
	}))
	d.Expect(set.Spec.PersistentVolumeClaimRetentionPolicy).NotTo(BeNil())
	d.Expect(d.state().Etcd.Annotations).NotTo(HaveKey(v1alpha1.AnnotationOperation))

	d.update(func(e *v1alpha1.Etcd) {
		e.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationHandBack}
	})
	d.each()
	_, err = d.reconcile()
	d.Expect(err).To(MatchError(state.ErrBehind), "it was interrupted at the end")
	d.Expect(d.state().Etcd.Annotations).NotTo(HaveKey(v1alpha1.AnnotationOperation))
}

// What is refused changes nothing, and says why.
func TestWhatIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		operation string
		change    func(d *druids)
		reason    string
		says      string
	}{
		"adopt, with the gate off": {v1alpha1.OperationAdopt, func(d *druids) { d.change = func(a *Adopter) { a.Enabled = false } }, v1alpha1.ReasonAdoptionRefused, "AdoptFromDruid is off"},
		"adopt, without a StatefulSet": {v1alpha1.OperationAdopt, func(d *druids) { d.Expect(d.api.Delete(d.t.Context(), d.state().StatefulSet)).To(Succeed()) },
			v1alpha1.ReasonAdoptionRefused, "there is nothing to adopt"},
		"adopt, a StatefulSet of another": {v1alpha1.OperationAdopt, func(d *druids) {
			set := d.state().StatefulSet
			set.OwnerReferences = nil
			d.Expect(d.api.Update(d.t.Context(), set)).To(Succeed())
		}, v1alpha1.ReasonAdoptionRefused, "StatefulSet shoot/etcd-main has no controller"},
		"adopt, a Service of another": {v1alpha1.OperationAdopt, func(d *druids) {
			service := d.get(&corev1.Service{}, "etcd-main-client")
			service.SetOwnerReferences(nil)
			d.Expect(d.api.Update(d.t.Context(), service)).To(Succeed())
		}, v1alpha1.ReasonAdoptionRefused, "Service shoot/etcd-main-client has no controller"},
		"adopt, a claim of another": {v1alpha1.OperationAdopt, func(d *druids) {
			c := d.get(&corev1.PersistentVolumeClaim{}, claim(1).Name)
			c.SetLabels(map[string]string{"app": "web"})
			d.Expect(d.api.Update(d.t.Context(), c)).To(Succeed())
		}, v1alpha1.ReasonAdoptionRefused, "PersistentVolumeClaim shoot/" + claim(1).Name},
		"adopt, peers with TLS": {v1alpha1.OperationAdopt, func(d *druids) {
			set := d.state().StatefulSet
			set.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationPeerTLS: v1alpha1.TLSOn}
			d.Expect(d.api.Update(d.t.Context(), set)).To(Succeed())
		}, v1alpha1.ReasonAdoptionRefused, "spec.etcd.peerUrlTls"},
		"adopt, too many replicas": {v1alpha1.OperationAdopt, func(d *druids) { d.change = func(a *Adopter) { a.Observer = tooMany{} } }, v1alpha1.ReasonAdoptionRefused, "could not be observed"},
		"hand back, what was not adopted": {v1alpha1.OperationHandBack, func(d *druids) {
			set := d.state().StatefulSet
			set.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
			d.Expect(d.api.Update(d.t.Context(), set)).To(Succeed())
		}, v1alpha1.ReasonReturnRefused, "was not adopted"},
		"hand back, without a StatefulSet": {v1alpha1.OperationHandBack, func(d *druids) { d.Expect(d.api.Delete(d.t.Context(), d.state().StatefulSet)).To(Succeed()) }, v1alpha1.ReasonReturnRefused, "was not adopted"},
		"hand back, while a task runs": {v1alpha1.OperationHandBack, func(d *druids) {
			set := d.state().StatefulSet
			set.Annotations[v1alpha1.AnnotationAdoptedBy] = "uid"
			d.Expect(d.api.Update(d.t.Context(), set)).To(Succeed())
			d.Expect(d.api.Create(d.t.Context(), &v1alpha1.EtcdOperatorTask{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: "rollout"}, Spec: v1alpha1.EtcdOperatorTaskSpec{OwnerEtcdReference: v1alpha1.EtcdReference{Name: "etcd-main"}},
				Status: v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress},
			})).To(Succeed())
		}, v1alpha1.ReasonReturnRefused, "task rollout is running"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDruids(t, tc.operation)
			tc.change(d)
			before := d.state().StatefulSet
			view, err := d.reconcile()
			d.Expect(err).NotTo(HaveOccurred())
			d.Expect(view.reason).To(Equal(tc.reason))
			d.Expect(view.why).To(ContainSubstring(tc.says))
			d.Expect(d.state().StatefulSet).To(Equal(before))
			d.Expect(d.state().Etcd.Annotations).To(HaveKey(v1alpha1.AnnotationOperation))
		})
	}
}

// tooMany is a StatefulSet that cannot be observed.
type tooMany struct{}

func (tooMany) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	return nil, observe.ErrTooManyReplicas
}

// An operation that is no longer asked for, by what the API server says, is not carried out.
func TestWhatIsNoLongerAskedFor(t *testing.T) {
	for _, operation := range []string{v1alpha1.OperationAdopt, v1alpha1.OperationHandBack} {
		d := newDruids(t, operation)
		cached, set := d.state(), d.state().StatefulSet
		d.update(func(e *v1alpha1.Etcd) { e.Annotations = nil })
		_, err := d.with(d.api).reconcile(t.Context(), cached)
		d.Expect(err).To(MatchError(state.ErrBehind))
		d.Expect(d.state().StatefulSet).To(Equal(set))
	}
}

// How far an adoption is, and what that means.
func TestView(t *testing.T) {
	ofDruid := clusterOf(true)
	asked := map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationAdopt}
	applied := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationAppliedChecksum: "x"}}}
	back := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{v1alpha1.FinalizerDruid}}}
	asksAgain := back.DeepCopy()
	asksAgain.Annotations = asked
	gone := clusterOf(false)
	gone.Ordinals[0].Pod = nil
	for name, tc := range map[string]struct {
		state  state.State
		want   phase
		frozen bool
	}{
		"not adopted":                         {state.State{Etcd: &v1alpha1.Etcd{}}, notAdopted, false},
		"nothing is applied yet":              {state.State{Etcd: &v1alpha1.Etcd{}, Manager: "etcd-druid", StatefulSet: &appsv1.StatefulSet{}, Snapshot: ofDruid}, pending, true},
		"etcd-druid is back":                  {state.State{Etcd: back, Manager: "etcd-druid", StatefulSet: applied}, contested, true},
		"it is back, and asked to be adopted": {state.State{Etcd: asksAgain, Manager: "etcd-druid", StatefulSet: &appsv1.StatefulSet{}}, contested, true},
		"also after the conversion began":     {state.State{Etcd: asksAgain, Manager: "etcd-druid", StatefulSet: applied, Snapshot: ofDruid}, contested, true},
		"asked again, and nothing is left":    {state.State{Etcd: &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Annotations: asked}}, Manager: "etcd-druid", StatefulSet: applied, Snapshot: clusterOf(false)}, converted, false},
		"a pod of etcd-druid is left":         {state.State{Etcd: &v1alpha1.Etcd{}, Manager: "etcd-druid", StatefulSet: applied, Snapshot: ofDruid}, converting, false},
		"a pod is missing":                    {state.State{Etcd: &v1alpha1.Etcd{}, Manager: "etcd-druid", StatefulSet: applied, Snapshot: gone}, converted, false},
		"the members are not known":           {state.State{Etcd: &v1alpha1.Etcd{}, Manager: "etcd-druid", StatefulSet: applied}, converting, false},
		"no pod is left":                      {state.State{Etcd: &v1alpha1.Etcd{}, Manager: "etcd-druid", StatefulSet: applied, Snapshot: clusterOf(false)}, converted, false},
		"no StatefulSet":                      {state.State{Etcd: &v1alpha1.Etcd{}, Manager: "etcd-druid"}, converted, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			view := Adopter{}.view(&tc.state)
			g.Expect(view.phase).To(Equal(tc.want))
			g.Expect(view.frozen()).To(Equal(tc.frozen))
		})
	}
}

// clusterOf has a pod of etcd-druid, or none.
func clusterOf(druid bool) *cluster.Snapshot {
	s := adoptable().snapshot
	s.Ordinals[1].Pod.OfDruid = druid
	return s
}

// The first change of the pods is applied once it is asked for, and nothing speaks against it.
func TestConversion(t *testing.T) {
	set := func(change func(*appsv1.StatefulSet)) func(d *druids) {
		return func(d *druids) {
			live := d.state().StatefulSet
			change(live)
			d.Expect(d.api.Update(d.t.Context(), live)).To(Succeed())
		}
	}
	for name, tc := range map[string]struct {
		cached, live func(d *druids)
		says         string // empty: it is applied
		phase        phase
	}{
		"nothing is asked for":        {cached: func(d *druids) { d.update(func(e *v1alpha1.Etcd) { e.Annotations = nil }) }, phase: pending},
		"the conversion is asked for": {phase: converting},
		"the strategy is not ready":   {cached: set(func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType }), says: "the update strategy is not OnDelete yet", phase: pending},
		"a member is away":            {cached: func(d *druids) { d.snapshot.Ordinals[1].Class = v1alpha1.ClassUnready }, says: "etcd-main-1 is", phase: pending},
		"etcd-druid is back":          {live: func(d *druids) { d.update(func(e *v1alpha1.Etcd) { e.Finalizers = []string{v1alpha1.FinalizerDruid} }) }, says: "etcd-druid has put its finalizer back", phase: pending},
		"another StatefulSet":         {live: set(func(s *appsv1.StatefulSet) { s.UID = "another" }), says: "not the adopted one any more", phase: pending},
		"it was handed back":          {live: set(func(s *appsv1.StatefulSet) { delete(s.Annotations, v1alpha1.AnnotationAdoptedBy) }), says: "not the adopted one any more", phase: pending},
		"etcd-druid writes the status": {live: func(d *druids) {
			d.change = func(a *Adopter) { a.API = writtenByDruid{a.API, time.Now().Add(-quiet / 2)} }
		}, says: "etcd-druid is running", phase: pending},
		"it is gone": {live: func(d *druids) { d.Expect(d.api.Delete(d.t.Context(), d.state().StatefulSet)).To(Succeed()) }, says: "not the adopted one any more", phase: pending},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDruids(t, v1alpha1.OperationReconcile)
			d.update(func(e *v1alpha1.Etcd) { e.Finalizers = nil })
			set(func(s *appsv1.StatefulSet) {
				s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
				s.Annotations[v1alpha1.AnnotationAdoptedBy] = "uid"
			})(d)
			d.manager = v1alpha1.ManagedByDruid
			if tc.cached != nil {
				tc.cached(d)
			}
			d.each()
			s := d.state()
			if tc.live != nil {
				tc.live(d)
			}
			view, err := d.with(d.api).reconcile(t.Context(), s)
			d.Expect(err).NotTo(HaveOccurred())
			d.Expect(view.phase).To(Equal(tc.phase))
			if tc.says == "" {
				d.Expect(view.why).To(BeEmpty())
			} else {
				d.Expect(view.reason).To(Equal(v1alpha1.ReasonConversionRefused))
				d.Expect(view.why).To(ContainSubstring(tc.says))
			}
		})
	}
}

// Claims that the adopted StatefulSet has made since are adopted; none that is older, or another's.
func TestClaimsMadeSince(t *testing.T) {
	for name, tc := range map[string]struct {
		manager string
		change  func(c *corev1.PersistentVolumeClaim)
		adopted bool
	}{
		"made since": {v1alpha1.ManagedByDruid, func(*corev1.PersistentVolumeClaim) {}, true},
		"older":      {v1alpha1.ManagedByDruid, func(c *corev1.PersistentVolumeClaim) { c.CreationTimestamp = metav1.NewTime(noon.Add(-time.Second)) }, false},
		"owned": {v1alpha1.ManagedByDruid, func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "web"}}
		}, false},
		"with other labels":          {v1alpha1.ManagedByDruid, func(c *corev1.PersistentVolumeClaim) { c.Labels["a"] = "b" }, false},
		"of one that is not adopted": {"", func(*corev1.PersistentVolumeClaim) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDruids(t, "")
			d.update(func(e *v1alpha1.Etcd) { e.Finalizers, e.Annotations = nil, nil })
			d.manager = tc.manager
			c := claim(1)
			d.Expect(d.api.Delete(t.Context(), claim(1))).To(Succeed())
			tc.change(c)
			d.Expect(d.api.Create(t.Context(), c)).To(Succeed())
			d.each()
			_, err := d.reconcile()
			d.Expect(err).NotTo(HaveOccurred())
			d.Expect(d.get(&corev1.PersistentVolumeClaim{}, c.Name).GetAnnotations()[v1alpha1.AnnotationAdoptedBy] == "uid").To(Equal(tc.adopted))
		})
	}
	d := newDruids(t, "")
	d.manager = v1alpha1.ManagedByDruid
	_, err := d.reconcile()
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(d.adopted()).To(BeEmpty(), "etcd-druid is back")
	d.Expect(d.api.Delete(t.Context(), d.state().StatefulSet)).To(Succeed())
	_, err = d.reconcile()
	d.Expect(err).NotTo(HaveOccurred(), "there is no StatefulSet")
}

// A request that fails says nothing of the adoption: the condition is what it was before.
func TestConditionAfterAFailure(t *testing.T) {
	for name, tc := range map[string]struct {
		operation, manager string
		want               string
	}{
		"adopt":                         {v1alpha1.OperationAdopt, "", ""},
		"adopt again":                   {v1alpha1.OperationAdopt, v1alpha1.ManagedByDruid, v1alpha1.ReasonDruidActive},
		"hand back what is not adopted": {v1alpha1.OperationHandBack, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDruids(t, tc.operation)
			d.manager = tc.manager
			s := d.state()
			apitest.EachRequestFails(t, d.api, func(api client.WithWatch) error {
				found, err := d.with(api).Reconcile(t.Context(), s)
				if errors.Is(err, state.ErrBehind) || err == nil {
					return err
				}
				reason := ""
				if found.Condition != nil {
					reason = found.Condition.Reason
				}
				d.Expect(reason).To(Equal(tc.want), "with the error %v", err)
				d.Expect(found.Refused).To(BeFalse())
				return err
			})
		})
	}
}

func TestCondition(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: "etcd-main"}}
	for want, view := range map[string]progress{
		"False " + v1alpha1.ReasonDruidActive + " Etcd shoot/etcd-main was adopted from etcd-druid, which has put its finalizer druid.gardener.cloud/etcd-druid back: scale etcd-druid to 0, and run kubectl -n shoot annotate etcd etcd-main druid.gardener.cloud/operation=adopt.": {phase: contested, reason: "x", why: "y"},
		"True ConversionRefused The pods are etcd-druid's, and stay for now: why.": {phase: pending, reason: v1alpha1.ReasonConversionRefused, why: "why"},
		"False ReturnRefused Nothing was handed back: why.":                        {phase: converted, reason: v1alpha1.ReasonReturnRefused, why: "why"},
		"False AdoptionRefused Nothing was adopted: why.":                          {reason: v1alpha1.ReasonAdoptionRefused, why: "why"},
		"False AdoptionRefused Nothing was adopted: etcd-druid is running.":        {phase: contested, reason: v1alpha1.ReasonAdoptionRefused, why: "etcd-druid is running"},
		"False ReturnRefused Nothing was handed back: etcd-druid is running.":      {phase: contested, reason: v1alpha1.ReasonReturnRefused, why: "etcd-druid is running"},
		"True Converting The pods of etcd-druid are being replaced.":               {phase: converting},
		"True Converted No pod of etcd-druid is left.":                             {phase: converted},
		"True ConversionPending The pods are etcd-druid's. Nothing is applied until asked for: kubectl -n shoot annotate etcd etcd-main druid.gardener.cloud/operation=reconcile.": {phase: pending},
	} {
		c := view.condition(etcd)
		g.Expect(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)).To(Equal(want))
	}
}
