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

// period is how often a condition is checked. A check is cheap, and what is waited for takes milliseconds.
const period = 20 * time.Millisecond

// Until checks a condition until it is true or fails, or the context ends; then it returns the cause of that. The first
// check is at once.
func Until(ctx context.Context, condition func() (bool, error)) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		if done, err := condition(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
