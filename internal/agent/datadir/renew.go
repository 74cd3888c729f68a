// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"math"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// Margin is added to the highest known revision where later ones may have been lost. etcd's documentation recommends it: it is a week of
// 1,500 writes per second.
const Margin = 1_000_000_000

// Renew prepares a database, which no etcd uses, for a cluster that goes back to an earlier state: it removes the alarms of members that are
// gone, adds to the revision, and marks everything before compacted. A client that resumes from a revision that it has seen gets
// ErrCompacted, and lists again. If revisions went back, it would wait silently for a revision that then means something else.
//
// As in "etcdutl snapshot restore --bump-revision --mark-compacted", the revision is that of a record without key and value, which no
// client can read, and a compaction is scheduled, which a starting etcd runs. It changes HashKV, so it comes after all comparisons. It is
// one transaction.
func Renew(path string, bump int64) (err error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout})
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.Update(func(tx *bolt.Tx) error {
		if err := removeAlarms(tx); err != nil || bump == 0 {
			return err
		}
		last := revisionOf(tx)
		if bump < 0 || last > math.MaxInt64-bump {
			return fmt.Errorf("%d cannot be added to revision %d", bump, last)
		}
		revision := mvcc.RevToBytes(mvcc.Revision{Main: last + bump}, mvcc.NewRevBytes())
		return errors.Join(
			tx.Bucket(schema.Key.Name()).Put(revision, []byte{}),
			tx.Bucket(schema.Meta.Name()).Put(schema.ScheduledCompactKeyName, revision))
	})
	if err != nil {
		return fmt.Errorf("raising the revision: %w", err)
	}
	return nil
}

func removeAlarms(tx *bolt.Tx) error {
	if tx.Bucket(schema.Alarm.Name()) == nil {
		return nil
	}
	if err := tx.DeleteBucket(schema.Alarm.Name()); err != nil {
		return err
	}
	_, err := tx.CreateBucket(schema.Alarm.Name())
	return err
}
