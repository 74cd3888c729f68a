// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package lock makes runs of this program wait for each other. The kernel releases a lock when its holder dies.
package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/poll"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// machineName is a name in the kernel's table of abstract sockets: one for the whole machine, and no file.
const machineName = "@etcd-foreman-local"

// Machine waits until no other run, of any checkout, boots or removes the cluster of this machine.
func Machine(ctx context.Context, c *console.Console) (io.Closer, error) {
	return wait(ctx, c, "up or down on this machine", syscall.EADDRINUSE, func() (io.Closer, error) {
		return (&net.ListenConfig{}).Listen(ctx, "unix", machineName)
	})
}

// File waits until no other run holds the lock of a file, and creates the file if needed.
func File(ctx context.Context, c *console.Console, path, what string) (io.Closer, error) {
	return wait(ctx, c, what, fileutil.ErrLocked, func() (io.Closer, error) {
		return fileutil.TryLockFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	})
}

// wait tries until it gets a lock; taken is the error while another run has it.
func wait(ctx context.Context, c *console.Console, what string, taken error, try func() (io.Closer, error)) (held io.Closer, err error) {
	said := false
	err = poll.Until(ctx, func() (bool, error) {
		var err error
		if held, err = try(); !errors.Is(err, taken) {
			return err == nil, err
		}
		if !said {
			said = true
			c.Line("waiting for another %s", what)
		}
		return false, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for another %s: %w", what, err)
	}
	return held, nil
}
