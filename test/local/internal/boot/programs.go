// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"path/filepath"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/pki"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
)

// program is one program of the cluster and how to tell that it is ready.
type program struct {
	spec  process.Spec
	ready func(context.Context) error
}

const etcdMetrics = "http://127.0.0.1:12381"

// controlPlane are the programs that need nothing but each other.
func (c *Cluster) controlPlane() []program {
	return []program{c.containerd(), c.etcd(), c.apiServer()}
}

// node are the programs that need the API server, which knows their users.
func (c *Cluster) node() []program {
	return []program{c.controllerManager(), c.scheduler(), c.kubelet(), c.kubeProxy()}
}

// addons are the programs whose users have to be given rights first.
func (c *Cluster) addons() []program {
	return []program{c.coreDNS(), c.provisioner()}
}

func (c *Cluster) config(name string) string { return filepath.Join(c.Layout.Config(), name) }

func (c *Cluster) pki(name string) string { return filepath.Join(c.Layout.PKI(), name) }

func (c *Cluster) containerd() program {
	return program{
		spec: process.Spec{
			Name:   "containerd",
			Args:   []string{lookPath("containerd"), "--config", c.config("containerd.toml")},
			Inputs: []string{c.config("containerd.toml")},
		},
		ready: socketReady(layout.ContainerdSocket),
	}
}

func (c *Cluster) etcd() program {
	certificate, key := pki.Files(c.Layout.PKI(), "etcd")
	authority, _ := pki.Files(c.Layout.PKI(), pki.EtcdCA)
	return program{
		spec: process.Spec{
			Name: "etcd",
			Args: []string{
				c.Layout.Binary("etcd"),
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
				c.Layout.Binary("kube-apiserver"),
				"--advertise-address=" + layout.NodeIP,
				"--bind-address=" + layout.NodeIP,
				"--secure-port=" + layout.APIPort,
				"--service-cluster-ip-range=" + layout.ServiceCIDR,
				"--allow-privileged",
				"--authorization-mode=Node,RBAC",
				// The second asks for the right to block the deletion of an owner, as OpenShift does.
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
				"--service-account-key-file=" + c.pki(pki.ServiceAccountKey+".pub"),
				"--service-account-signing-key-file=" + c.pki(pki.ServiceAccountKey+".key"),
				"--audit-policy-file=" + c.config("audit.yaml"),
				"--audit-log-path=" + c.Layout.AuditLog(),
			},
			Inputs: []string{c.config("authentication.yaml"), c.config("audit.yaml"), c.pki("kube-apiserver.crt")},
		},
		ready: c.httpsReady(layout.Server + "/readyz"),
	}
}

func (c *Cluster) controllerManager() program {
	kubeconfig := c.config("kube-controller-manager.kubeconfig")
	return program{
		spec: process.Spec{
			Name: "kube-controller-manager",
			Args: []string{
				c.Layout.Binary("kube-controller-manager"),
				"--kubeconfig=" + kubeconfig,
				"--authentication-kubeconfig=" + kubeconfig,
				"--authorization-kubeconfig=" + kubeconfig,
				"--bind-address=127.0.0.1",
				"--tls-cert-file=" + c.pki("kube-controller-manager.crt"),
				"--tls-private-key-file=" + c.pki("kube-controller-manager.key"),
				// There is only one: an election would only delay a restart.
				"--leader-elect=false",
				"--use-service-account-credentials",
				"--root-ca-file=" + c.pki("ca.crt"),
				"--service-account-private-key-file=" + c.pki(pki.ServiceAccountKey+".key"),
				"--cluster-signing-cert-file=" + c.pki("ca.crt"),
				"--cluster-signing-key-file=" + c.pki("ca.key"),
				"--flex-volume-plugin-dir=" + filepath.Join(layout.KubeletRoot, "volume-plugins"),
			},
			Inputs: []string{kubeconfig},
		},
		ready: c.httpsReady("https://127.0.0.1:10257/healthz"),
	}
}

func (c *Cluster) scheduler() program {
	kubeconfig := c.config("kube-scheduler.kubeconfig")
	return program{
		spec: process.Spec{
			Name: "kube-scheduler",
			Args: []string{
				c.Layout.Binary("kube-scheduler"),
				"--kubeconfig=" + kubeconfig,
				"--authentication-kubeconfig=" + kubeconfig,
				"--authorization-kubeconfig=" + kubeconfig,
				"--bind-address=127.0.0.1",
				"--tls-cert-file=" + c.pki("kube-scheduler.crt"),
				"--tls-private-key-file=" + c.pki("kube-scheduler.key"),
				"--leader-elect=false",
			},
			Inputs: []string{kubeconfig},
		},
		ready: c.httpsReady("https://127.0.0.1:10259/readyz"),
	}
}
