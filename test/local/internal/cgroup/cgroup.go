// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package cgroup creates, lists and removes the control group that holds all pods of the local Kubernetes, under
// version 1 and version 2 of the interface.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/poll"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
	"github.com/prometheus/procfs"
)

// Create creates the group in every hierarchy: kubelet requires that the root it is given exists.
func Create() error {
	hierarchies, err := hierarchies()
	if err != nil {
		return err
	}
	if len(hierarchies) == 0 {
		return errors.New("no cgroup file system is mounted")
	}
	for _, hierarchy := range hierarchies {
		if err := delegate(hierarchy); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(hierarchy, layout.CgroupName), 0o755); err != nil {
			return fmt.Errorf("creating cgroup: %w", err)
		}
	}
	return nil
}

// Processes returns the processes in the group and below.
func Processes() ([]process.Identity, error) {
	groups, err := Groups()
	if err != nil {
		return nil, err
	}
	var processes []process.Identity
	for _, group := range groups {
		content, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if err != nil {
			continue // the group was just removed
		}
		for _, field := range strings.Fields(string(content)) {
			pid, err := strconv.Atoi(field)
			if err != nil || pid == 0 { // 0: of another PID namespace
				continue
			}
			if identity, err := process.Identify(pid); err == nil && !slices.Contains(processes, identity) {
				processes = append(processes, identity)
			}
		}
	}
	return processes, nil
}

// Groups returns the folders of the group and of those below, children first.
func Groups() ([]string, error) {
	hierarchies, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, hierarchy := range hierarchies {
		err := filepath.WalkDir(filepath.Join(hierarchy, layout.CgroupName), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("listing cgroups: %w", err)
		}
	}
	slices.Reverse(groups)
	return groups, nil
}

// Remove removes the group from every hierarchy. Its processes must be dead; the kernel takes a moment to release them.
func Remove(ctx context.Context) error {
	var failed error
	err := poll.Until(ctx, func() (bool, error) {
		groups, err := Groups()
		if err != nil {
			return false, err
		}
		for _, group := range groups {
			if err := syscall.Rmdir(group); err != nil && !errors.Is(err, syscall.ENOENT) {
				failed = fmt.Errorf("%s: %w", group, err)
			}
		}
		return len(groups) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("removing cgroups: %w", errors.Join(err, failed))
	}
	return nil
}

// hierarchies returns the mount points of the cgroup file systems.
func hierarchies() ([]string, error) {
	mounts, err := procfs.GetMounts()
	if err != nil {
		return nil, fmt.Errorf("finding cgroups: %w", err)
	}
	var points []string
	for _, mount := range mounts {
		if mount.FSType == "cgroup" || mount.FSType == "cgroup2" {
			points = append(points, mount.MountPoint)
		}
	}
	return points, nil
}

// delegate lets children of the root of a version 2 hierarchy use all controllers; version 1 has no such switch.
func delegate(hierarchy string) error {
	controllers, err := os.ReadFile(filepath.Join(hierarchy, "cgroup.controllers"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading cgroup controllers: %w", err)
	}
	for _, controller := range strings.Fields(string(controllers)) {
		path := filepath.Join(hierarchy, "cgroup.subtree_control")
		if err := os.WriteFile(path, []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("enabling cgroup controller %s: %w", controller, err)
		}
	}
	return nil
}
