// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package nft drops packets on the bridge of the local Kubernetes, by nftables.
package nft

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// again is how often Drop asks what to drop.
const again = 500 * time.Millisecond

// tables are those that Drop has made.
var tables atomic.Int64

// Drop drops the packets that any of some expressions matches, until it is stopped. It asks for them again and again, and keeps
// those that it has while it gets an error. stop returns how many packets were dropped.
func Drop(ctx context.Context, matches func(context.Context) ([]string, error)) (stop func(context.Context) (dropped int, err error), err error) {
	table := fmt.Sprintf("robustness-%d", tables.Add(1))
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var rules string
	dropped := 0
	apply := func() error {
		all, err := matches(ctx)
		if err != nil {
			return err
		}
		now := chains(all)
		if now == rules {
			return nil
		}
		if rules != "" {
			dropped += counted(ctx, table)
		}
		rules = now
		return Run(ctx, fmt.Sprintf("add table bridge %[1]s\ndelete table bridge %[1]s\ntable bridge %[1]s {\n%[2]s}\n", table, rules))
	}
	if err := apply(); err != nil {
		cancel()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(again)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				_ = apply() // the API server may be down: the rules stay as they are
			}
		}
	}()
	return func(ctx context.Context) (int, error) {
		cancel()
		<-done
		dropped += counted(ctx, table)
		return dropped, Run(ctx, "delete table bridge "+table+"\n")
	}, nil
}

// chains drop what is matched. Packets between pods are forwarded by the bridge; those between a pod and the node arrive there,
// and leave it.
func chains(matches []string) string {
	var all strings.Builder
	for _, hook := range []string{"forward", "input", "output"} {
		fmt.Fprintf(&all, "  chain %[1]s {\n    type filter hook %[1]s priority 0;\n", hook)
		for _, match := range matches {
			fmt.Fprintf(&all, "    %s counter drop\n", match)
		}
		all.WriteString("  }\n")
	}
	return all.String()
}

// Run runs a script of nft.
func Run(ctx context.Context, script string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running nft: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// counted returns how many packets the rules of a table have dropped.
func counted(ctx context.Context, table string) int {
	out, err := exec.CommandContext(ctx, "nft", "--json", "list", "table", "bridge", table).Output()
	if err != nil {
		return 0
	}
	var list struct {
		Nftables []struct {
			Rule struct {
				Expr []struct{ Counter struct{ Packets int } }
			}
		}
	}
	if json.Unmarshal(out, &list) != nil {
		return 0
	}
	packets := 0
	for _, item := range list.Nftables {
		for _, e := range item.Rule.Expr {
			packets += e.Counter.Packets
		}
	}
	return packets
}
