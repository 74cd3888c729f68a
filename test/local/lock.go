// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"time"
)

// lockName is a name in the kernel's table of abstract sockets: one for the
// whole machine, no file, and free again when its holder dies.
const lockName = "@etcd-foreman-local"

// lock waits until no other run of this program, of whatever checkout, boots or
// removes the cluster of this machine.
func (p program) lock(ctx context.Context) (unlock func(), err error) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for told := false; ; told = true {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", lockName)
		if err == nil {
			return func() { _ = listener.Close() }, nil
		}
		if !told {
			p.printer.Line("waiting for another up or down on this machine")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another up or down: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
