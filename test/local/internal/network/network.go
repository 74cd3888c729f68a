// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package network sets up the bridge that pods are attached to and the way from
// it to the outside, and removes both, together with what kube-proxy and the CNI
// plugins left. It imports the standard library and its siblings atomic and layout only.
package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

// bridgeMAC is fixed, because a bridge without one of its own takes the lowest
// of its ports; so a pod that comes or goes would change the gateway's address
// under the other pods.
const bridgeMAC = "0a:58:0a:58:00:01"

// masquerade lets pods reach addresses outside the pod network, as they would
// in most clusters. Adding, deleting and adding makes it idempotent.
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

// kubeProxyTables are the nftables tables of kube-proxy, by family.
var kubeProxyTables = [][2]string{{"ip", "kube-proxy"}, {"ip6", "kube-proxy"}}

// SetUp creates the bridge and the masquerading, unless they are there, and lets
// pods pass the firewall.
func SetUp(ctx context.Context) error {
	if _, err := net.InterfaceByName(layout.Bridge); err != nil {
		if err := run(ctx, "ip", "link", "add", "name", layout.Bridge, "address", bridgeMAC, "type", "bridge"); err != nil {
			return fmt.Errorf("creating bridge: %w", err)
		}
	}
	_, bits, _ := strings.Cut(layout.PodCIDR, "/")
	if err := run(ctx, "ip", "address", "replace", layout.NodeIP+"/"+bits, "dev", layout.Bridge); err != nil {
		return fmt.Errorf("giving the bridge its address: %w", err)
	}
	if err := run(ctx, "ip", "link", "set", layout.Bridge, "up"); err != nil {
		return fmt.Errorf("starting bridge: %w", err)
	}
	nft := exec.CommandContext(ctx, "nft", "-f", "-")
	nft.Stdin = strings.NewReader(fmt.Sprintf(masquerade, layout.MasqueradeTable, layout.PodCIDR))
	if out, err := nft.CombinedOutput(); err != nil {
		return fmt.Errorf("setting up masquerading: nft: %w: %s", err, out)
	}
	return openFirewall(ctx)
}

// TearDown removes the bridge, the pods' interfaces on it, the nftables tables,
// the firewall's rules and the notes of CNI plugins. What is not there is no error.
func TearDown(ctx context.Context) error {
	var failed []error
	ports, err := Ports(ctx)
	if err != nil {
		failed = append(failed, err)
	}
	for _, port := range append(ports, layout.Bridge) {
		if _, err := net.InterfaceByName(port); err != nil {
			continue
		}
		if err := run(ctx, "ip", "link", "delete", port); err != nil && exists(port) {
			failed = append(failed, fmt.Errorf("removing interface %s: %w", port, err))
		}
	}
	for _, table := range Tables(ctx) {
		if err := run(ctx, "nft", "delete", "table", table[0], table[1]); err != nil {
			failed = append(failed, fmt.Errorf("removing nftables table %s: %w", table[1], err))
		}
	}
	for _, file := range cniResults() {
		if err := os.Remove(file); err != nil {
			failed = append(failed, fmt.Errorf("removing the note of a CNI plugin: %w", err))
		}
	}
	if err := closeFirewall(ctx); err != nil {
		failed = append(failed, err)
	}
	// Only if empty, that is, if nobody else uses them.
	_ = os.Remove(cniResultsDir)
	_ = os.Remove(filepath.Dir(cniResultsDir))
	return errors.Join(failed...)
}

// Tables returns those of our nftables tables that exist, as family and name.
func Tables(ctx context.Context) [][2]string {
	var tables [][2]string
	for _, table := range append([][2]string{{"ip", layout.MasqueradeTable}}, kubeProxyTables...) {
		if run(ctx, "nft", "list", "table", table[0], table[1]) == nil {
			tables = append(tables, table)
		}
	}
	return tables
}

// Ports returns the interfaces that are attached to the bridge.
func Ports(ctx context.Context) ([]string, error) {
	if !exists(layout.Bridge) {
		return nil, nil
	}
	out, err := exec.CommandContext(ctx, "ip", "-json", "link", "show", "master", layout.Bridge).Output()
	if err != nil {
		return nil, fmt.Errorf("listing interfaces on %s: %w", layout.Bridge, err)
	}
	var links []struct {
		Name string `json:"ifname"`
	}
	if len(out) > 0 {
		if err := json.Unmarshal(out, &links); err != nil {
			return nil, fmt.Errorf("listing interfaces on %s: %w", layout.Bridge, err)
		}
	}
	var ports []string
	for _, link := range links {
		ports = append(ports, link.Name)
	}
	return ports, nil
}

// cniResultsDir is where the CNI library, at a fixed place, notes what each
// plugin answered.
const cniResultsDir = "/var/lib/cni/results"

// cniResults returns the notes about our containers: those of our network, and
// those of the loopback network that each container has too.
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

// glob returns the notes whose name matches a well-formed pattern.
func glob(pattern string) []string {
	files, _ := filepath.Glob(filepath.Join(cniResultsDir, pattern)) // fails on a malformed pattern only
	return files
}

func exists(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
