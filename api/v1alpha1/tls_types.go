// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Keys of the Secrets that hold certificates.
const (
	// SecretKeyCA is where a bundle of CA certificates is, unless dataKey says otherwise.
	SecretKeyCA = "ca.crt"
	// SecretKeyCertificate and SecretKeyPrivateKey are those of Secrets of type kubernetes.io/tls.
	SecretKeyCertificate = "tls.crt"
	SecretKeyPrivateKey  = "tls.key"
)

// CASecretReference names a Secret with a bundle of CA certificates.
type CASecretReference struct {
	SecretReference `json:",inline"`
	// DataKey is the key of the bundle in the Secret. Default ca.crt.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	DataKey *string `json:"dataKey,omitempty"`
}

// ClientURLTLS is the TLS of the connections between clients and members. A member asks every client for a
// certificate.
type ClientURLTLS struct {
	// TLSCASecretRef names the Secret with the CAs that sign the certificates of members and of clients.
	TLSCASecretRef CASecretReference `json:"tlsCASecretRef"`
	// ServerTLSSecretRef names the Secret with the certificate of the members, which has to be for the host name of each.
	ServerTLSSecretRef SecretReference `json:"serverTLSSecretRef"`
	// ClientTLSSecretRef names the Secret with the certificate with which the operator and the members' agents
	// show who they are.
	ClientTLSSecretRef SecretReference `json:"clientTLSSecretRef"`
}

// PeerURLTLS is the TLS of the connections among members.
type PeerURLTLS struct {
	// TLSCASecretRef names the Secret with the CAs that sign the certificate of the members.
	TLSCASecretRef CASecretReference `json:"tlsCASecretRef"`
	// ServerTLSSecretRef names the Secret with the certificate of the members, which each shows to the others whether
	// it calls or is called. It has to be for the host name of each.
	ServerTLSSecretRef SecretReference `json:"serverTLSSecretRef"`
}

// BackupTLS is the TLS of the HTTP API of the agents. They ask no client for a certificate.
type BackupTLS struct {
	// TLSCASecretRef names the Secret with the CAs that sign the certificate of the agents.
	TLSCASecretRef CASecretReference `json:"tlsCASecretRef"`
	// ServerTLSSecretRef names the Secret with the certificate of the agents. It has to be for the host name of each
	// member, and for that of the Service for clients.
	ServerTLSSecretRef SecretReference `json:"serverTLSSecretRef"`
}
