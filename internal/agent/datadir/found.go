// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// Found makes the data directory of a new cluster as "etcdutl snapshot restore" does, but moves the database of the snapshot instead of
// copying it. The database is a file on the same volume, without a checksum at its end. etcdutl is run on an empty database, and what it
// writes there, the members and the position in the log, is taken over.
func Found(database string, config snapshot.RestoreConfig) error {
	config.SnapshotPath, config.SkipHashCheck = database+".empty", true
	if err := makeDatabase(config.SnapshotPath); err != nil {
		return err
	}
	if err := errors.Join(snapshot.NewV3(quiet).Restore(config), os.Remove(config.SnapshotPath)); err != nil {
		return err
	}
	path := filepath.Join(config.OutputDataDir, "member", "snap", "db")
	made := path + ".made"
	if err := errors.Join(os.Rename(path, made), os.Rename(database, path), os.Chmod(path, 0o600)); err != nil {
		return fmt.Errorf("moving the database: %w", err)
	}
	return errors.Join(takeOverFrom(made, path), os.Remove(made))
}

// takeOverFrom replaces the members of a database, and its position in the log, with those of another one.
func takeOverFrom(made, path string) (err error) {
	from, err := bolt.Open(made, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err != nil {
		return fmt.Errorf("opening what was made: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	return from.View(func(from *bolt.Tx) error { return takeOver(path, from) })
}

// takeOver replaces the members of a database, and its position in the log.
func takeOver(path string, from *bolt.Tx) (err error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout})
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{schema.Members.Name(), schema.MembersRemoved.Name()} {
			if err := replace(tx, name, from.Bucket(name)); err != nil {
				return fmt.Errorf("replacing the members: %w", err)
			}
		}
		_, err := tx.CreateBucketIfNotExists(schema.Cluster.Name())
		if err != nil {
			return err
		}
		meta, err := tx.CreateBucketIfNotExists(schema.Meta.Name())
		if err != nil {
			return err
		}
		for _, key := range [][]byte{schema.MetaConsistentIndexKeyName, schema.MetaTermKeyName} {
			if err := meta.Put(key, from.Bucket(schema.Meta.Name()).Get(key)); err != nil {
				return fmt.Errorf("replacing the position in the log: %w", err)
			}
		}
		return nil
	})
}

// replace makes a bucket what another one is.
func replace(tx *bolt.Tx, name []byte, with *bolt.Bucket) error {
	if tx.Bucket(name) != nil {
		if err := tx.DeleteBucket(name); err != nil {
			return err
		}
	}
	bucket, err := tx.CreateBucket(name)
	if err != nil {
		return err
	}
	return with.ForEach(bucket.Put)
}
