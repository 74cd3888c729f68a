// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"os/exec"
	"path/filepath"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
)

func (c *Cluster) containerd() program {
	path, err := exec.LookPath("containerd")
	if err != nil {
		path = "containerd" // starting it fails with that name
	}
	return program{
		spec: process.Spec{
			Name:   "containerd",
			Args:   []string{path, "--config", c.config("containerd.toml")},
			Inputs: []string{c.config("containerd.toml")},
		},
		ready: socketReady(layout.ContainerdSocket),
	}
}

func (c *Cluster) kubelet() program {
	return c.configured("kubelet", "kubelet.yaml", "http://127.0.0.1:10248/healthz",
		"--config="+c.config("kubelet.yaml"),
		"--kubeconfig="+c.config("kubelet.kubeconfig"),
		"--root-dir="+layout.KubeletRoot,
		"--cert-dir="+filepath.Join(layout.KubeletRoot, "pki"),
		"--hostname-override="+layout.NodeName,
		"--node-ip="+layout.NodeIP,
	)
}

func (c *Cluster) kubeProxy() program {
	return c.configured("kube-proxy", "kube-proxy.yaml", "http://127.0.0.1:10256/healthz", "--config="+c.config("kube-proxy.yaml"))
}

func (c *Cluster) coreDNS() program {
	return c.configured("coredns", "Corefile", "http://127.0.0.1:8181/ready", "-conf="+c.config("Corefile"))
}

// configured returns a program with a configuration file, and a kubeconfig of its name.
func (c *Cluster) configured(name, file, health string, args ...string) program {
	return program{
		spec: process.Spec{
			Name:   name,
			Args:   append([]string{c.binary(name)}, args...),
			Inputs: []string{c.config(file), c.config(name + ".kubeconfig")},
		},
		ready: httpReady(health),
	}
}

func (c *Cluster) provisioner() program {
	kubeconfig := c.config("provisioner.kubeconfig")
	return program{
		spec: process.Spec{
			Name: "provisioner",
			Args: []string{
				c.binary("provisioner"),
				"-provisioner=" + layout.Provisioner,
				"-dir=" + layout.Volumes,
				"-kubeconfig=" + kubeconfig,
			},
			Inputs: []string{kubeconfig},
		},
		ready: func(context.Context) error { return nil },
	}
}
