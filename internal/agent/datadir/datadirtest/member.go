// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package datadirtest writes data directories for tests, as etcd leaves them.
package datadirtest

import (
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// Write writes the data directory of member 7 of cluster cafe, whose log has some requests, after two entries of another kind, with a
// commit index. Everything is only in the log. The first request is entry 3, of term 2.
func Write(t testing.TB, dir string, commit uint64, requests ...[]byte) {
	t.Helper()
	entries := []*raftpb.Entry{
		{Index: proto.Uint64(1), Term: proto.Uint64(1), Type: raftpb.EntryConfChange.Enum(), Data: Encode(&raftpb.ConfChange{})},
		{Index: proto.Uint64(2), Term: proto.Uint64(2)},
	}
	for i, r := range requests {
		entries = append(entries, &raftpb.Entry{Index: proto.Uint64(uint64(i) + 3), Term: proto.Uint64(2), Data: r})
	}
	write(t, dir, commit, entries)
}

// WriteChanges writes the data directory of member 7 of cluster cafe, whose log has nothing but some changes of its members, of term 2, with a
// commit index.
func WriteChanges(t testing.TB, dir string, commit uint64, changes ...*raftpb.ConfChange) {
	t.Helper()
	write(t, dir, commit, Changes(changes...))
}

// Changes returns the entries of a log that has nothing but some changes of members, of term 2.
func Changes(changes ...*raftpb.ConfChange) (entries []*raftpb.Entry) {
	for i, c := range changes {
		entries = append(entries, &raftpb.Entry{Index: proto.Uint64(uint64(i) + 1), Term: proto.Uint64(2), Type: raftpb.EntryConfChange.Enum(), Data: Encode(c)})
	}
	return entries
}

// Change returns a change of a member.
func Change(kind raftpb.ConfChangeType, id uint64) *raftpb.ConfChange {
	return &raftpb.ConfChange{Type: kind.Enum(), NodeId: &id}
}

func write(t testing.TB, dir string, commit uint64, entries []*raftpb.Entry) {
	t.Helper()
	segment := wal.SegmentSizeBytes
	wal.SegmentSizeBytes = 4096
	t.Cleanup(func() { wal.SegmentSizeBytes = segment })
	check(t, os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700))
	log, err := wal.Create(zap.NewNop(), filepath.Join(dir, "member", "wal"), Encode(&etcdserverpb.Metadata{NodeID: proto.Uint64(7), ClusterID: proto.Uint64(0xcafe)}))
	check(t, err)
	log.SetUnsafeNoFsync()
	check(t, log.Save(&raftpb.HardState{Term: proto.Uint64(2), Commit: proto.Uint64(commit)}, entries))
	check(t, log.Close())
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Put returns the request that writes a key.
func Put(key, value string, leaseID int64) []byte {
	return Encode(&etcdserverpb.InternalRaftRequest{
		Header: &etcdserverpb.RequestHeader{ID: 1},
		Put:    &etcdserverpb.PutRequest{Key: []byte(key), Value: []byte(value), Lease: leaseID},
	})
}

// Encode encodes a request, or the metadata of a log.
func Encode(m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return data
}
