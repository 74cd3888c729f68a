// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// contentOf returns the keys and values of every bucket.
func contentOf(g *WithT, path string) map[string]string {
	all := map[string]string{}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			all[string(name)] = ""
			return b.ForEach(func(k, v []byte) error { all[fmt.Sprintf("%s %x", name, k)] = string(v); return nil })
		})
	})).To(Succeed())
	g.Expect(db.Close()).To(Succeed())
	return all
}

// A data directory has what etcdutl makes of the same snapshot, whatever members and position the snapshot has.
func TestFoundIsWhatEtcdutlDoes(t *testing.T) {
	for name, change := range map[string]func(*bolt.Tx) error{
		"an empty database": func(*bolt.Tx) error { return nil },
		"an old one":        func(tx *bolt.Tx) error { return tx.DeleteBucket(schema.Cluster.Name()) },
		"one of a member": func(tx *bolt.Tx) error {
			put := func(bucket, key []byte, value string) error { return tx.Bucket(bucket).Put(key, []byte(value)) }
			for _, err := range []error{
				put(schema.Members.Name(), []byte("00000000000000aa"), `{"id":170,"name":"old"}`),
				put(schema.MembersRemoved.Name(), []byte("00000000000000bb"), "removed"),
				put(schema.Meta.Name(), schema.MetaConsistentIndexKeyName, "\x00\x00\x00\x00\x00\x00\x10\x00"),
				put(schema.Meta.Name(), schema.MetaTermKeyName, "\x00\x00\x00\x00\x00\x00\x00\x07"),
				put(schema.Meta.Name(), schema.MetaConfStateName, `{"voters":[170]}`),
				put(schema.Cluster.Name(), schema.ClusterClusterVersionKeyName, "3.6.0"),
			} {
				if err != nil {
					return err
				}
			}
			keys, err := tx.CreateBucketIfNotExists(schema.Key.Name())
			if err != nil {
				return err
			}
			return keys.Put([]byte("\x00\x00\x00\x00\x00\x00\x00\x02_\x00\x00\x00\x00\x00\x00\x00\x00"), []byte("v"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, dir := NewWithT(t), t.TempDir()
			file := filepath.Join(dir, "snapshot.db")
			g.Expect(makeDatabase(file)).To(Succeed())
			db, err := bolt.Open(file, 0o600, nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(db.Update(change)).To(Succeed())
			g.Expect(db.Close()).To(Succeed())
			config := snapshot.RestoreConfig{
				SnapshotPath: file, SkipHashCheck: true, OutputDataDir: filepath.Join(dir, "copied"),
				Name: "m", PeerURLs: []string{"http://127.0.0.1:2380"}, InitialCluster: "m=http://127.0.0.1:2380", InitialClusterToken: "token",
			}
			g.Expect(snapshot.NewV3(quiet).Restore(config)).To(Succeed())
			config.OutputDataDir = filepath.Join(dir, "moved")
			g.Expect(Found(file, config)).To(Succeed())
			g.Expect(file).NotTo(BeAnExistingFile())
			g.Expect(os.ReadDir(dir)).To(HaveLen(2), "nothing else is left")
			content := func(made string) map[string]string {
				return contentOf(g, filepath.Join(dir, made, "member", "snap", "db"))
			}
			g.Expect(content("moved")).To(Equal(content("copied")))
			files := func(made string) (names []string) {
				g.Expect(filepath.WalkDir(filepath.Join(dir, made), func(path string, d os.DirEntry, err error) error {
					name, _ := filepath.Rel(filepath.Join(dir, made), path)
					if info, failed := d.Info(); failed == nil {
						name += " " + info.Mode().String()
					}
					names = append(names, name)
					return err
				})).To(Succeed())
				return names
			}
			g.Expect(files("moved")).To(Equal(files("copied")))
		})
	}
}

// A database over which the code panics is closed nevertheless: the next attempt opens it again.
func TestAPanicLeavesNoDatabaseOpen(t *testing.T) {
	g := NewWithT(t)
	made, path := filepath.Join(t.TempDir(), "made"), filepath.Join(t.TempDir(), "db")
	g.Expect(makeDatabase(path)).To(Succeed())
	open := func(path string) *bolt.DB {
		db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout})
		g.Expect(err).NotTo(HaveOccurred(), path)
		return db
	}
	g.Expect(open(made).Close()).To(Succeed(), "without a bucket")
	g.Expect(func() { _ = takeOverFrom(made, path) }).To(Panic())
	for _, path := range []string{made, path} {
		g.Expect(open(path).Close()).To(Succeed())
	}
}
