// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A mark is of the pod that it names. One that came with a template or is illegible means nothing.
func TestMarkOf(t *testing.T) {
	mark := Mark{UID: "pod", Source: "old", Target: "new", Earlier: []string{"older"}, Failed: "no space"}
	for name, c := range map[string]struct {
		annotations map[string]string
		want        *Mark
	}{
		"its own":        {map[string]string{v1alpha1.AnnotationInPlaceUpdate: mark.String()}, &mark},
		"another pod's":  {map[string]string{v1alpha1.AnnotationInPlaceUpdate: Mark{UID: "other"}.String()}, nil},
		"without UID":    {map[string]string{v1alpha1.AnnotationInPlaceUpdate: `{"source":"old","target":"new"}`}, nil},
		"illegible":      {map[string]string{v1alpha1.AnnotationInPlaceUpdate: `{"uid":"pod"`}, nil},
		"no mark at all": {nil, nil},
	} {
		pod := &metav1.ObjectMeta{UID: "pod", Annotations: c.annotations}
		NewWithT(t).Expect(MarkOf(pod)).To(Equal(c.want), name)
	}
	NewWithT(t).Expect(MarkOf(&metav1.ObjectMeta{})).To(BeNil(), "an empty UID is none")
}

// A pod on its way that is brought elsewhere remembers where it was brought before: it may have values of each. What failed on the way there need
// not fail on the way here.
func TestMarkTo(t *testing.T) {
	g := NewWithT(t)
	first := Mark{UID: "pod", Source: "a", Target: "b", Failed: "refused"}
	first.Restart(v1alpha1.ContainerEtcd, "1")
	second := first.To("c")
	g.Expect(second).To(Equal(Mark{
		UID: "pod", Source: "a", Target: "c", Earlier: []string{"b"},
		Originals: map[string]string{"etcd": "1"}, Containers: map[string]string{"etcd": "1"},
	}))
	second.Restart(v1alpha1.ContainerEtcd, "2")
	g.Expect(second.Containers).To(HaveKeyWithValue("etcd", "2"))
	g.Expect(second.Originals).To(HaveKeyWithValue("etcd", "1"), "what ran before the first update")
	g.Expect(first.Containers).To(HaveKeyWithValue("etcd", "1"), "the mark before is left as it is")
	g.Expect(second.To("c").Earlier).To(Equal([]string{"b"}), "nothing has changed")
	g.Expect(first.To("b").Failed).To(Equal("refused"), "nothing has changed")

	third := second.To("a").To("b").To("a")
	g.Expect(third.Earlier).To(Equal([]string{"b", "c"}), "in order, each once, without the target")
	g.Expect(second.Earlier).To(Equal([]string{"b"}), "the mark before is left as it is")
}

// Containers besides etcd restart if the mark names one.
func TestMarkRestartsOthers(t *testing.T) {
	g := NewWithT(t)
	var m Mark
	g.Expect(m.RestartsOthers()).To(BeFalse())
	m.Restart(v1alpha1.ContainerEtcd, "1")
	g.Expect(m.RestartsOthers()).To(BeFalse())
	m.Restart("another", "2")
	g.Expect(m.RestartsOthers()).To(BeTrue())
}
