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

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

// passes are the iptables rules that let pods talk to each other, to this
// machine and to the outside, by the chain they belong to.
var passes = []struct {
	Chain string
	Rule  []string
}{
	{"INPUT", []string{"-i", layout.Bridge}},
	{"FORWARD", []string{"-i", layout.Bridge}},
	{"FORWARD", []string{"-o", layout.Bridge}},
}

// openFirewall lets pods pass where the machine's firewall would drop what it
// does not know, as Docker and ufw make it. Elsewhere it changes nothing.
func openFirewall(ctx context.Context) error {
	if !hasIptables() {
		return nil // whatever filters here, it is not iptables
	}
	for _, pass := range passes {
		rules, err := exec.CommandContext(ctx, "iptables", "--wait", "-S", pass.Chain).Output()
		if err != nil {
			return fmt.Errorf("reading iptables chain %s: %w", pass.Chain, err)
		}
		if !dropsByDefault(string(rules), pass.Chain) || iptables(ctx, "-C", pass.Chain, pass.Rule) == nil {
			continue
		}
		if err := iptables(ctx, "-I", pass.Chain, pass.Rule); err != nil {
			return fmt.Errorf("letting pods pass the firewall: %w", err)
		}
	}
	return nil
}

// closeFirewall removes the rules of openFirewall.
func closeFirewall(ctx context.Context) error {
	if !hasIptables() {
		return nil
	}
	var failed []error
	for _, pass := range passes {
		for iptables(ctx, "-C", pass.Chain, pass.Rule) == nil {
			if err := iptables(ctx, "-D", pass.Chain, pass.Rule); err != nil {
				failed = append(failed, fmt.Errorf("removing a rule of the firewall: %w", err))
				break
			}
		}
	}
	return errors.Join(failed...)
}

// dropsByDefault tells whether a chain, as listed by iptables -S, drops what no
// rule accepts.
func dropsByDefault(rules, chain string) bool {
	return strings.HasPrefix(rules, "-P "+chain+" DROP")
}

func hasIptables() bool {
	_, err := exec.LookPath("iptables")
	return err == nil
}

func iptables(ctx context.Context, action, chain string, rule []string) error {
	args := append([]string{"--wait", action, chain}, rule...)
	return run(ctx, "iptables", append(args, "-m", "comment", "--comment", layout.MasqueradeTable, "-j", "ACCEPT")...)
}
