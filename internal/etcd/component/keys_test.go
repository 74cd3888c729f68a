// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
)

// The keys are those of the objects, in their order.
func TestKeys(t *testing.T) {
	for name, in := range map[string]Input{"one": input(1), "asleep": input(0), "everything": everything(), "with backups": withBackup(), "adopted": adopted(everything())} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			objects, err := Objects(in)
			g.Expect(err).NotTo(HaveOccurred())
			var want []Key
			for _, object := range objects {
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
				g.Expect(err).NotTo(HaveOccurred())
				o := &unstructured.Unstructured{Object: content}
				want = append(want, Key{o.GroupVersionKind(), o.GetName()})
			}
			g.Expect(Keys(in.Etcd, in.Replicas, in.Manager)).To(Equal(want))
		})
	}
}

// A claim that the StatefulSet controller makes has the labels of the selector: by them it is the Etcd's own.
func TestSelectorIsTheLabelsOfClaims(t *testing.T) {
	g := NewWithT(t)
	g.Expect(statefulSetSelector("etcd-main", "")).To(Equal(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "etcd-main"}))
}

// adopted is the Input of an Etcd that was adopted from etcd-druid.
func adopted(in Input) Input {
	in.Manager = v1alpha1.ManagedByDruid
	return in
}

// The objects of an Etcd that was adopted go on selecting what they have selected; and the ConfigMap, the Role and the
// ServiceAccount of etcd-druid stay for as long as its pods run.
func TestAdopted(t *testing.T) {
	g := NewWithT(t)
	in := adopted(everything())
	own, theirs := map[string]string{}, map[string]string{}
	for rendered, input := range map[*map[string]string]Input{&own: everything(), &theirs: in} {
		objects, err := Objects(input)
		g.Expect(err).NotTo(HaveOccurred())
		for _, object := range objects {
			content, err := json.Marshal(object)
			g.Expect(err).NotTo(HaveOccurred())
			o := &unstructured.Unstructured{}
			g.Expect(o.UnmarshalJSON(content)).To(Succeed())
			(*rendered)[o.GetKind()+" "+o.GetName()] = string(content)
		}
	}
	const ours, druids = `"app.kubernetes.io/managed-by":"etcd-foreman"`, `"app.kubernetes.io/managed-by":"etcd-druid"`
	for key, content := range theirs {
		g.Expect(content).NotTo(ContainSubstring(ours), key)
		if before, ok := own[key]; ok {
			g.Expect(strings.Count(content, druids)).To(Equal(strings.Count(before, ours)), key)
		}
	}
	name := in.Etcd.Name
	g.Expect(theirs).To(And(HaveKey("ConfigMap "+name+"-config-etcd-foreman"), Not(HaveKey("ConfigMap "+name+"-config"))))
	g.Expect(theirs["StatefulSet "+name]).To(ContainSubstring(name + "-config-etcd-foreman"))

	in.Converting = true
	objects, err := Objects(in)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(objects).To(HaveLen(len(theirs) - 3))
	for _, object := range objects {
		switch object.(type) {
		case *rbacv1ac.RoleApplyConfiguration, *rbacv1ac.RoleBindingApplyConfiguration, *corev1ac.ServiceAccountApplyConfiguration:
			t.Errorf("%T is applied while pods of etcd-druid run", object)
		}
	}
}

// Where the pods are labeled as another manager's, a claim says of itself that this operator has made it; where the label managed-by says
// so already, and where the cluster was adopted, its template stays as it is.
func TestClaimsSayWhoMadeThem(t *testing.T) {
	for name, c := range map[string]struct {
		manager, podsManagedBy string
		labels                 map[string]string
	}{
		"usually":              {"", "", nil},
		"explicitly the usual": {"", v1alpha1.ManagedBy, nil},
		"as another's":         {"", "other", map[string]string{v1alpha1.LabelCreatedBy: v1alpha1.ManagedBy}},
		"adopted":              {v1alpha1.ManagedByDruid, "", nil},
		"adopted, and named":   {v1alpha1.ManagedByDruid, "other", nil},
	} {
		g := NewWithT(t)
		in := everything()
		in.Manager, in.PodsManagedBy = c.manager, c.podsManagedBy
		claim := volumeClaim(in)
		if c.labels == nil {
			g.Expect(claim.ObjectMetaApplyConfiguration.Labels).To(BeEmpty(), name)
		} else {
			g.Expect(claim.Labels).To(Equal(c.labels), name)
		}
		g.Expect(*claim.Name).To(Equal(in.Etcd.ClaimTemplateName()), name)
	}
}
