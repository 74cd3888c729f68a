// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package network sets up the bridge that pods are attached to and their way to the outside, and removes both, with
// what kube-proxy and the CNI plugins leave behind.
package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/command"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

// bridgeMAC is fixed because a bridge without an address of its own takes the lowest of its ports: a pod that starts
// or ends would change the gateway's address for the other pods.
const bridgeMAC = "0a:58:0a:58:00:01"

// masquerade lets pods reach addresses outside the pod network, as in most clusters. Adding, deleting and adding makes
// it idempotent.
const masquerade = `
add table ip %[1]s
delete table ip %[1]s
table ip %[1]s {
	chain postrouting {
		type nat hook postrouting priority srcnat
		ip saddr %[2]s ip daddr != %[2]s masquerade
	}
}
`

// table is an nftables table.
type table struct{ family, name string }

func (t table) String() string { return "nftables table " + t.family + " " + t.name }

// kubeProxyTables are the tables of kube-proxy.
var kubeProxyTables = []table{{"ip", "kube-proxy"}, {"ip6", "kube-proxy"}}

// SetUp creates the bridge and the masquerading unless they exist, and lets pods pass the firewall.
func SetUp(ctx context.Context) error {
	if !interfaceExists(layout.Bridge) {
		if err := command.Run(ctx, "ip", "link", "add", "name", layout.Bridge, "address", bridgeMAC, "type", "bridge"); err != nil {
			return fmt.Errorf("creating the bridge: %w", err)
		}
	}
	_, bits, _ := strings.Cut(layout.PodCIDR, "/")
	if err := command.Run(ctx, "ip", "address", "replace", layout.NodeIP+"/"+bits, "dev", layout.Bridge); err != nil {
		return fmt.Errorf("giving the bridge its address: %w", err)
	}
	if err := command.Run(ctx, "ip", "link", "set", layout.Bridge, "up"); err != nil {
		return fmt.Errorf("starting the bridge: %w", err)
	}
	nft := exec.CommandContext(ctx, "nft", "-f", "-")
	nft.Stdin = strings.NewReader(fmt.Sprintf(masquerade, layout.MasqueradeTable, layout.PodCIDR))
	if err := command.Do(nft); err != nil {
		return fmt.Errorf("setting up masquerading: %w", err)
	}
	return openFirewall(ctx)
}

// TearDown removes the bridge, the pods' interfaces on it, the nftables tables, the firewall's rules and the results
// that CNI plugins cached. It is no error if they do not exist.
func TearDown(ctx context.Context) error {
	ports, err := ports()
	failed := []error{err}
	for _, port := range append(ports, layout.Bridge) {
		if !interfaceExists(port) {
			continue
		}
		if err := command.Run(ctx, "ip", "link", "delete", port); err != nil && interfaceExists(port) {
			failed = append(failed, fmt.Errorf("removing interface %s: %w", port, err))
		}
	}
	for _, table := range tables(ctx) {
		if err := command.Run(ctx, "nft", "delete", "table", table.family, table.name); err != nil {
			failed = append(failed, fmt.Errorf("removing %s: %w", table, err))
		}
	}
	for _, file := range cniResults() {
		if err := os.Remove(file); err != nil {
			failed = append(failed, fmt.Errorf("removing the cached result of a CNI plugin: %w", err))
		}
	}
	failed = append(failed, closeFirewall(ctx))
	// Only if empty, that is, if nothing else uses them.
	_ = os.Remove(cniResultsDir)
	_ = os.Remove(filepath.Dir(cniResultsDir))
	return errors.Join(failed...)
}

// Leftovers names the bridge and the tables that exist.
func Leftovers(ctx context.Context) []string {
	var left []string
	if interfaceExists(layout.Bridge) {
		left = append(left, "interface "+layout.Bridge)
	}
	for _, table := range tables(ctx) {
		left = append(left, table.String())
	}
	return left
}

// tables returns those of our nftables tables that exist.
func tables(ctx context.Context) []table {
	var existing []table
	for _, t := range append([]table{{"ip", layout.MasqueradeTable}}, kubeProxyTables...) {
		if t.exists(ctx) {
			existing = append(existing, t)
		}
	}
	return existing
}

func (t table) exists(ctx context.Context) bool {
	return command.Run(ctx, "nft", "list", "table", t.family, t.name) == nil
}

// ports returns the interfaces that are attached to the bridge.
func ports() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join("/sys/class/net", layout.Bridge, "brif"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the interfaces on %s: %w", layout.Bridge, err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

func interfaceExists(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}

// cniResultsDir is where the CNI library caches the result of each plugin; the place is fixed.
const cniResultsDir = "/var/lib/cni/results"

// cniResults returns the cached results for our containers: those of our network, and those of the loopback network
// that each container has too.
func cniResults() []string {
	var results []string
	for _, file := range glob(layout.CNINetwork + "-*") {
		// NETWORK-CONTAINER-INTERFACE
		container := strings.TrimPrefix(filepath.Base(file), layout.CNINetwork+"-")
		container, _, _ = strings.Cut(container, "-")
		results = append(results, file)
		results = append(results, glob("cni-loopback-"+container+"-*")...)
	}
	return results
}

// glob returns the cached results whose names match a well-formed pattern.
func glob(pattern string) []string {
	files, _ := filepath.Glob(filepath.Join(cniResultsDir, pattern)) // fails on a malformed pattern only
	return files
}
