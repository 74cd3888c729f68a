// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package druid

import (
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
)

// sent is an http.RoundTripper that counts requests.
type sent int

func (s *sent) RoundTrip(*http.Request) (*http.Response, error) {
	*s++
	return httptest.NewRecorder().Result(), nil
}

func TestWhatAnExecutorMayWrite(t *testing.T) {
	const etcds, core, apps, leases = "/apis/druid.gardener.cloud/v1alpha1/namespaces/shoot/", "/api/v1/namespaces/shoot/", "/apis/apps/v1/namespaces/shoot/", "/apis/coordination.k8s.io/v1/namespaces/"
	for request, allowed := range map[[2]string]bool{
		{"GET", etcds + "etcds"}:                                                                             true,
		{"GET", core + "secrets/ca"}:                                                                         true,
		{"POST", etcds + "etcdoperatortasks"}:                                                                true,
		{"PATCH", etcds + "etcdoperatortasks/t"}:                                                             true,
		{"PUT", etcds + "etcdoperatortasks/t/status"}:                                                        true,
		{"DELETE", etcds + "etcdoperatortasks/t"}:                                                            true,
		{"DELETE", core + "pods/main-0"}:                                                                     true,
		{"PATCH", core + "pods/main-0"}:                                                                      true,
		{"POST", core + "pods/main-0/eviction"}:                                                              true,
		{"PATCH", apps + "statefulsets/main/status"}:                                                         true,
		{"POST", "/apis/batch/v1/namespaces/shoot/jobs"}:                                                     true,
		{"POST", leases + "own/leases"}:                                                                      true,
		{"PUT", leases + "own/leases/etcd-foreman"}:                                                          true,
		{"PUT", "/api/v1/namespaces/own/secrets/etcd-foreman-webhook-ca"}:                                    true,
		{"POST", "/api/v1/namespaces/own/configmaps"}:                                                        true,
		{"PUT", "/api/v1/namespaces/own/configmaps/etcd-foreman-fleet"}:                                      true,
		{"PATCH", "/apis/druid.gardener.cloud/v1alpha1/etcdfleetpolicies/all/status"}:                        true,
		{"PATCH", "/apis/druid.gardener.cloud/v1alpha1/etcdfleetpolicies/all"}:                               false,
		{"PUT", "/api/v1/namespaces/own/configmaps/other"}:                                                   false,
		{"POST", core + "configmaps"}:                                                                        false,
		{"PUT", core + "configmaps/etcd-foreman-fleet"}:                                                      false,
		{"PUT", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/etcd-foreman-rollouts"}: false,
		{"PUT", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/other"}:                 false,
		{"PUT", core + "secrets/etcd-foreman-webhook-ca"}:                                                    false,
		{"PUT", "/api/v1/namespaces/own/secrets/other"}:                                                      false,
		{"PATCH", etcds + "etcds/main"}:                                                                      false,
		{"PATCH", etcds + "etcds/main/status"}:                                                               false,
		{"PUT", etcds + "etcds/main/status"}:                                                                 false,
		{"PATCH", apps + "statefulsets/main"}:                                                                false,
		{"PUT", apps + "statefulsets/main"}:                                                                  false,
		{"PUT", apps + "statefulsets/main/status"}:                                                           false,
		{"PUT", apps + "statefulsets/main/scale"}:                                                            false,
		{"DELETE", apps + "statefulsets/main"}:                                                               false,
		{"POST", apps + "statefulsets"}:                                                                      false,
		{"PATCH", core + "services/main-client"}:                                                             false,
		{"POST", core + "services"}:                                                                          false,
		{"PATCH", core + "configmaps/main-config"}:                                                           false,
		{"PUT", core + "secrets/ca"}:                                                                         false,
		{"DELETE", core + "pods"}:                                                                            false,
		{"POST", core + "pods"}:                                                                              false,
		{"POST", core + "pods/main-0/exec"}:                                                                  false,
		{"DELETE", core + "persistentvolumeclaims/main-0"}:                                                   false,
		{"PATCH", leases + "shoot/leases/main-0"}:                                                            false,
		{"PUT", leases + "shoot/leases/etcd-foreman"}:                                                        false,
		{"POST", leases + "shoot/leases"}:                                                                    false,
		{"PUT", leases + "own/leases/main-0"}:                                                                false,
		{"DELETE", etcds + "etcdoperatortasks"}:                                                              false,
		{"POST", "/apis/x"}:                                                                                  false,
		{"POST", "/"}:                                                                                        false,
		{"DELETE", "/api/v1/namespaces/shoot"}:                                                               false,
		{"PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/x"}:                                       false,
	} {
		g := NewWithT(t)
		next := new(sent)
		r := httptest.NewRequest(request[0], request[1], nil)
		_, err := guard{next, "own", "etcd-foreman"}.RoundTrip(r) //nolint:bodyclose // it has none
		g.Expect(err == nil).To(Equal(allowed), "%v", request)
		g.Expect(*next == 1).To(Equal(allowed), "%v", request)
	}
}
