// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

// CheckFree returns an error if something else uses the names or addresses of the cluster. It is for a machine without
// a local Kubernetes.
func CheckFree(ctx context.Context) error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("listing network interfaces: %w", err)
	}
	pods := netip.MustParsePrefix(layout.PodCIDR)
	for _, i := range interfaces {
		if i.Name == layout.Bridge {
			return fmt.Errorf("interface %s exists and is foreign: this machine seems to run another Kubernetes", i.Name)
		}
		addresses, err := i.Addrs()
		if err != nil {
			return fmt.Errorf("listing addresses of %s: %w", i.Name, err)
		}
		for _, address := range addresses {
			if prefix, err := netip.ParsePrefix(address.String()); err == nil && prefix.Overlaps(pods) && prefix.Bits() > 0 {
				return fmt.Errorf("interface %s has %s, which overlaps the pod network %s: take it down first", i.Name, prefix, pods)
			}
		}
	}
	if kubeProxyTables[0].exists(ctx) {
		return errors.New("nftables has a foreign table kube-proxy: this machine seems to run another Kubernetes")
	}
	return nil
}
