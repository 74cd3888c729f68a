// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// maxAlarms is how many alarms a preview lists.
const maxAlarms = 5

// describe adds to a preview what a database has besides its keys, and returns these.
func describe(path string, p *backup.Preview) (*keySpace, error) {
	var keys *keySpace
	err := look(path, func(tx *bolt.Tx) (err error) {
		p.Bytes = tx.Size()
		if auth := tx.Bucket(schema.Auth.Name()); auth != nil {
			p.Auth = bytes.Equal(auth.Get(schema.AuthEnabledKeyName), []byte{1})
		}
		if users := tx.Bucket(schema.AuthUsers.Name()); users != nil {
			p.Users = users.Stats().KeyN
		}
		if cluster := tx.Bucket(schema.Cluster.Name()); cluster != nil {
			p.Version = string(cluster.Get(schema.ClusterClusterVersionKeyName))
		}
		if p.Alarms, err = alarmsOf(tx); err != nil {
			return err
		}
		keys, err = readKeys(tx)
		return err
	})
	return keys, err
}

// revisions reads the revision of each change. Over a malformed one, etcd panics here, and not later, in a goroutine of its own that nothing
// recovers. There it also panics over one that a change and a deletion have.
func revisions(path string) error {
	return look(path, func(tx *bolt.Tx) error {
		var last mvcc.Revision
		return tx.Bucket(schema.Key.Name()).ForEach(func(k, _ []byte) error {
			revision := mvcc.BytesToRev(k)
			if !revision.GreaterThan(last) {
				return fmt.Errorf("%w: it has revision %d twice", errNotEtcd, revision.Main)
			}
			last = revision
			return nil
		})
	})
}

func look(path string, visit func(*bolt.Tx) error) (err error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(visit)
}

func alarmsOf(tx *bolt.Tx) (names []string, err error) {
	bucket := tx.Bucket(schema.Alarm.Name())
	if bucket == nil {
		return nil, nil
	}
	err = bucket.ForEach(func(k, _ []byte) error {
		alarm := &etcdserverpb.AlarmMember{}
		if err := proto.Unmarshal(k, alarm); err != nil {
			return fmt.Errorf("reading an alarm: %w", err)
		}
		if len(names) < maxAlarms {
			names = append(names, fmt.Sprintf("%s of member %x", alarm.GetAlarm(), alarm.GetMemberID()))
		}
		return nil
	})
	// Not one statement: whether the names are read before or after the call is not specified.
	return names, err
}

// readKeys reads the present keys: the last change of each counts.
func readKeys(tx *bolt.Tx) (*keySpace, error) {
	keys := newKeySpace()
	return keys, tx.Bucket(schema.Key.Name()).ForEach(func(k, v []byte) error {
		kv := &mvccpb.KeyValue{}
		if err := proto.Unmarshal(v, kv); err != nil {
			return fmt.Errorf("reading revision %d: %w", mvcc.BytesToRev(k).Main, err)
		}
		switch {
		case len(kv.Key) == 0: // a raised revision
		case mvcc.IsTombstone(k):
			keys.remove(kv.Key)
		default:
			keys.put(kv.Key, kv.Value)
		}
		return nil
	})
}
