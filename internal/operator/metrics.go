// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"crypto/tls"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// metricsOptions returns how metrics are served: over TLS, to clients that may get /metrics, since they name the Etcds of all tenants.
func metricsOptions(server configv1alpha1.Server, limits configv1alpha1.TLS) metricsserver.Options {
	o := metricsserver.Options{BindAddress: server.MetricsBindAddress}
	if server.InsecureMetrics {
		return o
	}
	o.SecureServing, o.CertDir, o.FilterProvider = true, server.MetricsCertificateDir, filters.WithAuthenticationAndAuthorization
	o.TLSOpts = []func(*tls.Config){limits.Apply}
	return o
}
