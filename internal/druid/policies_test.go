// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package druid

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// servedResources are those of admissionregistration.k8s.io/v1.
type servedResources struct {
	discovery.ServerResourcesInterface
	names []string
	err   error
}

func (s servedResources) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	list := &metav1.APIResourceList{GroupVersion: version}
	for _, name := range s.names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	if version != "admissionregistration.k8s.io/v1" {
		list.APIResources = nil
	}
	return list, s.err
}

func TestServesPolicies(t *testing.T) {
	g := NewWithT(t)
	old := []string{"mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingwebhookconfigurations"}
	g.Expect(servesPolicies(servedResources{names: append(old, "mutatingadmissionpolicies")})).To(Succeed())
	g.Expect(servesPolicies(servedResources{names: old})).To(MatchError(errNoPolicies))
	unknown := errors.New("unknown")
	g.Expect(servesPolicies(servedResources{err: unknown})).To(MatchError(unknown))
}
