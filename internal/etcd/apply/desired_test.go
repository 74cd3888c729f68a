// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// inputOfThree returns the input for the objects of an Etcd of three members.
func inputOfThree() component.Input {
	return component.Input{
		Etcd:     &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd-main", UID: "u"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}},
		Images:   configv1alpha1.Images{Etcd: "v1", EtcdAgent: "v1"},
		Replicas: 3, Strategy: appsv1.OnDeleteStatefulSetStrategyType, Capacity: resource.MustParse("1Gi"),
		Retention: v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenDeleted: v1alpha1.VolumesRetained, WhenScaled: v1alpha1.VolumesRetained},
	}
}

// Objects are compared and applied as the JSON of their apply configurations. The checksum covers everything except a
// StatefulSet's update strategy.
func TestDesired(t *testing.T) {
	g := NewWithT(t)
	in := inputOfThree()
	other := in
	other.Strategy = appsv1.RollingUpdateStatefulSetStrategyType
	objects, err := component.Objects(in)
	g.Expect(err).NotTo(HaveOccurred())
	others, err := component.Objects(other)
	g.Expect(err).NotTo(HaveOccurred())
	checksums := map[string]bool{}
	for i, object := range objects {
		d, err := Render(object, nil)
		g.Expect(err).NotTo(HaveOccurred())
		data, err := json.Marshal(object)
		g.Expect(err).NotTo(HaveOccurred())
		said := map[string]any{}
		g.Expect(json.Unmarshal(data, &said)).To(Succeed())
		annotations := d.GetAnnotations()
		g.Expect(annotations).To(HaveKeyWithValue(v1alpha1.AnnotationAppliedChecksum, d.checksum))
		delete(annotations, v1alpha1.AnnotationAppliedChecksum)
		d.SetAnnotations(annotations)
		if _, annotated := said["metadata"].(map[string]any)["annotations"]; !annotated {
			delete(d.Object["metadata"].(map[string]any), "annotations")
		}
		g.Expect(d.Object).To(Equal(said))

		same, err := Render(others[i], nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(same.checksum).To(Equal(d.checksum))
		checksums[d.checksum] = true
	}
	g.Expect(checksums).To(HaveLen(len(objects)))
}
