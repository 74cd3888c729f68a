// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

func TestIssuers(t *testing.T) {
	rules := Rules{Issuers: []configv1alpha1.AllowedIssuer{
		{Name: "*"}, {Name: "corp", Kind: "ClusterIssuer"}, {Name: "any-name", Kind: "ClusterIssuer", AllowServerDNSNames: true},
		{Name: "aws", Kind: "AWSPCAIssuer", Group: "awspca.cert-manager.io"},
	}}
	cluster := func(name string) *v1alpha1.IssuerReference {
		return &v1alpha1.IssuerReference{Name: name, Kind: "ClusterIssuer"}
	}
	for _, tc := range []struct {
		name           string
		clients, peers *v1alpha1.IssuerReference
		hosts          []string
		refused        string
	}{
		{name: "the operator's own CA"},
		{name: "the operator's own CA, for other names", hosts: []string{"example.com"}},
		{name: "issuers of the namespace", clients: &v1alpha1.IssuerReference{Name: "a"}, peers: &v1alpha1.IssuerReference{Name: "b"}},
		{name: "an issuer of the cluster", clients: cluster("corp"), peers: &v1alpha1.IssuerReference{Name: "b"}},
		{name: "another issuer of the cluster", clients: cluster("root"), peers: &v1alpha1.IssuerReference{Name: "b"}, refused: "issuerRef names ClusterIssuer root"},
		{name: "another issuer of the cluster, for peers", clients: &v1alpha1.IssuerReference{Name: "b"}, peers: cluster("root"), refused: "peerIssuerRef names ClusterIssuer root"},
		{name: "another group", clients: &v1alpha1.IssuerReference{Name: "a", Group: "example.com"}, peers: &v1alpha1.IssuerReference{Name: "b"}, refused: "of group example.com"},
		{name: "an issuer of another group", clients: &v1alpha1.IssuerReference{Name: "aws", Kind: "AWSPCAIssuer", Group: "awspca.cert-manager.io"}, peers: &v1alpha1.IssuerReference{Name: "b"}},
		{name: "other names", clients: cluster("corp"), peers: &v1alpha1.IssuerReference{Name: "b"}, hosts: []string{"bank.example.com"}, refused: "serverDNSNames is not allowed with ClusterIssuer corp"},
		{name: "other names that are allowed", clients: cluster("any-name"), peers: &v1alpha1.IssuerReference{Name: "b"}, hosts: []string{"bank.example.com"}},
		{name: "one issuer for both", clients: &v1alpha1.IssuerReference{Name: "a"}, peers: &v1alpha1.IssuerReference{Name: "a", Kind: "Issuer"}, refused: "are the same issuer"},
		{name: "none for peers", clients: &v1alpha1.IssuerReference{Name: "a"}, refused: "set both"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{ManagedTLS: &v1alpha1.ManagedTLS{IssuerRef: tc.clients, PeerIssuerRef: tc.peers, ServerDNSNames: tc.hosts}}}
			err := rules.Etcd(etcd)
			if tc.refused == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(tc.refused)))
			}
			if tc.clients != nil {
				g.Expect(Rules{}.Etcd(etcd)).NotTo(Succeed(), "without a configuration, none is allowed")
			}
		})
	}
}
