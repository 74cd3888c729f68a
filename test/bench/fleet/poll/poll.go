// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package poll waits for what the benchmark measures.
package poll

import (
	"context"
	"time"
)

// Until calls ask until it returns true, and at once for the first time. When the context ends, it returns the cause.
func Until(ctx context.Context, every time.Duration, ask func() (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if yes, err := ask(); err != nil || yes {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
