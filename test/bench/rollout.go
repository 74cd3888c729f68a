// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/measure"
	"github.com/etcd-foreman/etcd-foreman/test/measure/stage"
)

// rollout is a measured rollout.
type rollout struct {
	scenario scenario
	pair     int
	way      way
	leader   int // ordinal of the leader at the start
	figures  measure.Figures
	// restarts is how often etcd was restarted, in its pod or with a new one.
	restarts int
	// reaction is the time from the change of the template until the first pod was deleted.
	reaction time.Duration
	// overheads are the times from a pod being ready until the next was deleted; handovers are those with a move of
	// leadership in between.
	overheads, handovers []time.Duration
	// requests of the operator; nil for a peer.
	requests requests
}

// took returns the time from the template change until the last pod was ready.
func (r rollout) took() time.Duration { return r.figures.Until.Sub(r.figures.From) }

// String returns the rollout in one line.
func (r rollout) String() string {
	s := fmt.Sprintf("rolled in %5.1f s, %5.2f s without writes, longest gap %5.2f s, %d leader changes, %d restarts",
		r.took().Seconds(), r.figures.WithoutWrites.Seconds(), r.figures.LongestGap.Seconds(), r.figures.LeaderChanges, r.restarts)
	if r.way.managed {
		s += fmt.Sprintf(", %d requests", r.requests.total())
	}
	return s
}

// roll brings a cluster to the initial state, rolls it in one way, and measures the rollout.
func (b *bench) roll(ctx context.Context, clusters clusters, s scenario, pair int, w way, note stage.Note) (rollout, error) {
	c := clusters.peer
	if w.managed {
		c = clusters.ours
	}
	r := rollout{scenario: s, pair: pair, way: w, leader: s.leader(pair)}
	if err := w.prepare(ctx, c, note); err != nil {
		return r, err
	}
	if _, err := c.WaitHealthy(ctx, note); err != nil {
		return r, err
	}
	if err := c.MoveLeader(ctx, r.leader, note); err != nil {
		return r, err
	}
	writer, err := measure.Start(ctx, measure.Options{Config: b.stage.Config, Namespace: c.Namespace, StatefulSet: c.Name})
	if err != nil {
		return r, err
	}
	defer writer.Stop()
	if s.frozen {
		thaw, err := c.Freeze(ctx, 0, note)
		defer thaw() //nolint:errcheck // repeated for all members when the clusters are removed
		if err != nil {
			return r, err
		}
	}
	number := b.nextNumber()
	image, err := s.edit.prepare(ctx, clusters, number)
	if err != nil {
		return r, err
	}
	before, err := c.Runs(ctx)
	if err != nil {
		return r, err
	}
	change := func() (stage.Change, error) { return w.change(ctx, c, s.edit, number, image) }
	if err := b.measureRollout(ctx, c, writer, &r, change, note); err != nil {
		return r, err
	}
	after, err := c.Runs(ctx)
	r.restarts = before.RestartsUntil(after)
	return r, err
}

// measureRollout changes the template and waits until every pod follows it.
func (b *bench) measureRollout(ctx context.Context, c stage.Cluster, writer *measure.Writer, r *rollout, edit func() (stage.Change, error), note stage.Note) error {
	audit, err := b.openAudit(c.Namespace)
	if err != nil {
		return err
	}
	change, err := edit()
	if err != nil {
		return err
	}
	if err := r.way.replace(ctx, c, change, note); err != nil {
		return err
	}
	if _, err := c.WaitHealthy(ctx, note); err != nil {
		return err
	}
	if r.way.managed {
		// The operator's last writes belong to the rollout, too.
		if r.requests, err = audit.untilQuiet(ctx); err != nil {
			return err
		}
	}
	report := writer.Stop()
	settled, ok := report.Settled(change.Revision)
	if !ok {
		return errors.New("ending the rollout: the API server's watch does not show every pod ready at the new revision")
	}
	r.figures = report.Between(change.At, settled)
	r.count(report.Replacements(change.At, settled))
	note("reading every acknowledged write back")
	return errors.Join(writer.Verify(ctx), writer.Clean(ctx))
}

// count adds the overhead of each replacement.
func (r *rollout) count(replacements []measure.Replacement) {
	for i, p := range replacements {
		switch {
		case i == 0:
			r.reaction = p.Deleted.Sub(r.figures.From)
		case p.Overhead > 0 && p.Led && r.way.managed:
			r.handovers = append(r.handovers, p.Overhead)
		case p.Overhead > 0:
			r.overheads = append(r.overheads, p.Overhead)
		}
	}
}
