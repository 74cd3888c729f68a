// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// However large the values are, a transaction holds no more of them than fits: its pages are in memory until the commit.
func TestATransactionIsBoundedInBytes(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "db")
	b, err := bolt.Open(path, 0o600, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.Update(func(tx *bolt.Tx) error {
		for _, bucket := range [][]byte{schema.Key.Name(), schema.Meta.Name()} {
			if _, err := tx.CreateBucket(bucket); err != nil {
				return err
			}
		}
		return nil
	})).To(Succeed())
	g.Expect(b.Close()).To(Succeed())
	db, err := openDatabase(path)
	g.Expect(err).NotTo(HaveOccurred())

	const size = 10 << 20
	most, commits, tx := int64(0), 0, db.tx
	for i := range int64(20) {
		kv := backup.KeyValue{Key: []byte("k"), Value: make([]byte, size), ModRevision: 2 + i, CreateRevision: 2, Version: 1 + i}
		g.Expect(db.apply(backup.Event{EtcdEvent: backup.EtcdEvent{Kv: kv}})).To(Succeed())
		most = max(most, db.pendingBytes)
		if db.tx != tx {
			tx = db.tx
			commits++
		}
	}
	g.Expect(commits).To(Equal(4), "each has six values")
	g.Expect(most).To(BeNumerically("<=", batchBytes))
	g.Expect(db.close()).To(Succeed())
	g.Expect(db.revision).To(BeEquivalentTo(21))
}
