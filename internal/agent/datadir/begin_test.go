// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// A cluster that takes something back begins above the revision at which one has begun, of which clients may have seen more, and none begins below it.
// Whatever is recorded, no revision overflows.
func TestBeginsAt(t *testing.T) {
	for name, c := range map[string]struct{ revision, bump, began, want int64 }{
		"none has begun":                          {33, Margin, 0, 33 + Margin},
		"nor is it raised":                        {33, 0, 0, 33},
		"once more, from the same snapshot":       {33, Margin, 33 + Margin, 33 + 2*Margin},
		"from an older one":                       {20, Margin, 33 + Margin, 33 + 2*Margin},
		"from one that was found late":            {60, Margin, 33 + Margin, 33 + 2*Margin},
		"after a snapshot of the new one":         {33 + Margin + 7, Margin, 33 + Margin, 40 + 2*Margin},
		"wakes up, the first time":                {50, 0, 33, 50},
		"wakes up again, and nothing was written": {50, 0, 50, 50},
		"wakes up from what was before":           {50, 0, 33 + Margin, 33 + 2*Margin},
		"a chosen state, which knows of it":       {40, Margin + 60, 33, 100 + Margin},
		"a chosen state, which was restored":      {40, Margin + 60, 100 + Margin, 100 + 2*Margin},
		"the highest that is believed":            {33, 0, backup.MaxBegan, backup.MaxBegan + Margin},
	} {
		g := NewWithT(t)
		got := BeginsAt(c.revision, c.bump, c.began)
		g.Expect(got).To(Equal(c.want), name)
		g.Expect(got).To(BeNumerically(">=", c.began), name)
		g.Expect(got).To(BeNumerically(">=", c.revision+c.bump), name)
	}
}

// A database is raised once that is recorded, by what was recorded. If it may not be, nothing is changed.
func TestBegin(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "db")
	db, err := bolt.Open(path, 0o600, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(db.Update(func(tx *bolt.Tx) error {
		_, keys := tx.CreateBucket(schema.Key.Name())
		_, meta := tx.CreateBucket(schema.Meta.Name())
		return errors.Join(keys, meta)
	})).To(Succeed())
	g.Expect(db.Close()).To(Succeed())
	revision := func() (is int64) {
		g.Expect(view(path, func(tx *bolt.Tx) error { is = revisionOf(tx); return nil })).To(Succeed())
		return is
	}
	began := int64(0)
	record := func(_ context.Context, at func(int64) int64) (int64, error) {
		g.Expect(revision()).To(BeEquivalentTo(1), "it is raised before that is recorded")
		began = max(began, at(began))
		return began, nil
	}
	_, err = Begin(t.Context(), path, 1, 41, func(context.Context, func(int64) int64) (int64, error) { return 0, errors.New("away") })
	g.Expect(err).To(MatchError(And(ContainSubstring("recording at which revision the cluster begins"), HaveSuffix("away"))))
	for _, wrong := range []int64{-1, math.MaxInt64} {
		_, err = Begin(t.Context(), path, 1, wrong, record)
		g.Expect(err).To(MatchError(ContainSubstring("cannot be added to revision 1")))
	}
	g.Expect([]int64{revision(), began}).To(Equal([]int64{1, 0}))
	began = 42
	g.Expect(Begin(t.Context(), path, 1, 41, record)).To(BeEquivalentTo(41 + Margin))
	g.Expect([]int64{revision(), began}).To(Equal([]int64{42 + Margin, 42 + Margin}))
	g.Expect(Begin(t.Context(), path, 42+Margin, 8, nil)).To(BeEquivalentTo(8), "without a place for it")
	g.Expect(revision()).To(BeEquivalentTo(50 + Margin))
}
