// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Without adoption, nothing is applied to an Etcd that was adopted, and to others as ever.
func TestNoAdopter(t *testing.T) {
	g := NewWithT(t)
	a, err := NoAdopter{}.Reconcile(t.Context(), &State{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(a).To(Equal(Adoption{}))
	a, err = NoAdopter{}.Reconcile(t.Context(), &State{Manager: "etcd-druid"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(a.Frozen).To(BeTrue())
	g.Expect(a.Condition).To(HaveField("Status", metav1.ConditionFalse))
}
