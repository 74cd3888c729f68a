// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
)

// Metrics serves metrics to clients with a certificate of the agents' CA, and to those with the token whose hash is in the
// Trust.
func Metrics(config Config, metrics http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hasCertificate := r.TLS != nil && len(r.TLS.VerifiedChains) > 0
		if config.Trust != nil && !hasCertificate {
			trust, err := config.Trust()
			if err == nil {
				err = trust.VerifyScrape(r)
			}
			if err != nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
				api.WriteError(w, http.StatusUnauthorized, api.CodeUnauthorized, err.Error())
				return
			}
		}
		metrics.ServeHTTP(w, r)
	})
}
