// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package clean takes the local Kubernetes down without a trace: in whatever
// state it is, booted, half booted, or killed, and from any checkout. It imports
// the standard library and its siblings cgroup, layout, network, poll and
// process only.
package clean

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/cgroup"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/network"
)

// patience is how long the kernel may take to let go of processes, mounts and
// cgroups. Usually it takes a fraction of a second.
const patience = time.Minute

// Down removes everything but what was built. What cannot be removed is in the
// error; then Down may be called again.
func Down(ctx context.Context, here layout.Layout) error {
	releasing, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not done after %s", patience))
	defer cancel()
	owner, owned, err := layout.ReadOwner()
	if err != nil {
		return err
	}
	ours, err := present(owned)
	if err != nil {
		return err
	}
	if err := killAll(releasing); err != nil {
		return err
	}
	if err := removeShimSockets(); err != nil {
		return err
	}
	if err := unmountAll(releasing); err != nil {
		return err
	}
	if ours {
		// Without a sign that they are ours, a bridge cni0 and the tables of a
		// kube-proxy belong to somebody else.
		if err := network.TearDown(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(cgroup.Remove(releasing), network.RestoreSysctls(), removeKubeletFiles()); err != nil {
		return err
	}
	checkouts := []layout.Layout{here}
	if owned && owner != here {
		checkouts = append(checkouts, owner)
	}
	if err := removeFiles(checkouts); err != nil {
		return err
	}
	return verify(ctx, ours)
}

// present tells whether there is any sign of a local Kubernetes in the kernel or
// in the records.
func present(owned bool) (bool, error) {
	processes, err := remaining()
	if err != nil {
		return false, err
	}
	groups, err := cgroup.Groups()
	if err != nil {
		return false, err
	}
	return owned || len(processes) > 0 || len(groups) > 0, nil
}

// removeFiles removes the folders; the one with the owner goes last, so that a
// Down that fails can be repeated.
func removeFiles(checkouts []layout.Layout) error {
	var paths []string
	for _, checkout := range checkouts {
		paths = append(paths, checkout.Run(), checkout.Kubeconfig())
	}
	for _, path := range append(paths, layout.StateDir, layout.RuntimeDir) {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing files: %w", err)
		}
	}
	return nil
}

// removeShimSockets removes the sockets of containers' shims, which are in a
// folder that all containerds of a machine share.
func removeShimSockets() error {
	addresses, err := filepath.Glob(filepath.Join(layout.ContainerdState, "io.containerd.runtime.v2.task", "*", "*", "address"))
	if err != nil {
		return fmt.Errorf("finding sockets of containers: %w", err)
	}
	for _, address := range addresses {
		content, err := os.ReadFile(address)
		if err != nil {
			return fmt.Errorf("finding the socket of a container: %w", err)
		}
		socket := strings.TrimPrefix(string(content), "unix://")
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing the socket of a container: %w", err)
		}
	}
	removeIfEmpty("/run/containerd/s", "/run/containerd")
	return nil
}

// removeKubeletFiles removes what kubelet leaves at fixed places.
func removeKubeletFiles() error {
	const links, plugins = "/var/log/containers", "/var/lib/kubelet/device-plugins"
	entries, err := os.ReadDir(links)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("finding links to logs of containers: %w", err)
	}
	for _, entry := range entries {
		link := filepath.Join(links, entry.Name())
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, layout.PodLogs+"/") {
			continue
		}
		if err := os.Remove(link); err != nil {
			return fmt.Errorf("removing the link to a container's log: %w", err)
		}
	}
	// This machine has no other kubelet: the API server and this kubelet would
	// not have got their ports.
	if err := os.RemoveAll(plugins); err != nil {
		return fmt.Errorf("removing kubelet's files: %w", err)
	}
	removeIfEmpty(links, "/var/lib/kubelet")
	return nil
}

// removeIfEmpty removes folders that others may use too, unless they do.
func removeIfEmpty(dirs ...string) {
	for _, dir := range dirs {
		_ = os.Remove(dir) // fails when it is not empty, as it should
	}
}

// verify returns an error that names everything that is left.
func verify(ctx context.Context, ours bool) error {
	left, err := Leftovers(ctx, ours)
	if err != nil {
		return fmt.Errorf("verifying that nothing is left: %w", err)
	}
	if len(left) > 0 {
		slices.Sort(left)
		return fmt.Errorf("something is left:\n  %s", strings.Join(left, "\n  "))
	}
	return nil
}
