// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"path/filepath"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/pki"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
)

const etcdMetrics = "http://127.0.0.1:12381"

func (c *Cluster) etcd() program {
	certificate, key := pki.Files(c.Layout.PKI(), "etcd")
	authority, _ := pki.Files(c.Layout.PKI(), pki.EtcdCA)
	return program{
		spec: process.Spec{
			Name: "etcd",
			Args: []string{
				c.binary("etcd"),
				"--name=local",
				"--data-dir=" + layout.EtcdData,
				"--listen-client-urls=https://" + layout.EtcdClient,
				"--advertise-client-urls=https://" + layout.EtcdClient,
				"--listen-peer-urls=https://" + layout.EtcdPeer,
				"--initial-advertise-peer-urls=https://" + layout.EtcdPeer,
				"--initial-cluster=local=https://" + layout.EtcdPeer,
				"--listen-metrics-urls=" + etcdMetrics,
				"--cert-file=" + certificate, "--key-file=" + key,
				"--client-cert-auth", "--trusted-ca-file=" + authority,
				"--peer-cert-file=" + certificate, "--peer-key-file=" + key,
				"--peer-client-cert-auth", "--peer-trusted-ca-file=" + authority,
			},
			Inputs: []string{certificate},
		},
		ready: httpReady(etcdMetrics + "/readyz"),
	}
}

func (c *Cluster) apiServer() program {
	return program{
		spec: process.Spec{
			Name: "kube-apiserver",
			Args: []string{
				c.binary("kube-apiserver"),
				"--advertise-address=" + layout.NodeIP,
				"--bind-address=" + layout.NodeIP,
				"--secure-port=" + layout.APIPort,
				"--service-cluster-ip-range=" + layout.ServiceCIDR,
				"--allow-privileged",
				"--authorization-mode=Node,RBAC",
				// The second requires the right to block the deletion of an owner, as on OpenShift.
				"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
				"--authentication-config=" + c.config("authentication.yaml"),
				"--client-ca-file=" + c.pki("ca.crt"),
				"--tls-cert-file=" + c.pki("kube-apiserver.crt"),
				"--tls-private-key-file=" + c.pki("kube-apiserver.key"),
				"--etcd-servers=https://" + layout.EtcdClient,
				"--etcd-cafile=" + c.pki("etcd-ca.crt"),
				"--etcd-certfile=" + c.pki("apiserver-etcd-client.crt"),
				"--etcd-keyfile=" + c.pki("apiserver-etcd-client.key"),
				"--kubelet-certificate-authority=" + c.pki("ca.crt"),
				"--kubelet-client-certificate=" + c.pki("apiserver-kubelet-client.crt"),
				"--kubelet-client-key=" + c.pki("apiserver-kubelet-client.key"),
				"--kubelet-preferred-address-types=InternalIP",
				"--requestheader-client-ca-file=" + c.pki(pki.FrontProxyCA+".crt"),
				"--requestheader-allowed-names=" + pki.FrontProxyClient,
				"--requestheader-username-headers=X-Remote-User",
				"--requestheader-group-headers=X-Remote-Group",
				"--requestheader-extra-headers-prefix=X-Remote-Extra-",
				"--proxy-client-cert-file=" + c.pki(pki.FrontProxyClient+".crt"),
				"--proxy-client-key-file=" + c.pki(pki.FrontProxyClient+".key"),
				"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
				"--service-account-key-file=" + c.pki(pki.ServiceAccountKey+".key"),
				"--service-account-signing-key-file=" + c.pki(pki.ServiceAccountKey+".key"),
				"--audit-policy-file=" + c.config("audit.yaml"),
				"--audit-log-path=" + c.Layout.AuditLog(),
				// In megabytes: a log that is rotated away cannot be judged.
				"--audit-log-maxsize=4096",
			},
			Inputs: []string{c.config("authentication.yaml"), c.config("audit.yaml"), c.pki("kube-apiserver.crt")},
		},
		ready: c.httpsReady(layout.Server + "/readyz"),
	}
}

func (c *Cluster) controllerManager() program {
	return c.controller("kube-controller-manager", "https://127.0.0.1:10257/healthz",
		"--use-service-account-credentials",
		"--root-ca-file="+c.pki("ca.crt"),
		"--service-account-private-key-file="+c.pki(pki.ServiceAccountKey+".key"),
		"--cluster-signing-cert-file="+c.pki("ca.crt"),
		"--cluster-signing-key-file="+c.pki("ca.key"),
		"--flex-volume-plugin-dir="+filepath.Join(layout.KubeletRoot, "volume-plugins"),
	)
}

func (c *Cluster) scheduler() program {
	return c.controller("kube-scheduler", "https://127.0.0.1:10259/readyz")
}

// controller returns a program whose kubeconfig and certificate have its name.
func (c *Cluster) controller(name, health string, args ...string) program {
	kubeconfig := c.config(name + ".kubeconfig")
	return program{
		spec: process.Spec{
			Name: name,
			Args: append([]string{
				c.binary(name),
				"--kubeconfig=" + kubeconfig,
				"--authentication-kubeconfig=" + kubeconfig,
				"--authorization-kubeconfig=" + kubeconfig,
				"--bind-address=127.0.0.1",
				"--tls-cert-file=" + c.pki(name+".crt"),
				"--tls-private-key-file=" + c.pki(name+".key"),
				// There is only one: an election would only delay a restart.
				"--leader-elect=false",
			}, args...),
			Inputs: []string{kubeconfig},
		},
		ready: c.httpsReady(health),
	}
}
