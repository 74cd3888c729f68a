// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package config renders the configuration files of the local Kubernetes from the templates in its folder files, and
// writes kubeconfigs.
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

var templates = template.Must(template.New("").Option("missingkey=error").ParseFS(files, "files/*"))

// folders are where files go that may not be beside the others, by their names: containerd reads every file in the
// folder of CNI configurations.
var folders = map[string]string{"pod-network.conflist": "cni"}

// kubeconfigUsers are the programs that call the API server with a certificate of their own name.
var kubeconfigUsers = []string{"kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns", "provisioner"}

// values returns what the templates may refer to.
func values(l layout.Layout, cniBin string) (map[string]any, error) {
	resolv, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("reading the machine's DNS servers: %w", err)
	}
	return map[string]any{
		"Config": l.Config(), "PKI": l.PKI(),
		"ContainerdRoot": layout.ContainerdRoot, "ContainerdState": layout.ContainerdState, "RuntimeDir": layout.RuntimeDir,
		"ContainerdSocket": layout.ContainerdSocket, "CNIBin": cniBin, "CNIState": layout.CNIState, "CNINetwork": layout.CNINetwork,
		"Bridge": layout.Bridge, "NodeIP": layout.NodeIP, "PodCIDR": layout.PodCIDR, "NodeName": layout.NodeName,
		"KubeletRoot": layout.KubeletRoot, "PodLogs": layout.PodLogs, "CgroupName": layout.CgroupName,
		"PauseImage": layout.PauseImage, "Provisioner": layout.Provisioner,
		"OperatorNamespace": layout.OperatorNamespace, "OperatorName": layout.OperatorName,
		"ForwardDNS": hasNameserver(string(resolv)),
	}, nil
}

// hasNameserver reports whether a resolv.conf names a server: CoreDNS refuses to start when it forwards to a file that
// names none.
func hasNameserver(resolv string) bool {
	for line := range strings.Lines(resolv) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "nameserver" {
			return true
		}
	}
	return false
}

// Write renders all files into the folder of configuration files. The certificates must exist. cniBin is the folder of
// CNI plugins.
func Write(l layout.Layout, cniBin string) error {
	values, err := values(l, cniBin)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(l.Config(), "cni"), 0o755); err != nil {
		return fmt.Errorf("creating folder for configuration files: %w", err)
	}
	for _, template := range templates.Templates() {
		var content bytes.Buffer
		if err := template.Execute(&content, values); err != nil {
			return fmt.Errorf("rendering %s: %w", template.Name(), err)
		}
		if err := atomic.WriteFile(filepath.Join(l.Config(), folders[template.Name()], template.Name()), content.Bytes(), 0o644); err != nil {
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
