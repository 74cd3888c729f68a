// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the keys and certificates of the local Kubernetes. Its etcd
// and its aggregation layer have authorities of their own, so that a client
// certificate of one opens nothing of another. It imports the standard library and its
// sibling layout only.
package pki

import (
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

// Names of the authorities; each is also the name of its certificate's file.
const (
	ClusterCA    = "ca"
	EtcdCA       = "etcd-ca"
	FrontProxyCA = "front-proxy-ca"
)

var authorities = []string{ClusterCA, EtcdCA, FrontProxyCA}

// FrontProxyClient is the name of the API server when it passes requests on to
// another one.
const FrontProxyClient = "front-proxy-client"

// ServiceAccountKey names the key pair that signs the tokens of ServiceAccounts.
const ServiceAccountKey = "service-account"

// validity is far more than a cluster of this kind lives; renewal is when one
// that does live longer gets new certificates at the next boot.
const (
	validity = 365 * 24 * time.Hour
	renewal  = 30 * 24 * time.Hour
)

// Certificate says what is in one certificate.
type Certificate struct {
	Name      string // of its file
	Authority string
	Subject   pkix.Name
	DNS       []string
	IPs       []string
	Server    bool // may be used to serve, not only to call
}

func user(name, commonName string, groups ...string) Certificate {
	return Certificate{Name: name, Authority: ClusterCA, Subject: pkix.Name{CommonName: commonName, Organization: groups}}
}

const loopback = "127.0.0.1"

// Certificates are all certificates of the cluster.
func Certificates() []Certificate {
	return []Certificate{
		{
			Name: "kube-apiserver", Authority: ClusterCA, Subject: pkix.Name{CommonName: "kube-apiserver"}, Server: true,
			// Pods reach the API server by the address of its Service or by its
			// names, components by the address of the bridge.
			DNS: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"},
			IPs: []string{loopback, layout.NodeIP, layout.ServiceIP},
		},
		{
			Name: "kubelet", Authority: ClusterCA, Server: true,
			Subject: pkix.Name{CommonName: "system:node:" + layout.NodeName, Organization: []string{"system:nodes"}},
			DNS:     []string{layout.NodeName}, IPs: []string{layout.NodeIP},
		},
		{
			Name: "etcd", Authority: EtcdCA, Subject: pkix.Name{CommonName: "etcd"}, Server: true,
			DNS: []string{"localhost"}, IPs: []string{loopback},
		},
		{Name: "apiserver-etcd-client", Authority: EtcdCA, Subject: pkix.Name{CommonName: "kube-apiserver"}},
		{Name: FrontProxyClient, Authority: FrontProxyCA, Subject: pkix.Name{CommonName: FrontProxyClient}},
		user("apiserver-kubelet-client", "kube-apiserver-kubelet-client"),
		{
			Name: "kube-controller-manager", Authority: ClusterCA, Server: true,
			Subject: pkix.Name{CommonName: "system:kube-controller-manager"}, IPs: []string{loopback},
		},
		{
			Name: "kube-scheduler", Authority: ClusterCA, Server: true,
			Subject: pkix.Name{CommonName: "system:kube-scheduler"}, IPs: []string{loopback},
		},
		user("kube-proxy", "system:kube-proxy"),
		user("coredns", "system:coredns"),
		user("provisioner", "system:provisioner"),
		user("admin", "admin", "system:masters"),
	}
}

// Files returns the paths of a certificate and of its key.
func Files(dir, name string) (certificate, key string) {
	return filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
}

// Ensure writes all keys and certificates into dir, unless they are there and
// valid for long enough. It renews all of them or none, so that they belong
// together.
func Ensure(dir string, now time.Time) error {
	if complete(dir, now) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return writeAll(dir, now)
}

// complete tells whether every file is there and no certificate is about to
// expire.
func complete(dir string, now time.Time) bool {
	if _, err := os.Stat(filepath.Join(dir, ServiceAccountKey+".key")); err != nil {
		return false
	}
	names := slices.Clone(authorities)
	for _, c := range Certificates() {
		names = append(names, c.Name)
	}
	for _, name := range names {
		certificate, err := readPair(dir, name)
		if err != nil || now.Add(renewal).After(certificate.NotAfter) {
			return false
		}
	}
	return true
}
