// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// issuers returns why the issuers of managed TLS that an Etcd names are refused; nil if they are allowed.
func (r Rules) issuers(etcd *v1alpha1.Etcd) error {
	m := etcd.Spec.ManagedTLS
	if m == nil {
		return nil
	}
	clients, peers := m.Issuer(v1alpha1.TLSClients), m.Issuer(v1alpha1.TLSPeers)
	if clients != nil && peers != nil && *clients == *peers {
		return errors.New("spec.managedTLS.issuerRef and peerIssuerRef are the same issuer: with one CA for both, every client could act as a peer. Name another issuer for peers")
	}
	if etcd.ManagesTLS(v1alpha1.TLSPeers) && (clients == nil) != (peers == nil) {
		return errors.New("spec.managedTLS has only one of issuerRef and peerIssuerRef: set both, or neither")
	}
	if err := r.issuer("spec.managedTLS.issuerRef", clients, len(m.ServerDNSNames) > 0); err != nil {
		return err
	}
	return r.issuer("spec.managedTLS.peerIssuerRef", peers, false)
}

func (r Rules) issuer(field string, ref *v1alpha1.IssuerReference, withNames bool) error {
	if ref == nil {
		return nil
	}
	named := false
	for _, a := range r.Issuers {
		if a.Name != "*" && a.Name != ref.Name || cmp.Or(a.Kind, v1alpha1.KindIssuer) != ref.Kind || cmp.Or(a.Group, v1alpha1.GroupCertManager) != ref.Group {
			continue
		}
		if named = true; !withNames || a.AllowServerDNSNames {
			return nil
		}
	}
	if named {
		return fmt.Errorf("spec.managedTLS.serverDNSNames is not allowed with %s %s by the operator's configuration (managedTLS.issuers, allowServerDNSNames): remove the names, or use an issuer that allows them", ref.Kind, ref.Name)
	}
	return fmt.Errorf("%s names %s %s of group %s, which the operator's configuration (managedTLS.issuers) does not allow: ask the administrator of the operator to allow it, or name one that is allowed", field, ref.Kind, ref.Name, ref.Group)
}
