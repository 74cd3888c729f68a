// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/go-logr/logr/funcr"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// A cluster that takes something back begins above the revision at which one has begun, of which clients may have seen more, and none begins below it.
// Whatever is recorded, no revision overflows.
func TestBeginsAt(t *testing.T) {
	for name, c := range map[string]struct {
		revision, bump, began, want int64
		again                       bool
	}{
		"none has begun":                          {33, Margin, 0, 33 + Margin, false},
		"nor is it raised":                        {33, 0, 0, 33, false},
		"once more, from the same snapshot":       {33, Margin, 33 + Margin, 33 + 2*Margin, false},
		"from an older one":                       {20, Margin, 33 + Margin, 33 + 2*Margin, false},
		"from one that was found late":            {60, Margin, 33 + Margin, 33 + 2*Margin, false},
		"after a snapshot of the new one":         {33 + Margin + 7, Margin, 33 + Margin, 40 + 2*Margin, false},
		"wakes up, the first time":                {50, 0, 33, 50, false},
		"wakes up again, and nothing was written": {50, 0, 50, 50, false},
		"wakes up from what was before":           {50, 0, 33 + Margin, 33 + 2*Margin, false},
		"a chosen state, which knows of it":       {40, Margin + 60, 33, 100 + Margin, false},
		"a chosen state, which was restored":      {40, Margin + 60, 100 + Margin, 100 + 2*Margin, false},
		"the highest that is believed":            {33, 0, backup.MaxBegan, backup.MaxBegan + Margin, false},
		"wakes up, and begins again":              {50, 0, 50, 50 + Margin, true},
		"again, from a snapshot since":            {57, 0, 50, 50 + Margin, true},
		"again, and someone has removed where":    {57, 0, 0, 57, true},
		"and once more":                           {50, 0, 50 + Margin, 50 + 2*Margin, true},
		"restored, and begins again":              {33, Margin, 33 + Margin, 33 + 2*Margin, true},
	} {
		g := NewWithT(t)
		got := BeginsAt(c.revision, c.bump, c.began, c.again)
		g.Expect(got).To(Equal(c.want), name)
		g.Expect(got).To(BeNumerically(">=", c.began), name)
		g.Expect(got).To(BeNumerically(">=", c.revision+c.bump), name)
	}
}

// emptyDatabase returns the path of a database at revision 1, and what returns its revision.
func emptyDatabase(t *testing.T) (path string, revision func() int64) {
	g := NewWithT(t)
	path = filepath.Join(t.TempDir(), "db")
	db, err := bolt.Open(path, 0o600, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(db.Update(func(tx *bolt.Tx) error {
		_, keys := tx.CreateBucket(schema.Key.Name())
		_, meta := tx.CreateBucket(schema.Meta.Name())
		return errors.Join(keys, meta)
	})).To(Succeed())
	g.Expect(db.Close()).To(Succeed())
	return path, func() (is int64) {
		g.Expect(view(path, func(tx *bolt.Tx) error { is = revisionOf(tx); return nil })).To(Succeed())
		return is
	}
}

// A database is raised once that is recorded, by what was recorded. If it may not be, nothing is changed.
func TestBegin(t *testing.T) {
	g := NewWithT(t)
	path, revision := emptyDatabase(t)
	began := int64(0)
	start := Start{Token: "token", Log: testr.New(t), Begins: func(_ context.Context, token string, at func(int64, bool) int64) (int64, error) {
		g.Expect(token).To(Equal("token"))
		g.Expect(revision()).To(BeEquivalentTo(1), "it is raised before that is recorded")
		began = max(began, at(began, false))
		return began, nil
	}}
	for _, wrong := range []int64{-1, math.MaxInt64} {
		_, err := start.Begin(t.Context(), path, 1, wrong)
		g.Expect(err).To(MatchError(ContainSubstring("cannot be added to revision 1")))
	}
	g.Expect([]int64{revision(), began}).To(Equal([]int64{1, 0}))
	began = 42
	g.Expect(start.Begin(t.Context(), path, 1, 41)).To(BeEquivalentTo(41 + Margin))
	g.Expect([]int64{revision(), began}).To(Equal([]int64{42 + Margin, 42 + Margin}))
	g.Expect(Start{}.Begin(t.Context(), path, 42+Margin, 8)).To(BeEquivalentTo(8), "without a place for it")
	g.Expect(revision()).To(BeEquivalentTo(50 + Margin))
}

// What took long to make waits for an API server that does not answer for a while, and the log says for what. It gives up in the end, so that the
// status of the Etcd says so, and at once if the agent ends.
func TestDataWaitsForItsRecord(t *testing.T) {
	path, revision := emptyDatabase(t)
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		began, away, logged := time.Now(), 10*time.Minute, ""
		start := Start{Token: "token", Log: funcr.New(func(_, args string) { logged += args }, funcr.Options{}), Begins: func(_ context.Context, _ string, at func(int64, bool) int64) (int64, error) {
			if time.Since(began) < away {
				return 0, errors.New("away")
			}
			return at(0, false), nil
		}}
		says := And(ContainSubstring("recording at which revision the cluster begins"), HaveSuffix("away"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := start.Begin(ctx, path, 1, 41)
		g.Expect(err).To(MatchError(says))
		g.Expect(time.Since(began)).To(BeZero(), "the agent ends")

		g.Expect(start.Begin(t.Context(), path, 1, 41)).To(BeEquivalentTo(41))
		g.Expect(time.Since(began)).To(BeNumerically("~", away, lastRetry))
		g.Expect(logged).To(And(ContainSubstring("it starts once the Lease of full snapshots records at which revision"), ContainSubstring("away")))
		g.Expect(strings.Count(logged, "retryIn")).To(BeNumerically("<", 30))

		began, away = time.Now(), 24*time.Hour
		_, err = start.Begin(t.Context(), path, 42, 1)
		g.Expect(err).To(MatchError(says))
		g.Expect(time.Since(began)).To(BeNumerically("~", recordPatience, lastRetry))
	})
	NewWithT(t).Expect(revision()).To(BeEquivalentTo(42))
}
