// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/command"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

// pass is an iptables rule that lets pods pass: to each other, to this machine or to the outside.
type pass struct {
	chain string
	match []string
}

var passes = []pass{
	{"INPUT", []string{"-i", layout.Bridge}},
	{"FORWARD", []string{"-i", layout.Bridge}},
	{"FORWARD", []string{"-o", layout.Bridge}},
}

// iptables checks (-C), inserts (-I) or deletes (-D) the rule.
func (p pass) iptables(ctx context.Context, action string) error {
	args := append([]string{"--wait", action, p.chain}, p.match...)
	return command.Run(ctx, "iptables", append(args, "-m", "comment", "--comment", layout.MasqueradeTable, "-j", "ACCEPT")...)
}

// openFirewall lets pods pass where the machine's firewall drops by default, as with Docker and ufw. Elsewhere it
// changes nothing.
func openFirewall(ctx context.Context) error {
	if !command.Exists("iptables") {
		return nil // whatever filters here, it is not iptables
	}
	for _, p := range passes {
		rules, err := exec.CommandContext(ctx, "iptables", "--wait", "-S", p.chain).Output()
		if err != nil {
			return fmt.Errorf("reading iptables chain %s: %w", p.chain, err)
		}
		if !dropsByDefault(string(rules), p.chain) || p.iptables(ctx, "-C") == nil {
			continue
		}
		if err := p.iptables(ctx, "-I"); err != nil {
			return fmt.Errorf("letting pods pass the firewall: %w", err)
		}
	}
	return nil
}

// closeFirewall removes the rules of openFirewall.
func closeFirewall(ctx context.Context) error {
	if !command.Exists("iptables") {
		return nil
	}
	var failed []error
	for _, p := range passes {
		for p.iptables(ctx, "-C") == nil {
			if err := p.iptables(ctx, "-D"); err != nil {
				failed = append(failed, fmt.Errorf("removing a rule of the firewall: %w", err))
				break
			}
		}
	}
	return errors.Join(failed...)
}

// dropsByDefault reports whether a chain, as listed by iptables -S, drops what no rule accepts.
func dropsByDefault(rules, chain string) bool {
	return strings.HasPrefix(rules, "-P "+chain+" DROP")
}
