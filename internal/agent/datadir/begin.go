// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/go-logr/logr"
)

// Recorder records outside of the volumes at which revision the cluster of a token begins, before it can. at returns that revision for the highest
// one that is recorded, 0 for none, and for whether the last cluster that was recorded has the same token: then it begins again. What is recorded is
// never lowered. It returns what at has returned last, and an error if it may not be recorded. Nil records nothing, where there is no place for it.
type Recorder func(ctx context.Context, token string, at func(began int64, again bool) int64) (int64, error)

// Check returns an error if nothing can be recorded for now, so that what takes long is not done for nothing.
func (r Recorder) Check(ctx context.Context) error {
	_, err := r.record(ctx, "", func(began int64, _ bool) int64 { return began })
	return err
}

func (r Recorder) record(ctx context.Context, token string, at func(began int64, again bool) int64) (int64, error) {
	if r == nil {
		return at(0, false), nil
	}
	revision, err := r(ctx, token, at)
	if err != nil {
		return 0, fmt.Errorf("recording at which revision the cluster begins, above which a later restore has to begin: %w", err)
	}
	return revision, nil
}

// BeginsAt returns the revision at which a cluster begins whose data is at a revision, with a bump added: above all at which one has begun, of
// which clients may have seen as many revisions as Margin. One that takes nothing back, as it wakes up, goes on where it ended, unless it begins
// again: clients may have seen what it wrote the first time. It is pure.
func BeginsAt(revision, bump, began int64, again bool) int64 {
	if began == 0 || bump == 0 && revision >= began && !again {
		return revision + bump
	}
	return max(revision+bump, began+Margin)
}

// Start is how a new cluster begins.
type Start struct {
	// Token of the cluster. Begins records at which revision it begins.
	Token  string
	Begins Recorder
	Log    logr.Logger
}

// Begin raises the revision of a database that no etcd uses by a bump, or by more if a cluster may have begun above, records that, and
// returns by how much. Nothing is changed unless that is recorded: a cluster that loses its volumes before its first snapshot leaves no other trace.
func (s Start) Begin(ctx context.Context, path string, revision, bump int64) (int64, error) {
	if bump < 0 || revision > math.MaxInt64-bump {
		return 0, fmt.Errorf("%d cannot be added to revision %d", bump, revision)
	}
	begins, err := s.record(ctx, func(began int64, again bool) int64 { return BeginsAt(revision, bump, began, again) })
	if err != nil {
		return 0, err
	}
	return begins - revision, Renew(path, begins-revision)
}

// How long to retry the record, and after which time first and at most. What waits for it may have taken hours to make, and why it waits is in the
// status of the Etcd only once it has given up.
const (
	recordPatience = 30 * time.Minute
	firstRetry     = time.Second
	lastRetry      = 30 * time.Second
)

// record retries, since the data has to be made again if it gives up.
func (s Start) record(ctx context.Context, at func(began int64, again bool) int64) (int64, error) {
	patience := time.After(recordPatience)
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		revision, err := s.Begins.record(ctx, s.Token, at)
		if err == nil {
			return revision, nil
		}
		s.Log.Info("The data of the cluster is complete; it starts once the Lease of full snapshots records at which revision", "retryIn", wait.String(), "reason", err.Error())
		select {
		case <-ctx.Done():
			return 0, err
		case <-patience:
			return 0, err
		case <-time.After(wait):
		}
	}
}
