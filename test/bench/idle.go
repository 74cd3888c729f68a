// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/measure"
)

// idleTime is how long an idle operator, or an idle cluster, is watched.
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
		if err := wait(ctx, idleTime); err != nil {
			return "", err
		}
		if b.results.idle, err = audit.read(); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d requests in %s, %d of them writes", b.results.idle.total(), idleTime, b.results.idle.writes().total()), nil
	})
}

// measureIdleGap measures the longest gap between writes while nothing changes.
func (b *bench) measureIdleGap(ctx context.Context, c clusters) error {
	return b.console.Step("idle minute", func(note func(string)) (string, error) {
		if _, err := c.ours.WaitHealthy(ctx, note); err != nil {
			return "", err
		}
		writer, err := measure.Start(ctx, measure.Options{Config: b.stage.Config, Namespace: c.namespace, StatefulSet: c.ours.Name})
		if err != nil {
			return "", err
		}
		defer writer.Stop()
		note(fmt.Sprintf("writing for %s", idleTime))
		from := time.Now()
		if err := wait(ctx, idleTime); err != nil {
			return "", err
		}
		longest := writer.Stop().Between(from, time.Now()).LongestGap
		b.results.idleGaps = append(b.results.idleGaps, longest)
		return fmt.Sprintf("longest gap %.2f s", longest.Seconds()), writer.Clean(ctx)
	})
}

// wait waits, or until the context ends.
func wait(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(length):
		return nil
	}
}
