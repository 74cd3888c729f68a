// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// TLSFrom returns the configuration for the client port of members, for Options, from the Secret for applications of an Etcd with
// managed TLS.
func TLSFrom(secret *corev1.Secret) (func(*corev1.Pod) *tls.Config, error) {
	pair, err := tls.X509KeyPair(secret.Data[v1alpha1.SecretKeyCertificate], secret.Data[v1alpha1.SecretKeyPrivateKey])
	if err != nil {
		return nil, fmt.Errorf("parsing the certificate in Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data[v1alpha1.SecretKeyCA]) {
		return nil, fmt.Errorf("reading the CAs in Secret %s/%s: there are none", secret.Namespace, secret.Name)
	}
	return func(pod *corev1.Pod) *tls.Config {
		if pod.Annotations[v1alpha1.AnnotationClientTLS] != v1alpha1.TLSOn {
			return nil
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair},
			ServerName: fmt.Sprintf("%s.%s.%s.svc", pod.Name, pod.Spec.Subdomain, pod.Namespace),
		}
	}, nil
}
