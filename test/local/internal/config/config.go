// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package config renders the configuration files of the local Kubernetes from
// the templates in its folder files. It imports the standard library and its
// siblings atomic, layout and pki only.
package config

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/atomic"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

//go:embed files
var files embed.FS

var templates = template.Must(template.ParseFS(files, "files/*"))

// PauseImage is the first container of every pod.
const PauseImage = "localhost/pause:dev"

// kubeconfigUsers are the programs that call the API server with a certificate
// of their own name.
var kubeconfigUsers = []string{"kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns", "provisioner"}

// values are what the templates may refer to.
type values struct {
	Config, PKI                                    string
	ContainerdRoot, ContainerdState, RuntimeDir    string
	ContainerdSocket, CNIBin, CNIState, CNINetwork string
	Bridge, NodeIP, PodCIDR, NodeName              string
	KubeletRoot, PodLogs, CgroupName               string
	PauseImage, Provisioner                        string
	OperatorNamespace, OperatorName                string
	ForwardDNS                                     bool // the machine names a DNS server
}

func newValues(l layout.Layout, cniBin string) (values, error) {
	resolv, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !os.IsNotExist(err) {
		return values{}, fmt.Errorf("reading the machine's DNS servers: %w", err)
	}
	return values{
		Config: l.Config(), PKI: l.PKI(),
		ContainerdRoot: layout.ContainerdRoot, ContainerdState: layout.ContainerdState, RuntimeDir: layout.RuntimeDir,
		ContainerdSocket: layout.ContainerdSocket, CNIBin: cniBin, CNIState: layout.CNIState, CNINetwork: layout.CNINetwork,
		Bridge: layout.Bridge, NodeIP: layout.NodeIP, PodCIDR: layout.PodCIDR, NodeName: layout.NodeName,
		KubeletRoot: layout.KubeletRoot, PodLogs: layout.PodLogs, CgroupName: layout.CgroupName,
		PauseImage: PauseImage, Provisioner: layout.Provisioner,
		OperatorNamespace: layout.OperatorNamespace, OperatorName: layout.OperatorName,
		ForwardDNS: hasNameserver(string(resolv)),
	}, nil
}

// hasNameserver tells whether a resolv.conf names a server: CoreDNS refuses to
// start when it is told to forward to a file that names none.
func hasNameserver(resolv string) bool {
	for line := range strings.Lines(resolv) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "nameserver" {
			return true
		}
	}
	return false
}

// Write renders all files into the folder of configuration files. The
// certificates have to be there already. cniBin is the folder of CNI plugins.
func Write(l layout.Layout, cniBin string) error {
	v, err := newValues(l, cniBin)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(l.Config(), "cni"), 0o755); err != nil {
		return fmt.Errorf("creating folder for configuration files: %w", err)
	}
	for name, path := range map[string]string{
		"containerd.toml":      "containerd.toml",
		"pod-network.conflist": "cni/pod-network.conflist",
		"kubelet.yaml":         "kubelet.yaml",
		"kube-proxy.yaml":      "kube-proxy.yaml",
		"authentication.yaml":  "authentication.yaml",
		"audit.yaml":           "audit.yaml",
		"Corefile":             "Corefile",
		"cluster.yaml":         "cluster.yaml",
	} {
		content, err := render(name, v)
		if err != nil {
			return err
		}
		if err := atomic.WriteFile(filepath.Join(l.Config(), path), content, 0o644); err != nil {
			return err
		}
	}
	for _, user := range kubeconfigUsers {
		if err := WriteKubeconfig(l, user, filepath.Join(l.Config(), user+".kubeconfig")); err != nil {
			return err
		}
	}
	return nil
}

func render(name string, v values) ([]byte, error) {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name, v); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", name, err)
	}
	return out.Bytes(), nil
}
