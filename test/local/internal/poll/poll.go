// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package poll waits for what cannot be watched: processes, mounts, cgroups. It
// imports the standard library only.
package poll

import (
	"context"
	"time"
)

// period is how often a condition is looked at. Looking is cheap, and what is
// waited for takes milliseconds.
const period = 20 * time.Millisecond

// Until looks at a condition until it holds or fails, or the context ends. The
// first look is at once.
func Until(ctx context.Context, condition func() (bool, error)) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		if holds, err := condition(); holds || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
