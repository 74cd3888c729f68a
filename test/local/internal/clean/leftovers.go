// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/cgroup"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/network"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
)

// verify returns an error that names everything that is left.
func verify(ctx context.Context, ours bool) error {
	left, err := leftovers(ctx, ours)
	if err != nil {
		return fmt.Errorf("verifying that nothing is left: %w", err)
	}
	if len(left) > 0 {
		slices.Sort(left)
		return fmt.Errorf("something is left:\n  %s", strings.Join(left, "\n  "))
	}
	return nil
}

// leftovers names everything of a local Kubernetes that is on the machine. Bridge and tables count only if they are
// known to be ours.
func leftovers(ctx context.Context, ours bool) ([]string, error) {
	var left []string
	add := func(kind string, names ...string) {
		for _, name := range names {
			left = append(left, kind+" "+name)
		}
	}
	processes, err := remaining()
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		add("process", process.Describe(p))
	}
	points, err := mounts()
	if err != nil {
		return nil, err
	}
	add("mount", points...)
	groups, err := cgroup.Groups()
	if err != nil {
		return nil, err
	}
	add("cgroup", groups...)
	if ours {
		left = append(left, network.Leftovers(ctx)...)
	}
	for _, dir := range []string{layout.StateDir, layout.RuntimeDir} {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			add("folder", dir)
		}
	}
	return left, nil
}
