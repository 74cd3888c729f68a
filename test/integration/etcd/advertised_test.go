// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
)

// Members of a running cluster are listed with further peer URLs, and without them again: the status records them first, and nothing
// of the StatefulSet changes.
func TestFurtherPeerURLs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.start()
	w.eventuallyWell()
	template := func() appsv1.StatefulSetSpec {
		set := &appsv1.StatefulSet{}
		w.Get(w, name, set)
		return set.Spec
	}
	before := template()
	const own, more = "http://etcd-main-1:2380", "http://10.0.0.1:2380"
	w.Change(func(e *v1alpha1.Etcd) {
		e.Spec.Etcd.AdditionalAdvertisePeerURLs = []v1alpha1.MemberPeerURLs{{MemberName: "etcd-main-1", URLs: []string{more}}}
	})
	w.Eventually(func() []string { return w.Members.PeerURLs(1) }).Should(Equal([]string{own, more}))
	w.Expect(w.Status(w).AdvertisedPeerURLs).To(Equal([]v1alpha1.ListedURLs{{Name: "etcd-main-1", URLs: []string{more}}}))
	w.Expect(w.Members.PeerURLs(0)).To(Equal([]string{"http://etcd-main-0:2380"}))

	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Etcd.AdditionalAdvertisePeerURLs = nil })
	w.Eventually(func() []string { return w.Members.PeerURLs(1) }).Should(Equal([]string{own}))
	w.Eventually(func() []v1alpha1.ListedURLs { return w.Status(w).AdvertisedPeerURLs }).Should(BeEmpty())
	w.Expect(template()).To(Equal(before))
}
