// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package clean takes the local Kubernetes down without a trace: in whatever state it is, booted, half booted or
// killed, and from any checkout.
package clean

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/cgroup"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/network"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/sysctl"
)

// patience is how long the kernel may take to release processes, mounts and cgroups. Usually it takes a fraction of a
// second.
const patience = time.Minute

// Down removes everything but what was built. Its error names what cannot be removed; Down may then be called again.
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
		// Without a sign that they are ours, a bridge cni0 and the tables of a kube-proxy are foreign.
		if err := network.TearDown(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(cgroup.Remove(releasing), sysctl.Restore(), removeKubeletFiles()); err != nil {
		return err
	}
	checkouts := []layout.Layout{here}
	if owned && owner != here {
		checkouts = append(checkouts, owner)
	}
	if err := removeFolders(checkouts); err != nil {
		return err
	}
	return verify(ctx, ours)
}

// present reports whether there is any sign of a local Kubernetes in the kernel or in the records.
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
