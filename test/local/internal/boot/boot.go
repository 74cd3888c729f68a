// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package boot boots the local Kubernetes: it prepares the machine, starts the programs in the order in which they need
// each other, and waits until the node is ready. A second boot starts only what is missing or outdated.
package boot

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/config"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/image"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/kubectl"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// readyTimeout is how long any one program may take to become ready: about ten times longer than on a small machine.
const readyTimeout = 90 * time.Second

// Cluster is the local Kubernetes of one checkout.
type Cluster struct {
	Layout layout.Layout
	// Release of Kubernetes, such as 1.33. Empty for the current one.
	Release string
	// AllEtcds imports images of all releases of etcd that tests run, not only the default.
	AllEtcds bool
	Kubectl  kubectl.Kubectl
	manager  process.Manager
}

// New returns the cluster of a checkout, booted or not.
func New(l layout.Layout, release string) *Cluster {
	return &Cluster{
		Layout: l, Release: release,
		Kubectl: kubectl.Kubectl{
			Path: l.Binary("kubectl"), Kubeconfig: l.Kubeconfig(), Cache: filepath.Join(l.Run(), "kubectl-cache"),
		},
		manager: process.Manager{Records: layout.Records, Logs: l.Logs()},
	}
}

// Up starts what is not running. The binaries must be built. It calls note with what it is doing, and reports whether it
// started anything.
func (c *Cluster) Up(ctx context.Context, note func(string)) (started bool, err error) {
	if err := c.claim(ctx); err != nil {
		return false, err
	}
	note("preparing the machine")
	if err := c.prepare(ctx); err != nil {
		return false, err
	}
	note("starting the control plane")
	controlPlane, err := c.run(ctx, c.controlPlane())
	if err != nil {
		return false, err
	}
	if err := config.WriteKubeconfig(c.Layout, "admin", c.Layout.Kubeconfig()); err != nil {
		return false, err
	}
	note("starting the node")
	var node, addons bool
	err = utilerrors.AggregateGoroutines(
		func() (err error) { node, err = c.run(ctx, c.node()); return err },
		func() (err error) {
			if err := c.Kubectl.ApplyFile(ctx, c.config("cluster.yaml")); err != nil {
				return fmt.Errorf("granting rights: %w", err)
			}
			addons, err = c.run(ctx, c.addons())
			return err
		},
		func() error { return c.importImages(ctx) },
	)
	if err != nil {
		return false, err
	}
	note("waiting for the node")
	return controlPlane || node || addons, c.waitUsable(ctx)
}

// waitUsable waits until the cluster can run pods.
func (c *Cluster) waitUsable(ctx context.Context) error {
	// Pods are refused in a namespace without its ServiceAccount. It also shows that the controllers have started, which
	// their health does not.
	if err := c.Kubectl.Wait(ctx, "create", "serviceaccount/default", "default", readyTimeout); err != nil {
		return fmt.Errorf("%w%s", err, c.tail("kube-controller-manager"))
	}
	if err := c.Kubectl.WaitReady(ctx, "node/"+layout.NodeName, "", readyTimeout); err != nil {
		return fmt.Errorf("%w%s", err, c.tail("kubelet"))
	}
	return nil
}

func (c *Cluster) tail(name string) string {
	return process.Tail(filepath.Join(c.Layout.Logs(), name+".log"))
}

// run starts programs, all at once, and waits until all are ready. It reports whether it started any.
func (c *Cluster) run(ctx context.Context, programs []program) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready within %s", readyTimeout))
	defer cancel()
	anyStarted := false
	var waits []func() error
	for _, p := range programs {
		running, started, err := c.manager.Ensure(ctx, p.spec)
		if err != nil {
			return false, err
		}
		anyStarted = anyStarted || started
		waits = append(waits, func() error { return running.WaitReady(ctx, p.ready) })
	}
	if err := utilerrors.AggregateGoroutines(waits...); err != nil {
		return false, err
	}
	return anyStarted, nil
}

// importImages imports the images that every cluster needs, and those that tests do.
func (c *Cluster) importImages(ctx context.Context) error {
	images := []image.Image{image.Pause, image.Etcd}
	if c.AllEtcds {
		images = append(images, image.EtcdReleases...)
	}
	for _, img := range images {
		if _, err := image.Import(ctx, c.Layout, img); err != nil {
			return err
		}
	}
	return nil
}

// Running returns the processes of the cluster that are running.
func (c *Cluster) Running() ([]process.Process, error) { return c.manager.Running() }
