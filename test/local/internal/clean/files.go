// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

// removeFolders removes our folders; the one that names the owner goes last, so that a Down that fails can be repeated.
func removeFolders(checkouts []layout.Layout) error {
	var paths []string
	for _, checkout := range checkouts {
		paths = append(paths, checkout.Run(), checkout.Kubeconfig())
	}
	for _, path := range append(paths, layout.StateDir, layout.RuntimeDir) {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing files: %w", err)
		}
	}
	return nil
}

// removeShimSockets removes the sockets of containers' shims, which are in a folder that all containerds of a machine
// share.
func removeShimSockets() error {
	addresses, err := filepath.Glob(filepath.Join(layout.ContainerdState, "io.containerd.runtime.v2.task", "*", "*", "address"))
	if err != nil {
		return fmt.Errorf("finding sockets of containers: %w", err)
	}
	for _, address := range addresses {
		content, err := os.ReadFile(address)
		if err != nil {
			return fmt.Errorf("finding the socket of a container: %w", err)
		}
		socket := strings.TrimPrefix(string(content), "unix://")
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing the socket of a container: %w", err)
		}
	}
	removeIfEmpty("/run/containerd/s", "/run/containerd")
	return nil
}

// removeKubeletFiles removes what kubelet leaves at fixed places.
func removeKubeletFiles() error {
	const links, plugins = "/var/log/containers", "/var/lib/kubelet/device-plugins"
	entries, err := os.ReadDir(links)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("finding links to logs of containers: %w", err)
	}
	for _, entry := range entries {
		link := filepath.Join(links, entry.Name())
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, layout.PodLogs+"/") {
			continue
		}
		if err := os.Remove(link); err != nil {
			return fmt.Errorf("removing the link to a container's log: %w", err)
		}
	}
	// This machine has no other kubelet: the API server and this kubelet would not have got their ports.
	if err := os.RemoveAll(plugins); err != nil {
		return fmt.Errorf("removing kubelet's files: %w", err)
	}
	removeIfEmpty(links, "/var/lib/kubelet")
	return nil
}

// removeIfEmpty removes folders that other programs may use too, unless they do.
func removeIfEmpty(dirs ...string) {
	for _, dir := range dirs {
		_ = os.Remove(dir) // fails when it is not empty, as it should
	}
}
