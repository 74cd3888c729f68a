// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/command"
)

// CutOff disconnects the pod of this process from the network, without any notice to the pod or its peers. The returned
// function reconnects it, also after the process has ended; it is no error if the whole pod has.
func (p Process) CutOff(ctx context.Context) (reconnect func(context.Context) error, err error) {
	link, err := p.link()
	if err != nil {
		return nil, fmt.Errorf("finding the network interface of %s: %w", p, err)
	}
	if err := command.Run(ctx, "ip", "link", "set", link, "down"); err != nil {
		return nil, fmt.Errorf("disconnecting %s: %w", p, err)
	}
	return func(ctx context.Context) error {
		if _, err := net.InterfaceByName(link); err != nil {
			return nil // the pod has ended, and its interface with it
		}
		if err := command.Run(ctx, "ip", "link", "set", link, "up"); err != nil {
			return fmt.Errorf("reconnecting %s: %w", p, err)
		}
		return nil
	}, nil
}

// link returns the machine's end of the virtual cable to the pod. The other end is the pod's eth0, whose number for this
// end is in the /sys of the pod.
func (p Process) link() (string, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/sys/class/net/eth0/iflink", p.identity.PID))
	if err != nil {
		return "", err
	}
	index, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return "", err
	}
	link, err := net.InterfaceByIndex(index)
	if err != nil {
		return "", err
	}
	return link.Name, nil
}
