// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errBroken = errors.New("the API server does not answer")

// flaky is a cluster of which one request fails, with an error.
type flaky struct {
	*cluster
	requests, failsAt int
	with              error
	// patched are the patches, and asked what was read.
	patched []string
	// before is called before each write.
	before func()
}

func (f *flaky) fails() error {
	if f.requests++; f.requests == f.failsAt {
		return f.with
	}
	return nil
}

func (f *flaky) Get(ctx context.Context, key types.NamespacedName, into client.Object, options ...client.GetOption) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.cluster.Get(ctx, key, into, options...)
}

func (f *flaky) Apply(ctx context.Context, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.cluster.Apply(ctx, config, options...)
}

func (f *flaky) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if f.before != nil {
		f.before()
	}
	if err := f.fails(); err != nil {
		return err
	}
	return f.cluster.Create(ctx, o, options...)
}

func (f *flaky) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	if err := f.fails(); err != nil {
		return err
	}
	data, err := p.Data(o)
	f.patched = append(f.patched, string(data))
	return err
}

// objects returns what writes through it, and a clock.
func (f *flaky) of() (*Objects, *clocktesting.FakePassiveClock) {
	now := clocktesting.NewFakePassiveClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	return &Objects{Writer: Writer{Client: f, Live: f}, Clock: now}, now
}

// applied returns a cluster with the objects of an Etcd.
func applied(g *WithT, in component.Input) *flaky {
	c := newCluster(g)
	_, err := c.session(objectsOf(c), in).Apply(context.Background(), Request{Input: in, Due: true})
	g.Expect(err).NotTo(HaveOccurred())
	c.take()
	return &flaky{cluster: c, with: errBroken}
}

// Whichever request fails, its error comes back, and the next Apply does what was left.
func TestEachRequestFails(t *testing.T) {
	for name, begin := range map[string]func(g *WithT) (*flaky, component.Input){
		"nothing exists": func(g *WithT) (*flaky, component.Input) {
			return &flaky{cluster: newCluster(g), with: errBroken}, inputOfThree()
		},
		"everything changes": func(g *WithT) (*flaky, component.Input) {
			in := inputOfThree()
			f := applied(g, in)
			in.Etcd = in.Etcd.DeepCopy()
			in.Etcd.Annotations = map[string]string{"a": "b"}
			in.Etcd.Spec.Labels = map[string]string{"a": "b"}
			return f, in
		},
		"nothing changes": func(g *WithT) (*flaky, component.Input) {
			in := inputOfThree()
			return applied(g, in), in
		},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				g := NewWithT(t)
				f, in := begin(g)
				o, _ := f.of()
				seen := f.set()
				s, err := o.Begin(t.Context(), in.Etcd, seen, "")
				g.Expect(err).NotTo(HaveOccurred())
				f.requests, f.failsAt = 0, n
				settled, err := s.Apply(t.Context(), Request{Input: in, Due: true})
				if f.requests < n {
					g.Expect(err).NotTo(HaveOccurred())
					break
				}
				g.Expect(err).To(MatchError(errBroken), "request %d", n)
				g.Expect(settled).To(BeFalse(), "request %d", n)
				g.Expect(s.Checked()).To(Equal(s.proof != nil), "request %d", n)
				for range 2 {
					s, err = o.Begin(t.Context(), in.Etcd, f.set(), "")
					g.Expect(err).NotTo(HaveOccurred())
					settled, err = s.Apply(t.Context(), Request{Input: in, Due: true})
					g.Expect(err).NotTo(HaveOccurred())
				}
				g.Expect(settled).To(BeTrue(), "request %d", n)
				g.Expect(s.Checked()).To(BeTrue())
			}
		})
	}
}

// set returns a copy of the StatefulSet; nil if there is none.
func (f *flaky) set() *appsv1.StatefulSet {
	if set, ok := f.objects[nameIn(&appsv1.StatefulSet{}, "etcd-main")]; ok {
		return set.DeepCopyObject().(*appsv1.StatefulSet)
	}
	return nil
}

// Once the result is remembered, a request that fails comes back, too.
func TestRequestFailsWhenNothingHasChanged(t *testing.T) {
	g := NewWithT(t)
	in := inputOfThree()
	f := applied(g, in)
	o, _ := f.of()
	again := func() (*Session, bool, error) {
		s, err := o.Begin(t.Context(), in.Etcd, f.set(), "")
		g.Expect(err).NotTo(HaveOccurred())
		settled, err := s.Apply(t.Context(), Request{Input: in, Due: true})
		return s, settled, err
	}
	_, _, err := again()
	g.Expect(err).NotTo(HaveOccurred())
	f.requests = 0
	s, settled, err := again()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(settled).To(BeTrue())
	g.Expect(s.Checked()).To(BeTrue())
	g.Expect(s.Foreign()).To(BeEmpty())
	g.Expect(s.StatefulSet()).To(BeNil(), "the API server was not asked")
	n := f.requests
	g.Expect(n).To(BeNumerically(">", 5))
	for i := 1; i <= n; i++ {
		f.requests, f.failsAt = 0, i
		s, _, err = again()
		g.Expect(err).To(MatchError(errBroken), "request %d", i)
		g.Expect(s.Checked()).To(BeFalse(), "request %d", i)
	}
}

// An object that appears between the reads and its creation is not taken over: if it is foreign nothing more is written, and otherwise it has
// to be seen first.
func TestObjectThatAppears(t *testing.T) {
	for name, owned := range map[string]bool{"foreign": false, "the Etcd's own": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := inputOfThree()
			f := &flaky{cluster: newCluster(g), with: errBroken}
			o, now := f.of()
			f.before = func() {
				for _, key := range component.Keys(in.Etcd, 3, "") {
					typed, err := f.scheme.New(key.Kind)
					g.Expect(err).NotTo(HaveOccurred())
					object := typed.(client.Object)
					object.SetName(key.Name)
					object.SetNamespace(in.Etcd.Namespace)
					if owned {
						own(in.Etcd, object)
						object.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: in.Etcd.Name})
					}
					f.put(object)
				}
			}
			s, err := o.Begin(t.Context(), in.Etcd, nil, "")
			g.Expect(err).NotTo(HaveOccurred())
			_, err = s.Apply(t.Context(), Request{Input: in, Due: true})
			g.Expect(f.take()).To(BeEmpty())
			g.Expect(s.StatefulSet()).To(BeNil())
			if owned {
				g.Expect(err).To(Satisfy(apierrors.IsConflict))
				g.Expect(err).To(MatchError(ContainSubstring("it was just created")))
				g.Expect(s.Foreign()).To(BeEmpty())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.Foreign()).To(HaveLen(1))
			g.Expect(s.Checked()).To(BeTrue())
			// It counts as there for a while, and is then read again.
			f.before = nil
			f.objects = map[string]client.Object{}
			now.SetTime(now.Now().Add(RecheckForeign - 1))
			f.requests = 0
			s, err = o.Begin(t.Context(), in.Etcd, nil, "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.Foreign()).To(HaveLen(1))
			g.Expect(s.Owned(t.Context())).To(BeFalse())
			g.Expect(f.requests).To(BeZero())
			now.SetTime(now.Now().Add(1))
			f.requests, f.failsAt = 0, 1
			_, err = o.Begin(t.Context(), in.Etcd, nil, "")
			g.Expect(err).To(MatchError(errBroken))
			f.failsAt = 0
			s, err = o.Begin(t.Context(), in.Etcd, nil, "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.Foreign()).To(BeEmpty())
			g.Expect(s.Owned(t.Context())).To(BeTrue())
			f.requests = 0
			g.Expect(s.Owned(t.Context())).To(BeTrue())
			g.Expect(f.requests).To(BeZero(), "the answer holds for the Session")
		})
	}
}

// An object that is gone by the time it is written is a conflict, as one that has changed is.
func TestObjectThatIsGone(t *testing.T) {
	g := NewWithT(t)
	in := inputOfThree()
	f := applied(g, in)
	f.with = apierrors.NewNotFound(schema.GroupResource{}, "x")
	live := of(f.cluster, &policyv1.PodDisruptionBudget{}, "etcd-main")
	d := f.desired(g, in, "PodDisruptionBudget")
	w := Writer{Client: f, Live: f}
	p := &Proof{Objects: map[component.Key]client.Object{d.key(): live}}
	f.failsAt = 1
	err := w.put(t.Context(), in.Etcd, p, d, "why")
	g.Expect(err).To(Satisfy(apierrors.IsConflict))
	g.Expect(err).To(MatchError(And(HavePrefix("applying PodDisruptionBudget ns/etcd-main: "), ContainSubstring("it was just deleted"))))
	f.requests = 0
	live.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: string(creator), Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:minAvailable":{}}}`)}}
	err = w.put(t.Context(), in.Etcd, p, d, "why")
	g.Expect(err).To(Satisfy(apierrors.IsConflict), "when its fields are released")
	f.failsAt = 0
	fields := live.ManagedFields[0].FieldsV1
	live.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{`)
	g.Expect(w.put(t.Context(), in.Etcd, p, d, "why")).To(MatchError(ContainSubstring("moving fields of other managers to etcd-foreman: ")))
	live.ManagedFields[0].FieldsV1 = fields
	g.Expect(w.put(t.Context(), in.Etcd, p, d, "why")).To(Succeed())
	g.Expect(f.patched).To(HaveLen(1))
	g.Expect(f.patched[0]).To(ContainSubstring(`"manager":"etcd-foreman"`))
	g.Expect(f.take()).To(HaveLen(1))
}

// desired returns the Desired of a kind.
func (f *flaky) desired(g *WithT, in component.Input, kind string) Desired {
	objects, err := component.Objects(in)
	g.Expect(err).NotTo(HaveOccurred())
	for _, o := range objects {
		d, err := Render(o, nil)
		g.Expect(err).NotTo(HaveOccurred())
		if d.GetKind() == kind {
			return d
		}
	}
	g.Expect(kind).To(BeEmpty(), "there is no such object")
	return Desired{}
}

// What exists is applied to by its UID and resourceVersion, so that no other of its name is changed.
func TestAppliesToWhatWasRead(t *testing.T) {
	g := NewWithT(t)
	in := inputOfThree()
	f := applied(g, in)
	live := of(f.cluster, &corev1.ServiceAccount{}, "etcd-main")
	recorder := &recorder{flaky: f}
	d := f.desired(g, in, "ServiceAccount")
	g.Expect(Writer{Client: recorder, Live: f}.apply(t.Context(), d, live)).To(Succeed())
	g.Expect(recorder.uid).To(Equal(live.UID))
	g.Expect(recorder.version).To(Equal(live.ResourceVersion))
	g.Expect(recorder.version).NotTo(BeEmpty())
}

type recorder struct {
	*flaky
	uid     types.UID
	version string
}

func (r *recorder) Apply(_ context.Context, config runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	o := config.(interface {
		GetUID() types.UID
		GetResourceVersion() string
	})
	r.uid, r.version = o.GetUID(), o.GetResourceVersion()
	return nil
}

// A StatefulSet is written only with the permission of those who start members, on what the write is based on.
func TestPermission(t *testing.T) {
	g := NewWithT(t)
	in := inputOfThree()
	f := &flaky{cluster: newCluster(g)}
	o, _ := f.of()
	var bases []*appsv1.StatefulSet
	refuses := errors.New("not now")
	apply := func(in component.Input, seen *appsv1.StatefulSet) error {
		s, err := o.Begin(t.Context(), in.Etcd, seen, "")
		g.Expect(err).NotTo(HaveOccurred())
		_, err = s.Apply(t.Context(), Request{Input: in, Due: true, Permit: func(_ context.Context, base *appsv1.StatefulSet) error {
			bases = append(bases, base)
			return refuses
		}})
		return err
	}
	g.Expect(apply(in, nil)).To(MatchError(refuses))
	g.Expect(bases).To(Equal([]*appsv1.StatefulSet{nil}))
	g.Expect(f.set()).To(BeNil())
	refuses = nil
	g.Expect(apply(in, nil)).To(Succeed())
	g.Expect(f.set()).NotTo(BeNil())
	in.Images.Etcd = "v2"
	for name, seen := range map[string]func(*appsv1.StatefulSet) *appsv1.StatefulSet{
		"it was not seen":   func(*appsv1.StatefulSet) *appsv1.StatefulSet { return nil },
		"it is another one": func(s *appsv1.StatefulSet) *appsv1.StatefulSet { s.UID = "another"; return s },
		"it has changed":    func(s *appsv1.StatefulSet) *appsv1.StatefulSet { s.Generation++; return s },
	} {
		bases = nil
		g.Expect(apply(in, seen(f.set()))).To(Satisfy(apierrors.IsConflict), name)
		g.Expect(bases).To(BeEmpty(), name)
	}
	g.Expect(apply(in, f.set())).To(Succeed())
	g.Expect(bases).To(HaveLen(1))
	g.Expect(bases[0].Name).To(Equal("etcd-main"))
}

// The Proof of an Etcd that was adopted from etcd-druid: its StatefulSet says so, or else its Service for peers; etcd-druid's Role goes with it.
func TestProofOfAdopted(t *testing.T) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main", UID: "uid"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
	adopted := func(o client.Object) client.Object {
		own(etcd, o)
		o.SetNamespace("shoot-a")
		o.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelPartOf: etcd.Name})
		o.SetAnnotations(map[string]string{v1alpha1.AnnotationAdoptedBy: string(etcd.UID)})
		return o
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: etcd.PeerServiceName()}}
	for name, set := range map[string]client.Object{"with a StatefulSet": setOf(1), "without one": nil} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: etcd.RoleName()}}
			adopted(role)
			role.Annotations = nil
			objects := []client.Object{adopted(service.DeepCopy()), role}
			if set != nil {
				objects = append(objects, adopted(set))
			}
			s := serverWith(objects...)
			p, err := Writer{Client: s, Live: s}.prove(t.Context(), etcd, nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(p.Manager).To(Equal(v1alpha1.ManagedByDruid))
			g.Expect(p.Foreign).To(BeEmpty())
			g.Expect(p.owned()).To(BeTrue())
			manager, err := ManagerOfServices(t.Context(), s, etcd)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(manager).To(Equal(v1alpha1.ManagedByDruid))
		})
	}
	g := NewWithT(t)
	manager, err := ManagerOfServices(t.Context(), serverWith(), etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(manager).To(BeEmpty())
	_, err = ManagerOfServices(t.Context(), &flaky{cluster: newCluster(g), failsAt: 1, with: errBroken}, etcd)
	g.Expect(err).To(MatchError(errBroken))
	// Of an Etcd that was not adopted, the Role is foreign.
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: etcd.RoleName(), Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid}}}
	s := serverWith(role)
	p, err := Writer{Client: s, Live: s}.prove(t.Context(), etcd, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Foreign).To(HaveLen(1))
}

// A Session that is obstructed writes nothing, and says what is in the way.
func TestObstructed(t *testing.T) {
	g := NewWithT(t)
	in := inputOfThree()
	f := &flaky{cluster: newCluster(g)}
	o, _ := f.of()
	s, err := o.Begin(t.Context(), in.Etcd, nil, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Foreign()).To(BeEmpty())
	g.Expect(s.Checked()).To(BeFalse())
	g.Expect(s.StatefulSet()).To(BeNil())
	s.Obstruct(ownership.Foreign{Name: "ns/main"})
	_, err = s.Apply(t.Context(), Request{Input: in, Due: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.take()).To(BeEmpty())
	g.Expect(s.Foreign()).To(Equal([]ownership.Foreign{{Name: "ns/main"}}))
	g.Expect(s.Checked()).To(BeTrue())
	g.Expect(s.StatefulSet()).To(BeNil())
}

// What the operator forgets of an Etcd, it finds out again.
func TestForget(t *testing.T) {
	g := NewWithT(t)
	in := inputOfThree()
	f := applied(g, in)
	o, _ := f.of()
	for range 2 {
		s, err := o.Begin(t.Context(), in.Etcd, f.set(), "")
		g.Expect(err).NotTo(HaveOccurred())
		_, err = s.Apply(t.Context(), Request{Input: in, Due: true})
		g.Expect(err).NotTo(HaveOccurred())
	}
	o.obstructed.Set(in.Etcd, obstruction{foreign: []ownership.Foreign{{}}})
	g.Expect(o.comparisons.Of(in.Etcd).objects).NotTo(BeEmpty())
	o.Forget(client.ObjectKeyFromObject(in.Etcd))
	g.Expect(o.comparisons.Of(in.Etcd).objects).To(BeEmpty())
	g.Expect(o.obstructed.Of(in.Etcd).foreign).To(BeEmpty())
}

// An object that cannot be built, or is of a kind that the client does not know, is an error, and nothing is written.
func TestObjectThatIsNotKnown(t *testing.T) {
	g := NewWithT(t)
	in := inputOfThree()
	f := applied(g, in)
	o, _ := f.of()
	begin := func(in component.Input) *Session {
		s, err := o.Begin(t.Context(), in.Etcd, f.set(), "")
		g.Expect(err).NotTo(HaveOccurred())
		return s
	}
	broken := in
	broken.Etcd = in.Etcd.DeepCopy()
	broken.Etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: "Tape", Container: "c"}}
	_, err := begin(broken).Apply(t.Context(), Request{Input: broken, Due: true})
	g.Expect(err).To(MatchError(ContainSubstring("spec.backup")))
	f.scheme = runtime.NewScheme()
	s := begin(in)
	_, err = s.Apply(t.Context(), Request{Input: in, Due: true})
	g.Expect(err).To(MatchError(HavePrefix("making a ServiceAccount: ")))
	_, err = s.Owned(t.Context())
	g.Expect(err).To(MatchError(HavePrefix("making a StatefulSet: ")))
	g.Expect(f.take()).To(BeEmpty())
}

// Whose an object is that has appeared may be unknown.
func TestObjectThatAppearsAndIsNotRead(t *testing.T) {
	g := NewWithT(t)
	in := inputOfThree()
	f := applied(g, in)
	f.failsAt = 2
	d := f.desired(g, in, "ServiceAccount")
	err := Writer{Client: f, Live: f}.put(t.Context(), in.Etcd, &Proof{Objects: map[component.Key]client.Object{}}, d, "why")
	g.Expect(err).To(MatchError(errBroken))
}

// All objects of an adopted Etcd are annotated with whom they belong to.
func TestCommonAnnotations(t *testing.T) {
	g := NewWithT(t)
	objects, err := component.Objects(inputOfThree())
	g.Expect(err).NotTo(HaveOccurred())
	for _, o := range objects {
		plain, err := Render(o, nil)
		g.Expect(err).NotTo(HaveOccurred())
		d, err := Render(o, map[string]string{"a": "b"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(d.GetAnnotations()).To(HaveKeyWithValue("a", "b"))
		g.Expect(d.checksum).NotTo(Equal(plain.checksum))
	}
}
