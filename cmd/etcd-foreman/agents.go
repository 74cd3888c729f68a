// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"strconv"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// agentsOf makes clients of the agents of an Etcd: any of them asks the leading one. With spec.backup.tls they are
// recognized by the CAs that it names.
func agentsOf(live client.Reader) func(context.Context, *v1alpha1.Etcd) (backup.Client, error) {
	return func(ctx context.Context, etcd *v1alpha1.Etcd) (backup.Client, error) {
		at := url.URL{Scheme: "http", Host: net.JoinHostPort(etcd.ClientHost(), strconv.Itoa(int(component.BackupPort(etcd))))}
		if etcd.BackupTLS() == nil {
			return backup.Client{BaseURL: at.String()}, nil
		}
		roots, err := certificates.Agents(ctx, live, etcd)
		if err != nil {
			return backup.Client{}, err
		}
		at.Scheme = "https"
		return backup.Client{BaseURL: at.String(), TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}, nil
	}
}
