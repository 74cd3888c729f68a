// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"context"
	"fmt"
	"math"
)

// Recorder records outside of the volumes at which revision a cluster begins, before it can. at returns that revision for the highest one that is
// recorded, 0 for none; one that is not higher is not written. It returns what at has returned last, and an error if it may not be recorded.
// Nil records nothing, where there is no place for it.
type Recorder func(ctx context.Context, at func(began int64) int64) (int64, error)

// Check returns an error if nothing can be recorded for now, so that what takes long is not done for nothing.
func (r Recorder) Check(ctx context.Context) error {
	_, err := r.record(ctx, func(began int64) int64 { return began })
	return err
}

func (r Recorder) record(ctx context.Context, at func(began int64) int64) (int64, error) {
	if r == nil {
		return at(0), nil
	}
	revision, err := r(ctx, at)
	if err != nil {
		return 0, fmt.Errorf("recording at which revision the cluster begins, above which a later restore has to begin: %w", err)
	}
	return revision, nil
}

// BeginsAt returns the revision at which a cluster begins whose data is at a revision, with a bump added: above all at which one has begun, of
// which clients may have seen as many revisions as Margin. One that takes nothing back, as it wakes up, goes on where it ended. It is pure.
func BeginsAt(revision, bump, began int64) int64 {
	if began == 0 || bump == 0 && revision >= began {
		return revision + bump
	}
	return max(revision+bump, began+Margin)
}

// Begin raises the revision of a database that no etcd uses by a bump, or by more if a cluster may have begun above, records that, and
// returns by how much. Nothing is changed unless that is recorded: a cluster that loses its volumes before its first snapshot leaves no other trace.
func Begin(ctx context.Context, path string, revision, bump int64, r Recorder) (int64, error) {
	if bump < 0 || revision > math.MaxInt64-bump {
		return 0, fmt.Errorf("%d cannot be added to revision %d", bump, revision)
	}
	begins, err := r.record(ctx, func(began int64) int64 { return BeginsAt(revision, bump, began) })
	if err != nil {
		return 0, err
	}
	return begins - revision, Renew(path, begins-revision)
}
