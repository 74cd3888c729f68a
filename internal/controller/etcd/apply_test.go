// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// What is compared and applied is what the apply configurations say in JSON, and a checksum is that of all of it but a
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
		d, err := newDesired(object)
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

		same, err := newDesired(others[i])
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(same.checksum).To(Equal(d.checksum))
		checksums[d.checksum] = true
	}
	g.Expect(checksums).To(HaveLen(len(objects)))
}
