// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"path/filepath"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/build"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
)

// program is one program of the cluster, and how to check that it is ready.
type program struct {
	spec  process.Spec
	ready func(context.Context) error
}

// controlPlane returns the programs that need only each other.
func (c *Cluster) controlPlane() []program {
	return []program{c.containerd(), c.etcd(), c.apiServer()}
}

// node returns the programs that need the API server, which has the roles of their users built in.
func (c *Cluster) node() []program {
	return []program{c.controllerManager(), c.scheduler(), c.kubelet(), c.kubeProxy()}
}

// addons returns the programs whose users must be granted their rights first.
func (c *Cluster) addons() []program {
	return []program{c.coreDNS(), c.provisioner()}
}

// binary is the path of a program of the cluster's release.
func (c *Cluster) binary(name string) string { return c.Layout.Binary(build.Of(c.Release, name)) }

func (c *Cluster) config(name string) string { return filepath.Join(c.Layout.Config(), name) }

func (c *Cluster) pki(name string) string { return filepath.Join(c.Layout.PKI(), name) }
