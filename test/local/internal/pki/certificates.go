// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509/pkix"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

// Names of the authorities; each is also the name of its certificate's file.
const (
	ClusterCA    = "ca"
	EtcdCA       = "etcd-ca"
	FrontProxyCA = "front-proxy-ca"
)

var authorities = []string{ClusterCA, EtcdCA, FrontProxyCA}

// FrontProxyClient is the name of the API server when it passes requests on to another one.
const FrontProxyClient = "front-proxy-client"

// ServiceAccountKey names the key that signs the tokens of ServiceAccounts, and from which the API server derives the
// public key that verifies them.
const ServiceAccountKey = "service-account"

// certificate describes one certificate.
type certificate struct {
	name      string // of its file
	authority string
	subject   pkix.Name
	hosts     []string // that its holder serves as; none for a client
}

func user(name, commonName string, groups ...string) certificate {
	return certificate{name: name, authority: ClusterCA, subject: pkix.Name{CommonName: commonName, Organization: groups}}
}

func server(name, commonName string, hosts ...string) certificate {
	c := user(name, commonName)
	c.hosts = hosts
	return c
}

const loopback = "127.0.0.1"

// certificates are all certificates of the cluster.
var certificates = []certificate{
	// Pods reach the API server by the address of its Service or by its names, components by the address of the bridge.
	server("kube-apiserver", "kube-apiserver", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"localhost", loopback, layout.NodeIP, layout.ServiceIP),
	{
		name: "kubelet", authority: ClusterCA, hosts: []string{layout.NodeName, layout.NodeIP},
		subject: pkix.Name{CommonName: "system:node:" + layout.NodeName, Organization: []string{"system:nodes"}},
	},
	server("kube-controller-manager", "system:kube-controller-manager", loopback),
	server("kube-scheduler", "system:kube-scheduler", loopback),
	user("kube-proxy", "system:kube-proxy"),
	user("coredns", "system:coredns"),
	user("provisioner", "system:provisioner"),
	user("apiserver-kubelet-client", "kube-apiserver-kubelet-client"),
	user("admin", "admin", "system:masters"),
	{name: "etcd", authority: EtcdCA, subject: pkix.Name{CommonName: "etcd"}, hosts: []string{"localhost", loopback}},
	{name: "apiserver-etcd-client", authority: EtcdCA, subject: pkix.Name{CommonName: "kube-apiserver"}},
	{name: FrontProxyClient, authority: FrontProxyCA, subject: pkix.Name{CommonName: FrontProxyClient}},
}
