// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"math"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// A revision is raised as etcdutl does it, together with a scheduled compaction; alarms are gone also if it is not raised; and it never
// overflows.
func TestRenew(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "db")
	b := backend.NewDefaultBackend(quiet, path)
	schema.CreateMetaBucket(b.BatchTx())
	alarms := schema.NewAlarmBackend(quiet, b)
	alarms.CreateAlarmBucket()
	alarms.MustPutAlarm(&etcdserverpb.AlarmMember{MemberID: 7, Alarm: etcdserverpb.AlarmType_NOSPACE})
	tx := b.BatchTx()
	tx.LockOutsideApply()
	tx.UnsafeCreateBucket(schema.Key)
	tx.UnsafePut(schema.Key, mvcc.RevToBytes(mvcc.Revision{Main: 41, Sub: 3}, mvcc.NewRevBytes()), []byte{})
	tx.Unlock()
	g.Expect(b.Close()).To(Succeed())
	content := func() (revision int64, scheduled bool, alarms int) {
		g.Expect(view(path, func(tx *bolt.Tx) error {
			revision, scheduled = revisionOf(tx), tx.Bucket(schema.Meta.Name()).Get(schema.ScheduledCompactKeyName) != nil
			alarms = tx.Bucket(schema.Alarm.Name()).Stats().KeyN
			return nil
		})).To(Succeed())
		return revision, scheduled, alarms
	}
	expect := func(revision int64, scheduled bool, alarms int) {
		r, s, a := content()
		g.Expect([]any{r, s, a}).To(Equal([]any{revision, scheduled, alarms}))
	}
	expect(41, false, 1)
	for _, wrong := range []int64{-1, math.MaxInt64 - 40} {
		g.Expect(Renew(path, wrong)).To(MatchError(ContainSubstring("cannot be added to revision 41")))
	}
	expect(41, false, 1)
	g.Expect(Renew(path, 0)).To(Succeed())
	expect(41, false, 0)
	g.Expect(Renew(path, 59)).To(Succeed())
	expect(100, true, 0)
	g.Expect(Renew(path, 1)).To(Succeed())
	expect(101, true, 0)
}
