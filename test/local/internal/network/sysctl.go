// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/atomic"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

// needed are the kernel settings that pods need. Calls to a Service that come
// back over the bridge are only translated back if the bridge passes them
// through netfilter.
var needed = map[string]string{
	"net/ipv4/ip_forward":                "1",
	"net/bridge/bridge-nf-call-iptables": "1",
}

// touched are the kernel settings that kubelet changes by itself.
var touched = []string{
	"vm/overcommit_memory", "vm/panic_on_oom",
	"kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

func sysctlPath(name string) string { return filepath.Join("/proc/sys", name) }

// SetSysctls notes the kernel settings as they are, unless that was done before,
// and changes those that are needed.
func SetSysctls(ctx context.Context) error {
	if _, err := os.Stat(sysctlPath("net/bridge/bridge-nf-call-iptables")); errors.Is(err, os.ErrNotExist) {
		if err := run(ctx, "modprobe", "br_netfilter"); err != nil {
			return fmt.Errorf("loading kernel module br_netfilter, without which Services do not work: %w", err)
		}
	}
	if _, err := os.Stat(layout.Sysctls); errors.Is(err, os.ErrNotExist) {
		if err := noteSysctls(); err != nil {
			return err
		}
	}
	for name, value := range needed {
		if err := os.WriteFile(sysctlPath(name), []byte(value), 0o644); err != nil {
			return fmt.Errorf("changing kernel setting %s: %w", name, err)
		}
	}
	return nil
}

func noteSysctls() error {
	values := map[string]string{}
	names := append([]string{}, touched...)
	for name := range needed {
		names = append(names, name)
	}
	for _, name := range names {
		content, err := os.ReadFile(sysctlPath(name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("noting kernel setting %s: %w", name, err)
		}
		values[name] = strings.TrimSpace(string(content))
	}
	content, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("noting kernel settings: %w", err)
	}
	if err := atomic.WriteFile(layout.Sysctls, content, 0o644); err != nil {
		return fmt.Errorf("noting kernel settings: %w", err)
	}
	return nil
}

// RestoreSysctls puts the kernel settings back as they were noted.
func RestoreSysctls() error {
	content, err := os.ReadFile(layout.Sysctls)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restoring kernel settings: %w", err)
	}
	var values map[string]string
	if err := json.Unmarshal(content, &values); err != nil {
		return fmt.Errorf("restoring kernel settings noted in %s: %w", layout.Sysctls, err)
	}
	var failed []error
	for name, value := range values {
		if err := restore(name, value); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func restore(name, value string) error {
	content, err := os.ReadFile(sysctlPath(name))
	if err == nil && strings.TrimSpace(string(content)) == value {
		return nil
	}
	if err := os.WriteFile(sysctlPath(name), []byte(value), 0o644); err != nil {
		return fmt.Errorf("restoring kernel setting %s: %w", name, err)
	}
	return nil
}
