// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/poll"
)

// unmountAll unmounts everything in our folders, the innermost first: file
// systems of containers, network namespaces, volumes.
func unmountAll(ctx context.Context) error {
	var said []byte
	err := poll.Until(ctx, func() (bool, error) {
		points, err := mounts()
		if err != nil || len(points) == 0 {
			return true, err
		}
		// The flag makes this succeed also where a process of somebody else (a
		// shell, a backup) is inside; the mount is gone for all others.
		args := append([]string{"--lazy", "--no-mtab"}, points...)
		said, _ = exec.CommandContext(ctx, "umount", args...).CombinedOutput() // the next look tells
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("unmounting: %w: %s", err, said)
	}
	return nil
}

// mounts returns the mount points in our folders, the innermost first.
func mounts() ([]string, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	return mountsBelow(string(content), layout.StateDir, layout.RuntimeDir), nil
}

// mountsBelow returns the mount points in the given folders, in an order in
// which they can be unmounted: the reverse of that in which they were made.
func mountsBelow(mountInfo string, dirs ...string) []string {
	const pointField = 4
	var points []string
	for line := range strings.Lines(mountInfo) {
		fields := strings.Fields(line)
		if len(fields) <= pointField {
			continue
		}
		for _, dir := range dirs {
			if point := fields[pointField]; point == dir || strings.HasPrefix(point, dir+"/") {
				points = append(points, point)
			}
		}
	}
	slices.Reverse(points)
	return points
}
