// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/prepare"
	"golang.org/x/sys/unix"
)

// limitedBackups restores backups within a limit of memory.
type limitedBackups struct{ prepare.StoredBackups }

// Restore limits the memory of this process while it restores.
func (b limitedBackups) Restore(ctx context.Context, shared member.Shared, id member.Identity) error {
	release, err := limitMemory()
	if err != nil {
		return err
	}
	return errors.Join(b.StoredBackups.Restore(ctx, shared, id), release())
}

// What a restore may use of memory. It streams, maps the database, and bounds its transactions, so it needs a few hundred MiB;
// only a list of free pages grows with the database.
const (
	// softMemory is from where on the garbage collector works harder.
	softMemory = 1 << 30
	// maxMemory is where the process ends, before its node has no memory left.
	maxMemory = 4 << 30
	// maxStack ends a recursion over hostile content early. Go's default is 1 GiB.
	maxStack = 64 << 20
)

// limitMemory limits the memory of this process until release is called. The init container of a member has no limit of its
// own: it would add to what a namespace's quota counts, could exceed what its LimitRange allows, and could not be changed in
// place together with the limit of etcd.
func limitMemory() (release func() error, err error) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &before); err != nil {
		return nil, fmt.Errorf("reading the limit of memory: %w", err)
	}
	limited := before
	limited.Cur = min(before.Cur, maxMemory)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limited); err != nil {
		return nil, fmt.Errorf("limiting memory: %w", err)
	}
	stack, soft := debug.SetMaxStack(maxStack), debug.SetMemoryLimit(math.MaxInt64)
	debug.SetMemoryLimit(min(soft, softMemory))
	return func() error {
		debug.SetMaxStack(stack)
		debug.SetMemoryLimit(soft)
		return unix.Setrlimit(unix.RLIMIT_DATA, &before)
	}, nil
}
