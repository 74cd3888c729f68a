// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// A Job has room for the database twice, and does not fill the disk of its node.
func TestWorkLimit(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	for _, c := range []struct{ capacity, quota, want string }{
		{"20Gi", "8Gi", "42Gi"}, {"4Gi", "8Gi", "18Gi"}, {"20Gi", "", "42Gi"},
	} {
		etcd.Spec.StorageCapacity, etcd.Spec.Etcd.Quota = ptr.To(resource.MustParse(c.capacity)), nil
		if c.quota != "" {
			etcd.Spec.Etcd.Quota = ptr.To(resource.MustParse(c.quota))
		}
		limit := WorkLimit(etcd)
		g.Expect(limit.String()).To(Equal(c.want))
		g.Expect(etcd.Spec.StorageCapacity.String()).To(Equal(c.capacity), "it is only read")
		job, err := Build(Spec{Owner: OfEtcd(etcd), WorkDir: true, WorkLimit: limit})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(job.Spec.Template.Spec.Volumes[0].EmptyDir.SizeLimit.String()).To(Equal(c.want))
	}
}

// A Job of a task has a name that the API server takes, wherever the task's own name is cut.
func TestNamesOfJobs(t *testing.T) {
	g := NewWithT(t)
	for _, name := range []string{
		"a", strings.Repeat("a", 49) + "." + strings.Repeat("b", 30), strings.Repeat("a", 48) + ".-" + strings.Repeat("b", 30),
		strings.Repeat("a.", 60), strings.Repeat("a", 49) + "--b", strings.Repeat("a", 253),
	} {
		job := Name(&metav1.ObjectMeta{Name: name, UID: "1"})
		g.Expect(validation.IsDNS1123Subdomain(job)).To(BeEmpty(), job)
		g.Expect(len(job)).To(BeNumerically("<=", 63))
	}
	g.Expect(Name(&metav1.ObjectMeta{Name: "a", UID: "1"})).To(Equal(Name(&metav1.ObjectMeta{Name: "a", UID: "1"})))
	g.Expect(Name(&metav1.ObjectMeta{Name: "a", UID: "1"})).NotTo(Equal(Name(&metav1.ObjectMeta{Name: "a", UID: "2"})))
}

// Whatever a Job does, its agent has limits, and asks for little of them.
func TestEveryJobHasLimits(t *testing.T) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	etcd.Spec.Etcd.Quota = ptr.To(resource.MustParse("4Gi"))
	list := func(memory, disk string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourceEphemeralStorage: resource.MustParse(disk)}
	}
	roomy := etcd.DeepCopy()
	roomy.Spec.Etcd.Resources = &corev1.ResourceRequirements{Limits: list("16Gi", "1Gi")}
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi"), corev1.ResourceEphemeralStorage: {}}
	with := func(list corev1.ResourceList, name corev1.ResourceName, value string) corev1.ResourceList {
		list = list.DeepCopy()
		list[name] = resource.MustParse(value)
		return list
	}
	for name, c := range map[string]struct {
		spec             Spec
		requests, limits corev1.ResourceList
	}{
		"streams":                           {Spec{}, requests, list("512Mi", "1Gi")},
		"opens a database":                  {Spec{Database: etcd}, requests, list("6Gi", "1Gi")},
		"opens a database of large members": {Spec{Database: roomy}, requests, list("16Gi", "1Gi")},
		"works on a database":               {Spec{Database: etcd, WorkDir: true, WorkLimit: resource.MustParse("10Gi")}, requests, list("6Gi", "11Gi")},
		"the user's limit": {
			Spec{Database: etcd, Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")}}},
			requests, list("3Gi", "1Gi"),
		},
		"the user's small limit": {
			Spec{Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}},
			with(requests, corev1.ResourceMemory, "64Mi"), list("64Mi", "1Gi"),
		},
		"the user's large request": {
			Spec{Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}},
			with(requests, corev1.ResourceMemory, "1Gi"), list("1Gi", "1Gi"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c.spec.Owner = OfEtcd(etcd)
			job, err := Build(c.spec)
			g.Expect(err).NotTo(HaveOccurred())
			got := job.Spec.Template.Spec.Containers[0].Resources
			g.Expect(equality.Semantic.DeepEqual(got.Requests, c.requests)).To(BeTrue(), "requests %v", got.Requests)
			g.Expect(equality.Semantic.DeepEqual(got.Limits, c.limits)).To(BeTrue(), "limits %v", got.Limits)
			g.Expect(job.Spec.Template.Spec.Containers[0].Env).To(ConsistOf(corev1.EnvVar{Name: "GOMEMLIMIT", Value: fmt.Sprint(got.Limits.Memory().Value() / 10 * 9)}))
		})
	}
}
