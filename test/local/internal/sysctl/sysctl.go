// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package sysctl changes the kernel settings that pods need, and restores them, with those that kubelet changes.
package sysctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/atomic"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/command"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

const bridgeNetfilter = "net/bridge/bridge-nf-call-iptables"

// needed are the settings that pods need. Replies of a Service that come back over the bridge are only translated if
// the bridge passes them through netfilter.
var needed = map[string]string{"net/ipv4/ip_forward": "1", bridgeNetfilter: "1"}

// touched are the settings that kubelet changes by itself.
var touched = []string{
	"vm/overcommit_memory", "vm/panic_on_oom",
	"kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// Set changes the settings that pods need, once it has recorded them as they were.
func Set(ctx context.Context) error {
	if _, err := os.Stat(path(bridgeNetfilter)); errors.Is(err, os.ErrNotExist) {
		if err := command.Run(ctx, "modprobe", "br_netfilter"); err != nil {
			return fmt.Errorf("loading kernel module br_netfilter, without which Services do not work: %w", err)
		}
	}
	if _, err := os.Stat(layout.Sysctls); errors.Is(err, os.ErrNotExist) {
		if err := record(); err != nil {
			return fmt.Errorf("recording kernel settings: %w", err)
		}
	}
	for name, value := range needed {
		if err := os.WriteFile(path(name), []byte(value), 0o644); err != nil {
			return fmt.Errorf("changing kernel setting %s: %w", name, err)
		}
	}
	return nil
}

func record() error {
	values := map[string]string{}
	for _, name := range append(slices.Collect(maps.Keys(needed)), touched...) {
		value, err := read(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		values[name] = value
	}
	content, err := json.Marshal(values)
	if err != nil {
		return err
	}
	return atomic.WriteFile(layout.Sysctls, content, 0o644)
}

// Restore restores the settings as they were recorded.
func Restore() error {
	content, err := os.ReadFile(layout.Sysctls)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restoring kernel settings: %w", err)
	}
	var values map[string]string
	if err := json.Unmarshal(content, &values); err != nil {
		return fmt.Errorf("restoring the kernel settings recorded in %s: %w", layout.Sysctls, err)
	}
	var failed []error
	for name, value := range values {
		if now, err := read(name); err == nil && now == value {
			continue
		}
		if err := os.WriteFile(path(name), []byte(value), 0o644); err != nil {
			failed = append(failed, fmt.Errorf("restoring kernel setting %s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

func path(name string) string { return filepath.Join("/proc/sys", name) }

func read(name string) (string, error) {
	content, err := os.ReadFile(path(name))
	return strings.TrimSpace(string(content)), err
}
