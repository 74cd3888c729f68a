// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Each revision since the first snapshot is a state that can be restored, with the writes up to there, also once an earlier restore has raised the
// revisions.
func TestStatesInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(1, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		b, d := &backups{world: w, of: w.judges[0]}, &members.Disk{}
		w.must(w.writer.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: b.of.name + leaseOf[backup.Full]}}))
		d.Restore("a", members.Peer{ID: 1}, []int{1, 2}, 0)
		write := func(writes ...int) {
			for _, n := range writes {
				d.Log = append(d.Log, members.Entry{Term: 1, Write: n})
			}
			d.Commit = d.Last()
			<-time.After(time.Second)
		}
		b.take(d, backup.Delta, false)
		if b.newest().Kind != backup.Full {
			t.Error("the first snapshot is not full")
		}
		if b.take(d, backup.Delta, false) != nil {
			t.Error("nothing has changed, and there is another snapshot")
		}
		write(3, 4)
		b.take(d, backup.Delta, false)
		for revision, want := range map[int64][]int{3: {1, 2}, 4: {1, 2, 3}, 5: {1, 2, 3, 4}} {
			if s, err := b.at(backup.Target{Revision: revision}); err != nil || !slices.Equal(s.writes, want) {
				t.Errorf("revision %d has %v (%v)", revision, s.writes, err)
			}
		}
		earlier, _ := b.at(backup.Target{Revision: 4})
		d.Restore("b", members.Peer{ID: 2}, earlier.writes, earlier.raised+100)
		write(5)
		b.take(d, backup.Delta, false)
		if s, err := b.at(backup.Target{Latest: true}); err != nil || s.revision != 105 || s.cluster != "b" || !slices.Equal(s.writes, []int{1, 2, 3, 5}) {
			t.Errorf("the newest state is at %d, of %s: %v (%v)", s.revision, s.cluster, s.writes, err)
		}
		if n := b.lacks([]int{4, 5}); n != 1 {
			t.Errorf("%d writes are not in the newest backup", n)
		}
		w.Close()
	})
}

// What was set aside stays on the volume, whatever comes after.
func TestKeptData(t *testing.T) {
	d := &members.Disk{}
	d.Restore("a", members.Peer{ID: 1}, []int{1}, 0)
	d.SetAside("before")
	d.SetAside("nothing")
	d.Bootstrap("b", 2, nil)
	if d.Kept["before"] == nil || d.Kept["before"].Cluster != "a" || len(d.Kept) != 1 || d.Cluster != "b" {
		t.Errorf("kept %v beside %s", d.Kept, d.Cluster)
	}
}
