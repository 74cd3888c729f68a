// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
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
