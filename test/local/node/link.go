// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"strings"
)

// podInterface is the name of the network interface inside every pod.
const podInterface = "eth0"

// CutOff cuts the pod of this process off the network: nothing gets in or out,
// and nobody is told. The returned function connects it again; it also works
// when the process has ended meanwhile, and is no error when the whole pod has.
func (p Process) CutOff(ctx context.Context) (reconnect func(context.Context) error, err error) {
	link, err := p.link(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding the network interface of %s: %w", p, err)
	}
	if err := setLink(ctx, link, "down"); err != nil {
		return nil, fmt.Errorf("cutting off %s: %w", p, err)
	}
	return func(ctx context.Context) error {
		if !exists(link) {
			return nil // the pod went, and its interface with it
		}
		if err := setLink(ctx, link, "up"); err != nil {
			return fmt.Errorf("reconnecting %s: %w", p, err)
		}
		return nil
	}, nil
}

// link returns the name of the machine's end of the cable to the pod.
func (p Process) link(ctx context.Context) (string, error) {
	namespace := fmt.Sprintf("--net=/proc/%d/ns/net", p.identity.PID)
	out, err := exec.CommandContext(ctx, "nsenter", namespace, "ip", "-json", "link", "show", "dev", podInterface).Output()
	if err != nil {
		return "", fmt.Errorf("listing its interfaces: %w", err)
	}
	var links []struct {
		Peer int `json:"link_index"`
	}
	if err := json.Unmarshal(out, &links); err != nil {
		return "", fmt.Errorf("listing its interfaces: %w", err)
	}
	if len(links) != 1 || links[0].Peer == 0 {
		return "", fmt.Errorf("it has no %s with another end on this machine", podInterface)
	}
	link, err := net.InterfaceByIndex(links[0].Peer)
	if err != nil {
		return "", fmt.Errorf("finding the other end of its %s: %w", podInterface, err)
	}
	return link.Name, nil
}

func exists(link string) bool {
	_, err := net.InterfaceByName(link)
	return err == nil
}

func setLink(ctx context.Context, link, state string) error {
	if out, err := exec.CommandContext(ctx, "ip", "link", "set", link, state).CombinedOutput(); err != nil {
		return fmt.Errorf("ip link set %s %s: %w: %s", link, state, err, strings.TrimSpace(string(out)))
	}
	return nil
}
