// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TLSConnection is a kind of connection that can use TLS.
// +kubebuilder:validation:Enum=Clients;Peers;Agents
type TLSConnection string

// The connections.
const (
	// TLSClients are the connections between clients and members.
	TLSClients TLSConnection = "Clients"
	// TLSPeers are the connections between members.
	TLSPeers TLSConnection = "Peers"
	// TLSAgents are the connections to the HTTP API of the agents.
	TLSAgents TLSConnection = "Agents"
)

// TLSConnections returns all of them.
func TLSConnections() []TLSConnection { return []TLSConnection{TLSClients, TLSPeers, TLSAgents} }

// IssuerReference names an issuer of cert-manager, as its Certificates do.
type IssuerReference struct {
	// name of the issuer.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// kind of the issuer. An Issuer is in the namespace of the Etcd. Default: Issuer.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:default=Issuer
	// +optional
	Kind string `json:"kind,omitempty"`
	// group of the issuer. Default: cert-manager.io.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:default=cert-manager.io
	// +optional
	Group string `json:"group,omitempty"`
}

// The group of cert-manager, and the kinds of its issuers.
const (
	GroupCertManager  = "cert-manager.io"
	KindIssuer        = "Issuer"
	KindClusterIssuer = "ClusterIssuer"
)

// WithDefaults returns the reference with its defaults.
func (r IssuerReference) WithDefaults() IssuerReference {
	return IssuerReference{Name: r.Name, Kind: cmp.Or(r.Kind, KindIssuer), Group: cmp.Or(r.Group, GroupCertManager)}
}

// ManagedTLS is TLS with certificates that the operator keeps in Secrets in the namespace of the Etcd, and renews. The operator
// issues them, or cert-manager does.
// +kubebuilder:validation:XValidation:rule="duration(has(self.renewBefore) ? self.renewBefore : '720h') < duration(has(self.duration) ? self.duration : '2160h')",message="renewBefore must be shorter than duration"
// +kubebuilder:validation:XValidation:rule="duration(has(self.caRenewBefore) ? self.caRenewBefore : '4320h') < duration(has(self.caDuration) ? self.caDuration : '26280h')",message="caRenewBefore must be shorter than caDuration"
// +kubebuilder:validation:XValidation:rule="has(self.issuerRef) || duration(has(self.caRenewBefore) ? self.caRenewBefore : '4320h') >= duration(has(self.duration) ? self.duration : '2160h')",message="caRenewBefore must be at least duration: a CA outlives the certificates that it signs"
// +kubebuilder:validation:XValidation:rule="!('Peers' in self.connections) || has(self.issuerRef) == has(self.peerIssuerRef)",message="set both issuerRef and peerIssuerRef, or neither: peers need an issuer of their own"
// +kubebuilder:validation:XValidation:rule="!has(self.issuerRef) || !has(self.peerIssuerRef) || self.issuerRef.name != self.peerIssuerRef.name || self.issuerRef.kind != self.peerIssuerRef.kind || self.issuerRef.group != self.peerIssuerRef.group",message="issuerRef and peerIssuerRef must differ: with one CA for both, every client could act as a peer"
// +kubebuilder:validation:XValidation:rule="!has(self.issuerRef) || !has(self.caDuration) && !has(self.caRenewBefore)",message="caDuration and caRenewBefore are for CAs of the operator, not for those of issuerRef"
// +kubebuilder:validation:XValidation:rule="has(self.issuerRef) == has(oldSelf.issuerRef)",message="issuerRef can be changed, but neither added nor removed"
type ManagedTLS struct {
	// connections that use managed TLS: Clients, Peers, Agents. Each is independent, with a CA of its own. Clients and Peers
	// can be added at any time, but not removed. Default: all.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:default={Clients,Peers,Agents}
	// +optional
	Connections []TLSConnection `json:"connections,omitempty"`
	// issuerRef is the issuer of cert-manager that issues the certificates of clients and agents. It must publish its CA (ca.crt).
	// Members accept every client with a certificate of its CA. The operator's configuration must allow it (managedTLS.issuers).
	// Default: none; the operator issues them.
	// +optional
	IssuerRef *IssuerReference `json:"issuerRef,omitempty"`
	// peerIssuerRef is the issuer of cert-manager for peers. Its CA must be another one: the owner of a certificate of it can act as a
	// member. Required with issuerRef, unless connections has no Peers.
	// +optional
	PeerIssuerRef *IssuerReference `json:"peerIssuerRef,omitempty"`
	// serverDNSNames are further host names at which clients reach the members, such as that of a load balancer. The
	// certificate for clients is valid for them, besides those of the members and the client Service. Default: none.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	ServerDNSNames []string `json:"serverDNSNames,omitempty"`
	// duration is how long a certificate is valid, at least 1h. Default: 2160h, which is 90 days.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h')",message="duration must be at least 1h"
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// renewBefore is how long before it expires a certificate is renewed, at least 15m. Default: 720h, which is 30 days.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('15m')",message="renewBefore must be at least 15m"
	// +optional
	RenewBefore *metav1.Duration `json:"renewBefore,omitempty"`
	// caDuration is how long a CA is valid. Default: 26280h, which is three years.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +optional
	CADuration *metav1.Duration `json:"caDuration,omitempty"`
	// caRenewBefore is how long before it expires the renewal of a CA begins, at least duration. Default: 4320h, which is 180
	// days.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +optional
	CARenewBefore *metav1.Duration `json:"caRenewBefore,omitempty"`
}

// The defaults of the durations.
const (
	defaultDuration      = 90 * 24 * time.Hour
	defaultRenewBefore   = 30 * 24 * time.Hour
	defaultCADuration    = 3 * 365 * 24 * time.Hour
	defaultCARenewBefore = 180 * 24 * time.Hour
)

// Durations returns the durations, with their defaults.
func (m *ManagedTLS) Durations() (duration, renewBefore, caDuration, caRenewBefore time.Duration) {
	of := func(d *metav1.Duration, otherwise time.Duration) time.Duration {
		return ptr.Deref(d, metav1.Duration{Duration: otherwise}).Duration
	}
	return of(m.Duration, defaultDuration), of(m.RenewBefore, defaultRenewBefore),
		of(m.CADuration, defaultCADuration), of(m.CARenewBefore, defaultCARenewBefore)
}

// Issuer returns the issuer of cert-manager for a connection; nil if the operator issues the certificates.
func (m *ManagedTLS) Issuer(c TLSConnection) *IssuerReference {
	ref := m.IssuerRef
	if c == TLSPeers {
		ref = m.PeerIssuerRef
	}
	if ref == nil {
		return nil
	}
	full := ref.WithDefaults()
	return &full
}

// ManagesTLS reports whether a connection uses managed TLS.
func (e *Etcd) ManagesTLS(connection TLSConnection) bool {
	m := e.Spec.ManagedTLS
	return m != nil && (len(m.Connections) == 0 || slices.Contains(m.Connections, connection))
}

// ClientTLS returns the Secrets for TLS between clients and members, managed or not; nil if it is off.
func (e *Etcd) ClientTLS() *ClientURLTLS {
	if e.Spec.Etcd.ClientURLTLS != nil || !e.ManagesTLS(TLSClients) {
		return e.Spec.Etcd.ClientURLTLS
	}
	return &ClientURLTLS{
		TLSCASecretRef:     managedCA(e.CASecret(TLSClients)),
		ServerTLSSecretRef: SecretReference{Name: e.ServerSecret(TLSClients)},
		ClientTLSSecretRef: SecretReference{Name: e.OperatorSecret()},
	}
}

// PeerTLS returns the Secrets for TLS between peers, managed or not; nil if it is off.
func (e *Etcd) PeerTLS() *PeerURLTLS {
	if e.Spec.Etcd.PeerURLTLS != nil || !e.ManagesTLS(TLSPeers) {
		return e.Spec.Etcd.PeerURLTLS
	}
	return &PeerURLTLS{TLSCASecretRef: managedCA(e.CASecret(TLSPeers)), ServerTLSSecretRef: SecretReference{Name: e.ServerSecret(TLSPeers)}}
}

// BackupTLS returns the Secrets for TLS of the HTTP API of the agents, managed or not; nil if it is off.
func (e *Etcd) BackupTLS() *BackupTLS {
	if e.Spec.Backup != nil && e.Spec.Backup.TLS != nil {
		return e.Spec.Backup.TLS
	}
	if !e.ManagesTLS(TLSAgents) {
		return nil
	}
	return &BackupTLS{TLSCASecretRef: managedCA(e.CASecret(TLSAgents)), ServerTLSSecretRef: SecretReference{Name: e.ServerSecret(TLSAgents)}}
}

func managedCA(secret string) CASecretReference {
	return CASecretReference{SecretReference: SecretReference{Name: secret}}
}

// The Secrets of managed TLS. The policy etcd-foreman-managed-tls has their names too.

var connectionNames = map[TLSConnection]string{TLSClients: "-client", TLSPeers: "-peer", TLSAgents: "-agent"}

// CAKeySecret returns the name of the Secret with the private key of the CA of a connection. No pod mounts it.
func (e *Etcd) CAKeySecret(c TLSConnection) string { return e.Name + connectionNames[c] + "-ca-key" }

// CASecret returns the name of the Secret with the CAs that are trusted for a connection.
func (e *Etcd) CASecret(c TLSConnection) string { return e.Name + connectionNames[c] + "-ca" }

// ServerSecret returns the name of the Secret with the certificate of the members, or of the agents, for a connection.
func (e *Etcd) ServerSecret(c TLSConnection) string {
	if c == TLSClients {
		return e.Name + "-server-tls"
	}
	return e.Name + connectionNames[c] + "-tls"
}

// IssuedSecret returns the name of the Secret that cert-manager writes for a Secret with a certificate. No pod mounts it.
func (e *Etcd) IssuedSecret(secret string) string { return secret + "-issued" }

// OperatorSecret returns the name of the Secret with the client certificate of the operator and the agents.
func (e *Etcd) OperatorSecret() string { return e.Name + "-operator-tls" }

// ClientSecret returns the name of the Secret with a client certificate for applications.
func (e *Etcd) ClientSecret() string { return e.Name + "-client-tls" }
