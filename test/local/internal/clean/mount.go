// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/command"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/poll"
	"github.com/prometheus/procfs"
)

// unmountAll unmounts everything in our folders, the innermost first: file systems of containers, network namespaces,
// volumes.
func unmountAll(ctx context.Context) error {
	var failed error
	err := poll.Until(ctx, func() (bool, error) {
		points, err := mounts()
		if err != nil || len(points) == 0 {
			return true, err
		}
		// Lazy, so that it succeeds even if a foreign process (a shell, a backup) is inside: the mount is gone for all
		// others. The next listing checks the result.
		failed = command.Run(ctx, "umount", append([]string{"--lazy", "--no-mtab"}, points...)...)
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("unmounting: %w", errors.Join(err, failed))
	}
	return nil
}

// mounts returns the mount points in our folders, the innermost first.
func mounts() ([]string, error) {
	all, err := procfs.GetMounts()
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	return mountsBelow(all, layout.StateDir, layout.RuntimeDir), nil
}

// mountsBelow returns the mount points in the given folders, in an order in which they can be unmounted: the reverse of
// that in which they were made.
func mountsBelow(mounts []*procfs.MountInfo, dirs ...string) []string {
	var points []string
	for _, mount := range slices.Backward(mounts) {
		for _, dir := range dirs {
			if mount.MountPoint == dir || strings.HasPrefix(mount.MountPoint, dir+"/") {
				points = append(points, mount.MountPoint)
			}
		}
	}
	return points
}
