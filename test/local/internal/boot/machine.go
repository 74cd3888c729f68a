// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/atomic"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/cgroup"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/clean"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/config"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/host"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/network"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/pki"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/sysctl"
)

// claim makes this checkout the owner of the machine's one local Kubernetes, and removes the remains of one that is not
// running.
func (c *Cluster) claim(ctx context.Context) error {
	owner, owned, err := layout.ReadOwner()
	if err != nil {
		return err
	}
	running, err := c.Running()
	if err != nil {
		return err
	}
	if owned && len(running) > 0 {
		if owner != c.Layout {
			return fmt.Errorf("the local Kubernetes of %s runs on this machine, and there can be only one: take it down first", owner.Root)
		}
		return c.checkRelease()
	}
	if !owned {
		if err := network.CheckFree(ctx); err != nil {
			return err
		}
	}
	if err := clean.Down(ctx, c.Layout); err != nil {
		return fmt.Errorf("removing the remains of an earlier cluster: %w", err)
	}
	if err := os.MkdirAll(layout.RuntimeDir, 0o755); err != nil {
		return fmt.Errorf("claiming the machine: %w", err)
	}
	return errors.Join(
		atomic.WriteFile(layout.Release, []byte(c.Release), 0o644),
		atomic.WriteFile(layout.Owner, []byte(c.Layout.Root+"\n"), 0o644),
	)
}

// checkRelease returns an error if the cluster that is running is of another release: its state may be of no use to this
// one.
func (c *Cluster) checkRelease() error {
	running, err := os.ReadFile(layout.Release)
	if err != nil {
		return fmt.Errorf("reading the release of Kubernetes that is running: %w", err)
	}
	if string(running) != c.Release {
		return fmt.Errorf("the local Kubernetes runs Kubernetes %s, and %s is asked for: take it down first", releaseName(string(running)), releaseName(c.Release))
	}
	return nil
}

// releaseName names a release in a message.
func releaseName(release string) string { return cmp.Or(release, "of the current release") }

// prepare creates what the programs need before the first one starts.
func (c *Cluster) prepare(ctx context.Context) error {
	cniBin, err := host.CNIDir()
	if err != nil {
		return err
	}
	for _, dir := range []string{layout.StateDir, layout.EtcdData, layout.Volumes, layout.PodLogs} {
		// 0700: only root may read what members store there.
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("creating a folder for state: %w", err)
		}
	}
	if err := pki.Ensure(c.Layout.PKI(), time.Now()); err != nil {
		return fmt.Errorf("creating certificates: %w", err)
	}
	if err := config.Write(c.Layout, cniBin); err != nil {
		return err
	}
	if err := sysctl.Set(ctx); err != nil {
		return err
	}
	if err := network.SetUp(ctx); err != nil {
		return err
	}
	return cgroup.Create()
}
