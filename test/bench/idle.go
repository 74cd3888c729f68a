// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"
)

// idleTime is how long the idle operator is watched.
const idleTime = time.Minute

// measureIdle counts the operator's requests while its Etcd does not change.
func (b *bench) measureIdle(ctx context.Context, c clusters) error {
	return b.console.Step("idle", func(note func(string)) (string, error) {
		note("waiting until the operator is idle")
		before, err := b.openAudit(c.namespace)
		if err != nil {
			return "", err
		}
		if _, err := before.untilQuiet(ctx); err != nil {
			return "", err
		}
		audit, err := b.openAudit(c.namespace)
		if err != nil {
			return "", err
		}
		note(fmt.Sprintf("counting for %s", idleTime))
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(idleTime):
		}
		if b.results.idle, err = audit.read(); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d requests in %s, %d of them writes", b.results.idle.total(), idleTime, b.results.idle.writes().total()), nil
	})
}
