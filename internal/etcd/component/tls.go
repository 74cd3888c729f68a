// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"path"
	"slices"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
)

// PeerTLS is the stage of TLS among the members of an Etcd. Stages only advance.
type PeerTLS string

// The stages. Members may differ by one stage at most.
const (
	// PeerTLSOff: members have no peer certificates.
	PeerTLSOff PeerTLS = ""
	// PeerTLSPrepared: members have peer certificates, so they can dial with TLS, but listen without.
	PeerTLSPrepared PeerTLS = v1alpha1.TLSPrepared
	// PeerTLSOn: members listen with TLS.
	PeerTLSOn PeerTLS = v1alpha1.TLSOn
)

// Names of the volumes with certificates.
const (
	clientCAVolume   = "client-url-ca"
	serverVolume     = "client-url-server-tls"
	clientVolume     = "client-url-client-tls"
	peerCAVolume     = "peer-url-ca"
	peerServerVolume = "peer-url-server-tls"
	apiCAVolume      = "backup-restore-ca"
	apiServerVolume  = "backup-restore-server-tls"
)

// Folders with the certificates of the agent's HTTP API.
const (
	apiCADir     = "/var/etcdbr/ssl/ca"
	apiServerDir = "/var/etcdbr/ssl/server"
)

// secretMode lets the containers' group read.
const secretMode = 0o440

func clientScheme(etcd *v1alpha1.Etcd) string { return scheme(etcd.ClientTLS() != nil) }

func scheme(tls bool) string {
	if tls {
		return "https"
	}
	return "http"
}

// transportSecurity adds the TLS part of etcd's configuration. A member accepts every client and peer with a certificate signed by
// the CAs. It does not check the address of a peer by DNS, which may not know the address of a pod that was just replaced.
func transportSecurity(config map[string]any, in Input) {
	if in.Etcd.ClientTLS() != nil {
		config["client-transport-security"] = security(member.ClientCADir, member.ServerDir)
	}
	if in.PeerTLS != PeerTLSOff {
		peer := security(member.PeerCADir, member.PeerServerDir)
		peer["skip-client-san-verification"] = true
		config["peer-transport-security"] = peer
		if skipClientSANs(in.Etcd) {
			// etcd 3.5 knows the setting only as a flag, which it ignores beside a file. From the file it does read the field that
			// the flag sets, by its name in Go. Newer versions take the one above.
			config["PeerTLSInfo"] = map[string]any{"SkipClientSANVerify": true}
		}
	}
	if in.TLS.ApplyToMembers && (in.Etcd.ClientTLS() != nil || in.PeerTLS != PeerTLSOff) {
		tlsLimits(config, in.TLS)
	}
}

// skipClientSANs reports whether the spec lets members accept peers from any address.
func skipClientSANs(etcd *v1alpha1.Etcd) bool {
	tls := etcd.PeerTLS()
	return tls != nil && ptr.Deref(tls.SkipClientSANVerification, false)
}

// tlsLimits renders only what is not etcd's default.
func tlsLimits(config map[string]any, limits configv1alpha1.TLS) {
	if limits.MinVersion == configv1alpha1.VersionTLS13 {
		config["tls-min-version"] = "TLS1.3"
	}
	if len(limits.CipherSuites) > 0 {
		config["cipher-suites"] = limits.CipherSuites
	}
}

func security(ca, certificate string) map[string]any {
	return map[string]any{
		"trusted-ca-file":  path.Join(ca, member.CAFile),
		"cert-file":        path.Join(certificate, member.CertificateFile),
		"key-file":         path.Join(certificate, member.KeyFile),
		"client-cert-auth": true,
	}
}

// tlsAnnotations record the TLS of a pod.
func tlsAnnotations(in Input) map[string]string {
	annotations := map[string]string{}
	if in.Etcd.ClientTLS() != nil {
		annotations[v1alpha1.AnnotationClientTLS] = v1alpha1.TLSOn
	}
	if in.PeerTLS != PeerTLSOff {
		annotations[v1alpha1.AnnotationPeerTLS] = string(in.PeerTLS)
	}
	if in.Authorities != "" {
		annotations[v1alpha1.AnnotationCAChecksum] = in.Authorities
	}
	return annotations
}

// certificate is a Secret in a member's pod.
type certificate struct {
	volume *corev1ac.VolumeApplyConfiguration
	mount  *corev1ac.VolumeMountApplyConfiguration
}

// etcdCertificates returns the certificates of the etcd container.
func etcdCertificates(in Input) []certificate {
	var all []certificate
	if tls := in.Etcd.ClientTLS(); tls != nil {
		all = append(all, authorities(clientCAVolume, member.ClientCADir, tls.TLSCASecretRef), pair(serverVolume, member.ServerDir, tls.ServerTLSSecretRef))
	}
	if tls := in.Etcd.PeerTLS(); tls != nil && in.PeerTLS != PeerTLSOff {
		all = append(all, authorities(peerCAVolume, member.PeerCADir, tls.TLSCASecretRef), pair(peerServerVolume, member.PeerServerDir, tls.ServerTLSSecretRef))
	}
	return all
}

// agentCertificates returns the certificates of a container that is a client of etcd.
func agentCertificates(in Input) []certificate {
	tls := in.Etcd.ClientTLS()
	if tls == nil {
		return nil
	}
	return []certificate{authorities(clientCAVolume, member.ClientCADir, tls.TLSCASecretRef), pair(clientVolume, member.ClientDir, tls.ClientTLSSecretRef)}
}

// apiCertificates returns the certificates of the agent's HTTP API.
func apiCertificates(etcd *v1alpha1.Etcd) []certificate {
	tls := etcd.BackupTLS()
	if tls == nil {
		return nil
	}
	return []certificate{authorities(apiCAVolume, apiCADir, tls.TLSCASecretRef), pair(apiServerVolume, apiServerDir, tls.ServerTLSSecretRef)}
}

// apiTLSArgs returns the agent's flags for them.
func apiTLSArgs(etcd *v1alpha1.Etcd) []string {
	if etcd.BackupTLS() == nil {
		return nil
	}
	return []string{
		"--tls-ca-file=" + path.Join(apiCADir, member.CAFile),
		"--tls-cert-file=" + path.Join(apiServerDir, member.CertificateFile),
		"--tls-key-file=" + path.Join(apiServerDir, member.KeyFile),
	}
}

func authorities(volume, dir string, ref v1alpha1.CASecretReference) certificate {
	return secretFiles(volume, dir, ref.Name,
		corev1ac.KeyToPath().WithKey(ptr.Deref(ref.DataKey, v1alpha1.SecretKeyCA)).WithPath(member.CAFile))
}

func pair(volume, dir string, ref v1alpha1.SecretReference) certificate {
	return secretFiles(volume, dir, ref.Name,
		corev1ac.KeyToPath().WithKey(v1alpha1.SecretKeyCertificate).WithPath(member.CertificateFile),
		corev1ac.KeyToPath().WithKey(v1alpha1.SecretKeyPrivateKey).WithPath(member.KeyFile))
}

func secretFiles(volume, dir, secret string, files ...*corev1ac.KeyToPathApplyConfiguration) certificate {
	return certificate{
		volume: corev1ac.Volume().WithName(volume).WithSecret(corev1ac.SecretVolumeSource().
			WithSecretName(secret).WithDefaultMode(secretMode).WithItems(files...)),
		mount: corev1ac.VolumeMount().WithName(volume).WithMountPath(dir).WithReadOnly(true),
	}
}

func mounts(certificates []certificate) []*corev1ac.VolumeMountApplyConfiguration {
	all := make([]*corev1ac.VolumeMountApplyConfiguration, 0, len(certificates))
	for _, c := range certificates {
		all = append(all, c.mount)
	}
	return all
}

// certificateVolumes returns the volumes of all containers, each once.
func certificateVolumes(in Input) []*corev1ac.VolumeApplyConfiguration {
	var all []*corev1ac.VolumeApplyConfiguration
	seen := map[string]bool{}
	for _, c := range slices.Concat(etcdCertificates(in), agentCertificates(in), apiCertificates(in.Etcd)) {
		if !seen[*c.volume.Name] {
			seen[*c.volume.Name] = true
			all = append(all, c.volume)
		}
	}
	return all
}
