// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Keys of the Secrets that hold certificates.
const (
	// SecretKeyCA is the key of a bundle of CA certificates, unless dataKey is set.
	SecretKeyCA = "ca.crt"
	// SecretKeyCertificate and SecretKeyPrivateKey are the keys of Secrets of type kubernetes.io/tls.
	SecretKeyCertificate = "tls.crt"
	SecretKeyPrivateKey  = "tls.key"
)

// CASecretReference names a Secret with a bundle of CA certificates.
type CASecretReference struct {
	SecretReference `json:",inline"`
	// dataKey is the key of the bundle in the Secret. Default: ca.crt.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	DataKey *string `json:"dataKey,omitempty"`
}

// ClientURLTLS is the configuration of TLS between clients and members. Members require a client certificate.
type ClientURLTLS struct {
	// tlsCASecretRef names the Secret with the CAs that sign the certificates of members and of clients.
	TLSCASecretRef CASecretReference `json:"tlsCASecretRef"`
	// serverTLSSecretRef names the Secret with the server certificate of the members, valid for the host name of each member.
	ServerTLSSecretRef SecretReference `json:"serverTLSSecretRef"`
	// clientTLSSecretRef names the Secret with the client certificate of the operator and the agents.
	ClientTLSSecretRef SecretReference `json:"clientTLSSecretRef"`
}

// PeerURLTLS is the configuration of TLS between peers.
type PeerURLTLS struct {
	// tlsCASecretRef names the Secret with the CAs that sign the certificate of the members.
	TLSCASecretRef CASecretReference `json:"tlsCASecretRef"`
	// serverTLSSecretRef names the Secret with the certificate of the members, valid for the host name of each member. Members
	// use it both as server and as client certificate.
	ServerTLSSecretRef SecretReference `json:"serverTLSSecretRef"`
	// clientTLSSecretRef has no effect: members use serverTLSSecretRef as client certificate, too.
	// +optional
	ClientTLSSecretRef *OptionalSecretReference `json:"clientTLSSecretRef,omitempty"`
	// skipClientSANVerification lets members accept a peer from any address if a CA of tlsCASecretRef has signed its certificate.
	// Members of etcd 3.6 and newer always do; with true, those of etcd 3.5 do as well. A change replaces pods. Default: false.
	// +optional
	SkipClientSANVerification *bool `json:"skipClientSANVerification,omitempty"`
}

// BackupTLS is the configuration of TLS for the HTTP API of the agents. Agents request no client certificate.
type BackupTLS struct {
	// tlsCASecretRef names the Secret with the CAs that sign the certificate of the agents.
	TLSCASecretRef CASecretReference `json:"tlsCASecretRef"`
	// serverTLSSecretRef names the Secret with the server certificate of the agents, valid for the host name of each member
	// and of the client Service.
	ServerTLSSecretRef SecretReference `json:"serverTLSSecretRef"`
	// clientTLSSecretRef has no effect: agents request no client certificate.
	// +optional
	ClientTLSSecretRef *OptionalSecretReference `json:"clientTLSSecretRef,omitempty"`
}
