// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lock waits until no other run of this program builds in this checkout. The kernel releases the lock also when its
// holder dies.
func (b *Builder) lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(b.stampDir(), "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of builds: %w", err)
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for told := false; ; told = true {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
		}
		if !told {
			b.Printer.Line("waiting for another build in this checkout")
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("waiting for another build: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
