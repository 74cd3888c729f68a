// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package layout has the files, folders, addresses and names of the local Kubernetes, for what boots it, uses it and
// removes it. It changes nothing on the machine.
package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// Folders of the machine. There is one local Kubernetes per machine, because its bridge and its addresses exist once. So
// these do not depend on the checkout, and any checkout can take the cluster down.
const (
	// StateDir holds what may be large: images, container file systems, volumes.
	StateDir = "/var/lib/etcd-foreman-local"
	// RuntimeDir holds sockets and the records of the running processes.
	RuntimeDir = "/run/etcd-foreman-local"
	// CgroupName is the cgroup, in every hierarchy, that holds all pods.
	CgroupName = "etcd-foreman-local"
)

// Names and addresses of the cluster.
const (
	ContextName = "etcd-foreman-local" // in the kubeconfig
	NodeName    = "local"

	Bridge      = "cni0"
	NodeIP      = "10.88.0.1" // address of the bridge; also serves the API and DNS
	PodCIDR     = "10.88.0.0/16"
	ServiceCIDR = "10.96.0.0/16"
	ServiceIP   = "10.96.0.1" // of Service default/kubernetes
	APIPort     = "6443"
	Server      = "https://" + NodeIP + ":" + APIPort

	// EtcdClient and EtcdPeer are not etcd's usual ports, which another etcd on this machine may use.
	EtcdClient = "127.0.0.1:12379"
	EtcdPeer   = "127.0.0.1:12380"

	// CNINetwork names the pod network in files that CNI plugins share.
	CNINetwork = "etcd-foreman-local"
	// MasqueradeTable is the nftables table that lets pods reach the outside.
	MasqueradeTable = "etcd-foreman-local"
	// PauseImage is the first container of every pod.
	PauseImage = "localhost/pause:dev"
	// Provisioner names the volume provisioner in its StorageClass.
	Provisioner = "etcd-foreman.github.com/host-path"

	// OperatorNamespace and OperatorName find the Deployment, and the
	// ServiceAccount, all of whose requests the API server's audit log holds.
	OperatorNamespace = "etcd-foreman-system"
	OperatorName      = "etcd-foreman"
)

// modulePath is the module at the root of a checkout.
const modulePath = "github.com/etcd-foreman/etcd-foreman"

// Layout is where things are for one checkout of the repository.
type Layout struct {
	Root string // absolute path of the checkout
}

// Find returns the layout of the checkout that holds the folder dir.
func Find(dir string) (Layout, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Layout{}, fmt.Errorf("finding the checkout: %w", err)
	}
	for root := dir; ; root = filepath.Dir(root) {
		content, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil {
			if modfile.ModulePath(content) == modulePath {
				return Layout{Root: root}, nil
			}
		} else if !errors.Is(err, os.ErrNotExist) {
			return Layout{}, fmt.Errorf("finding the checkout: %w", err)
		}
		if root == filepath.Dir(root) {
			return Layout{}, fmt.Errorf("finding the checkout: %s is not inside a checkout of etcd-foreman", dir)
		}
	}
}

// Local is the folder of all files that are created in the checkout.
func (l Layout) Local() string { return filepath.Join(l.Root, ".local") }

// Bin is the folder of the built binaries; it outlives the cluster.
func (l Layout) Bin() string { return filepath.Join(l.Local(), "bin") }

// Binary is the path of a built binary.
func (l Layout) Binary(name string) string { return filepath.Join(l.Bin(), name) }

// Kubeconfig is the administrator's kubeconfig.
func (l Layout) Kubeconfig() string { return filepath.Join(l.Local(), "kubeconfig") }

// Run is the folder of what belongs to the running cluster.
func (l Layout) Run() string { return filepath.Join(l.Local(), "run") }

// Logs is the folder of the logs, one file per process.
func (l Layout) Logs() string { return filepath.Join(l.Run(), "logs") }

// PKI is the folder of keys and certificates.
func (l Layout) PKI() string { return filepath.Join(l.Run(), "pki") }

// Config is the folder of the rendered configuration files.
func (l Layout) Config() string { return filepath.Join(l.Run(), "config") }

// AuditLog has one line for each request of the operator, and for what anybody writes that matters to an etcd cluster.
func (l Layout) AuditLog() string { return filepath.Join(l.Run(), "audit.log") }

// Paths of the machine that several packages need.
var (
	Owner            = filepath.Join(RuntimeDir, "owner")   // names the checkout that booted the cluster
	Release          = filepath.Join(RuntimeDir, "release") // of Kubernetes, that of this cluster; empty for the current one
	Records          = filepath.Join(RuntimeDir, "processes")
	Sysctls          = filepath.Join(RuntimeDir, "sysctls.json")
	Images           = filepath.Join(RuntimeDir, "images")
	ContainerdState  = filepath.Join(RuntimeDir, "containerd")
	ContainerdSocket = filepath.Join(RuntimeDir, "containerd.sock")
	ContainerdRoot   = filepath.Join(StateDir, "containerd")
	EtcdData         = filepath.Join(StateDir, "etcd")
	KubeletRoot      = filepath.Join(StateDir, "kubelet")
	PodLogs          = filepath.Join(StateDir, "pod-logs")
	Volumes          = filepath.Join(StateDir, "volumes")
	CNIState         = filepath.Join(StateDir, "cni")
)

// ReadOwner returns the layout of the checkout that booted the cluster of this machine, and whether there is one.
func ReadOwner() (Layout, bool, error) {
	content, err := os.ReadFile(Owner)
	if errors.Is(err, os.ErrNotExist) {
		return Layout{}, false, nil
	}
	if err != nil {
		return Layout{}, false, fmt.Errorf("reading which checkout booted the cluster: %w", err)
	}
	root := strings.TrimSpace(string(content))
	if !filepath.IsAbs(root) {
		return Layout{}, false, fmt.Errorf("reading which checkout booted the cluster: %s holds %q, not a path", Owner, root)
	}
	return Layout{Root: root}, true, nil
}
