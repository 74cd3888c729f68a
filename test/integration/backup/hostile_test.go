// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	. "github.com/onsi/gomega"
)

// A malicious database with a valid checksum is refused by a restore and by a compaction.
func TestHostileDatabases(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 500)
	plain := folder(t)
	o := options()
	o.Compression = backup.None
	full := run(t, e, plain, o).begin(g)
	path, _ := plain.File(full)
	good, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	const pageSize, branch = 4096, 0x01
	put64 := binary.LittleEndian.PutUint64
	each := func(change func(page []byte, id uint64)) func([]byte) {
		return func(d []byte) {
			for at := 2 * pageSize; at+pageSize <= len(d); at += pageSize {
				change(d[at:at+pageSize], uint64(at/pageSize))
			}
		}
	}
	for name, change := range map[string]func([]byte){
		"no database":   func(d []byte) { clear(d) },
		"invalid pages": each(func(p []byte, _ uint64) { clear(p[16:]); p[10], p[11] = 0xFF, 0xFF }),
		"pages that point to themselves": each(func(p []byte, id uint64) {
			put64(p, id)
			binary.LittleEndian.PutUint16(p[8:], branch)
			binary.LittleEndian.PutUint16(p[10:], 1)
			binary.LittleEndian.PutUint32(p[12:], 0)
			binary.LittleEndian.PutUint32(p[16:], 16)
			binary.LittleEndian.PutUint32(p[20:], 0)
			put64(p[24:], id)
		}),
		"endless overflow pages": each(func(p []byte, _ uint64) { binary.LittleEndian.PutUint32(p[12:], 1<<31) }),
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), folder(t)
			database := append([]byte(nil), good[:len(good)-32]...)
			change(database)
			file := filepath.Join(t.TempDir(), "db")
			g.Expect(os.WriteFile(file, database, 0o600)).To(Succeed())
			for _, compression := range []backup.Compression{backup.None, backup.Gzip} {
				hostile := full
				hostile.Compression = compression
				_, err := s.WriteDatabase(t.Context(), file, hostile)
				g.Expect(err).NotTo(HaveOccurred())
				var corrupt *backup.CorruptError
				_, err = restoreTo(t, s, filepath.Join(t.TempDir(), "new.etcd"))
				g.Expect(errors.As(err, &corrupt)).To(BeTrue(), "%v", err)
				_, err = restore.Compact(t.Context(), restore.CompactConfig{Store: s, WorkDir: t.TempDir(), Compression: backup.None, Log: logOf(t)})
				g.Expect(errors.As(err, &corrupt)).To(BeTrue(), "%v", err)
				g.Expect(s.Delete(t.Context(), hostile)).To(Succeed())
			}
		})
	}
}
