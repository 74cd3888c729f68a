// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"path/filepath"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
)

func (c *Cluster) kubelet() program {
	return program{
		spec: process.Spec{
			Name: "kubelet",
			Args: []string{
				c.Layout.Binary("kubelet"),
				"--config=" + c.config("kubelet.yaml"),
				"--kubeconfig=" + c.config("kubelet.kubeconfig"),
				"--root-dir=" + layout.KubeletRoot,
				"--cert-dir=" + filepath.Join(layout.KubeletRoot, "pki"),
				"--hostname-override=" + layout.NodeName,
				"--node-ip=" + layout.NodeIP,
			},
			Inputs: []string{c.config("kubelet.yaml"), c.config("kubelet.kubeconfig")},
		},
		ready: httpReady("http://127.0.0.1:10248/healthz"),
	}
}

func (c *Cluster) kubeProxy() program {
	return program{
		spec: process.Spec{
			Name:   "kube-proxy",
			Args:   []string{c.Layout.Binary("kube-proxy"), "--config=" + c.config("kube-proxy.yaml")},
			Inputs: []string{c.config("kube-proxy.yaml"), c.config("kube-proxy.kubeconfig")},
		},
		ready: httpReady("http://127.0.0.1:10256/healthz"),
	}
}

func (c *Cluster) coreDNS() program {
	return program{
		spec: process.Spec{
			Name:   "coredns",
			Args:   []string{c.Layout.Binary("coredns"), "-conf=" + c.config("Corefile")},
			Inputs: []string{c.config("Corefile"), c.config("coredns.kubeconfig")},
		},
		ready: httpReady("http://127.0.0.1:8181/ready"),
	}
}

func (c *Cluster) provisioner() program {
	kubeconfig := c.config("provisioner.kubeconfig")
	return program{
		spec: process.Spec{
			Name: "provisioner",
			Args: []string{
				c.Layout.Binary("provisioner"),
				"-provisioner=" + layout.Provisioner,
				"-dir=" + layout.Volumes,
				"-kubeconfig=" + kubeconfig,
			},
			Inputs: []string{kubeconfig},
		},
		ready: func(context.Context) error { return nil },
	}
}
