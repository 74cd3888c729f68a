// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.ContainerEtcd, Image: image}}}}
}

func owned(kind string, by types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "m", UID: by, Controller: ptr.To(true)}}
}

func revision(t *testing.T, name string, by types.UID, of corev1.PodTemplateSpec) *appsv1.ControllerRevision {
	t.Helper()
	raw, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: owned("StatefulSet", by)}, Data: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"template":%s}}`, raw)},
	}
}

func pod(name, at string, by types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{appsv1.StatefulSetRevisionLabel: at}, OwnerReferences: owned("StatefulSet", by)},
		Spec:       template("etcd:" + at).Spec,
	}
}

// asking is a Reader that has listed all pods, before an API server that counts reads of revisions and may refuse them.
func asking(t *testing.T, refusal error, objects ...client.Object) (r *Reader, asked map[string]int) {
	t.Helper()
	asked = map[string]int{}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			asked[key.Name]++
			if refusal != nil {
				return refusal
			}
			return c.Get(ctx, key, o, options...)
		},
	}).Build()
	r = &Reader{Reader: c}
	if err := r.List(t.Context(), &corev1.PodList{}); err != nil {
		t.Fatal(err)
	}
	return r, asked
}

func assess(t *testing.T, r *Reader, refused string) (map[types.UID]inplace.Assessment, error) {
	t.Helper()
	return r.Assess(t.Context(), "ns", cluster.StatefulSet{UID: "set"}, "new", func(types.UID) string { return refused })
}

// Only the outdated pods of the StatefulSet are assessed, and each revision is read once.
func TestAssess(t *testing.T) {
	g := NewWithT(t)
	leaving := pod("leaving", "old", "set")
	leaving.DeletionTimestamp, leaving.Finalizers = ptr.To(metav1.Now()), []string{"x/y"}
	stray := pod("stray", "old", "set")
	stray.OwnerReferences = nil
	begun := pod("begun", "new", "set")
	begun.Annotations = map[string]string{v1alpha1.AnnotationInPlaceUpdate: cluster.Mark{UID: "begun", Source: "old", Target: "new"}.String()}
	r, asked := asking(t, nil, revision(t, "old", "set", template("etcd:old")), revision(t, "new", "set", template("etcd:new")),
		pod("a", "old", "set"), pod("b", "old", "set"), pod("current", "new", "set"), pod("foreign", "old", "another"), leaving, stray, begun)
	assessed, err := assess(t, r, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(assessed).To(HaveLen(3))
	for _, name := range []types.UID{"a", "b"} {
		g.Expect(assessed[name].Replace).To(BeEmpty())
		g.Expect(assessed[name].Writes).NotTo(BeEmpty())
	}
	g.Expect(assessed).To(HaveKey(types.UID("begun")))
	g.Expect(asked).To(Equal(map[string]int{"old": 1, "new": 1}))

	assessed, err = assess(t, r, "the API server says no")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(assessed["a"].Replace).To(ContainSubstring("the API server says no"))
}

// A revision is read once, whatever becomes of it later: its pods have the template that it had. One of another StatefulSet is
// read again, and so is one that was missing.
func TestARevisionIsReadOnce(t *testing.T) {
	g := NewWithT(t)
	old, of := revision(t, "old", "set", template("etcd:old")), pod("a", "old", "set")
	r, asked := asking(t, nil, old, of)
	r.Known = &Known{}
	for range 2 {
		assessed, err := assess(t, r, "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(assessed["a"].Replace).To(ContainSubstring("new is missing"))
	}
	g.Expect(asked).To(Equal(map[string]int{"old": 1, "new": 2}))

	writer := r.Reader.(client.Client)
	g.Expect(writer.Create(t.Context(), revision(t, "new", "set", template("etcd:new")))).To(Succeed())
	g.Expect(writer.Delete(t.Context(), old)).To(Succeed())
	assessed, err := assess(t, r, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(assessed["a"].Replace).To(BeEmpty(), "it was deleted, and the pod has what it said")
	g.Expect(writer.Create(t.Context(), revision(t, "old", "set", template("etcd:new")))).To(Succeed())
	assessed, err = assess(t, r, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(assessed["a"].Writes).NotTo(HaveLen(1), "it was recreated with the target's data, and the pod is not at the target")
	g.Expect(asked).To(Equal(map[string]int{"old": 1, "new": 3}))

	g.Expect(r.Known.get("another set", "old")).To(BeNil())
}

// What is known is bounded.
func TestKnownIsBounded(t *testing.T) {
	g := NewWithT(t)
	k := &Known{}
	for i := range 3 * maxKnown {
		k.put("set", fmt.Sprint(i), &inplace.Template{})
		g.Expect(len(k.templates)).To(BeNumerically("<=", maxKnown))
		g.Expect(k.get("set", fmt.Sprint(i))).NotTo(BeNil())
	}
	k.put("another set", "a", &inplace.Template{})
	g.Expect(k.templates).To(HaveLen(1))
	k.put("another set", "b", nil)
	g.Expect(k.templates).To(HaveLen(1))
}

// A pod without a revision cannot be compared, and nothing of that name is read.
func TestPodWithoutARevision(t *testing.T) {
	g := NewWithT(t)
	p := pod("a", "", "set")
	p.Labels = nil
	r, asked := asking(t, nil, revision(t, "new", "set", template("etcd:new")), p)
	assessed, err := assess(t, r, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(assessed["a"].Replace).NotTo(BeEmpty())
	g.Expect(asked).To(Equal(map[string]int{"new": 1}))
}

// A revision that is missing, another owner's, or cannot be read as one: the pod is replaced. An API server that does not answer is an error.
func TestRevisionsThatAreNone(t *testing.T) {
	broken := revision(t, "old", "set", template("etcd:old"))
	broken.Data.Raw = []byte(`{"spec":{"template":7}}`)
	stray := revision(t, "old", "set", template("etcd:old"))
	stray.OwnerReferences = nil
	current, old := revision(t, "new", "set", template("etcd:new")), pod("a", "old", "set")
	for name, c := range map[string]struct {
		refusal error
		objects []client.Object
	}{
		"missing":              {nil, []client.Object{current, old}},
		"foreign":              {nil, []client.Object{current, old, revision(t, "old", "another", template("etcd:old"))}},
		"without a controller": {nil, []client.Object{current, old, stray}},
		"broken":               {nil, []client.Object{current, old, broken}},
		"an invalid name":      {apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("ControllerRevision").GroupKind(), "old", nil), []client.Object{old}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r, _ := asking(t, c.refusal, c.objects...)
			assessed, err := assess(t, r, "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(assessed["a"].Replace).NotTo(BeEmpty())
		})
	}
	g := NewWithT(t)
	refusal := errors.New("no answer")
	r, _ := asking(t, refusal, old)
	_, err := assess(t, r, "")
	g.Expect(err).To(MatchError(refusal))
}

// A list that fails is no list of no pods, and one of something else is not one of pods.
func TestList(t *testing.T) {
	g := NewWithT(t)
	refusal := errors.New("no answer")
	r, _ := asking(t, nil, pod("a", "old", "set"))
	g.Expect(r.List(t.Context(), &appsv1.ControllerRevisionList{})).To(Succeed())
	g.Expect(r.pods).To(HaveLen(1))
	r.Reader = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refusal }}).Build()
	g.Expect(r.List(t.Context(), &corev1.PodList{})).To(MatchError(refusal))
	g.Expect(r.pods).To(HaveLen(1))
}
