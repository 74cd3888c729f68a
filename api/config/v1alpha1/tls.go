// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"crypto/tls"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TLS restricts the versions and cipher suites of TLS.
type TLS struct {
	// minVersion is the minimum version of TLS: VersionTLS12 or VersionTLS13. It applies to the operator's servers (metrics, webhook),
	// to its connections to members and agents, and to the agents' HTTP API. Default: VersionTLS12.
	MinVersion TLSVersion `json:"minVersion,omitempty"`
	// cipherSuites are the suites of TLS 1.2 for the same connections, by Go's names. Those of TLS 1.3 cannot be chosen. HTTP/2 needs
	// TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256. Default: those of Go.
	CipherSuites []string `json:"cipherSuites,omitempty"`
	// applyToMembers also configures etcd so, for clients and peers. To switch it on or off, and to change the other fields while it is
	// on, replaces the pods of every Etcd with TLS. Default: false.
	ApplyToMembers bool `json:"applyToMembers,omitempty"`
}

// TLSVersion is a version of TLS, by the names that Kubernetes uses.
type TLSVersion string

// The versions of TLS.
const (
	VersionTLS12 TLSVersion = "VersionTLS12"
	VersionTLS13 TLSVersion = "VersionTLS13"
)

// Apply sets the minimum version, and the cipher suites if they are restricted.
func (t TLS) Apply(c *tls.Config) {
	c.MinVersion = tls.VersionTLS12
	if t.MinVersion == VersionTLS13 {
		c.MinVersion = tls.VersionTLS13
	}
	for _, suite := range tls.CipherSuites() {
		if slices.Contains(t.CipherSuites, suite.Name) {
			c.CipherSuites = append(c.CipherSuites, suite.ID)
		}
	}
}

func validateTLS(t TLS, path *field.Path) field.ErrorList {
	errs := validateEnum(t.MinVersion, path.Child("minVersion"), "", VersionTLS12, VersionTLS13)
	if len(t.CipherSuites) == 0 {
		return errs
	}
	suites := path.Child("cipherSuites")
	if t.MinVersion == VersionTLS13 {
		return append(errs, field.Forbidden(suites, "the suites of TLS 1.3 cannot be chosen: remove them, or set minVersion to VersionTLS12"))
	}
	known, http2 := map[string]bool{}, false
	for _, suite := range tls.CipherSuites() {
		known[suite.Name] = slices.Contains(suite.SupportedVersions, tls.VersionTLS12)
	}
	for i, name := range t.CipherSuites {
		if !known[name] {
			errs = append(errs, field.Invalid(suites.Index(i), name, "must be a suite of TLS 1.2 that Go considers secure, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"))
		}
		if slices.Index(t.CipherSuites, name) < i {
			errs = append(errs, field.Duplicate(suites.Index(i), name))
		}
		http2 = http2 || strings.HasPrefix(name, "TLS_ECDHE_") && strings.HasSuffix(name, "_WITH_AES_128_GCM_SHA256")
	}
	if !http2 {
		errs = append(errs, field.Invalid(suites, strings.Join(t.CipherSuites, ","), "HTTP/2 needs TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"))
	}
	return errs
}
