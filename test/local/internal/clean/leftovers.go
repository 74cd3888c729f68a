// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/cgroup"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/network"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
)

// Leftovers names everything of a local Kubernetes that is on the machine.
// Bridge and tables are only looked for if they would be ours.
func Leftovers(ctx context.Context, ours bool) ([]string, error) {
	var left []string
	processes, err := remaining()
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		left = append(left, "process "+process.Describe(p))
	}
	points, err := mounts()
	if err != nil {
		return nil, err
	}
	for _, point := range points {
		left = append(left, "mount "+point)
	}
	groups, err := cgroup.Groups()
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		left = append(left, "cgroup "+group)
	}
	if ours {
		left = append(left, networkLeftovers(ctx)...)
	}
	for _, dir := range []string{layout.StateDir, layout.RuntimeDir} {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			left = append(left, "folder "+dir)
		}
	}
	return left, nil
}

func networkLeftovers(ctx context.Context) []string {
	var left []string
	if _, err := net.InterfaceByName(layout.Bridge); err == nil {
		left = append(left, "interface "+layout.Bridge)
	}
	for _, table := range network.Tables(ctx) {
		left = append(left, "nftables table "+table[0]+" "+table[1])
	}
	return left
}
