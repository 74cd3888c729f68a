// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/auth"
	"go.etcd.io/etcd/server/v3/etcdserver/api"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3alarm"
	"go.etcd.io/etcd/server/v3/etcdserver/apply"
	"go.etcd.io/etcd/server/v3/etcdserver/cindex"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// quiet is a logger for etcd's code that logs nothing, and panics instead of ending the process.
var quiet = zap.NewNop().WithOptions(zap.WithFatalHook(zapcore.WriteThenPanic))

// replay applies the entries of a log that a database lacks to a copy of it.
func replay(ctx context.Context, log logr.Logger, source stopped, db string) (result RebuildResult, err error) {
	applier, err := newApplier(db)
	if err != nil {
		return RebuildResult{}, err
	}
	defer func() { err = errors.Join(err, applier.close()) }()
	from, last := source.database.applied.index, source.log.last()
	log.Info("Replaying the log", "after", from, "last", last.index, "term", last.term, "committed", source.log.commit)
	var at atomic.Uint64
	defer tell(log, "Replaying the log", func() []any { return []any{"at", at.Load(), "last", last.index} })()
	if from < last.index {
		err = source.log.entries(from, func(entry *raftpb.Entry) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			at.Store(entry.GetIndex())
			result.Replayed++
			if entry.GetIndex() > source.log.commit {
				result.Uncommitted++
			}
			return applier.apply(entry)
		})
	}
	if err != nil {
		return RebuildResult{}, fmt.Errorf("replaying the log: %w", err)
	}
	result.Revision = applier.kv.Rev()
	return result, nil
}

// applier applies entries to a database, with etcd's code but without a server: a server would elect itself, end leases, raise
// the cluster version to its own, which an older etcd refuses, and connect to the peers in the log.
type applier struct {
	backend backend.Backend
	lessor  lease.Lessor
	kv      mvcc.WatchableKV
	auth    auth.AuthStore
	etcd    apply.UberApplier
}

// minLeaseTTL is etcd's for its default election timeout, in seconds.
const minLeaseTTL = 2

// newApplier sets up the storage as an etcd server does when it starts.
func newApplier(path string) (a *applier, err error) {
	defer recovered(&err)
	config := backend.DefaultBackendConfig(quiet)
	config.Path = path
	// It is synced once at the end; nothing uses it before.
	config.UnsafeNoFsync = true
	config.Timeout = lockTimeout
	a = &applier{backend: backend.New(config)}
	cluster := membership.NewCluster(quiet)
	cluster.SetBackend(schema.NewMembershipBackend(quiet, a.backend))
	cluster.Recover(api.UpdateCapability)
	// Leases must be loaded before the keys that are attached to them.
	a.lessor = lease.NewLessor(quiet, a.backend, cluster, lease.LessorConfig{MinLeaseTTL: minLeaseTTL})
	a.kv = mvcc.New(quiet, a.backend, a.lessor, mvcc.StoreConfig{})
	// There are no logins: tokens are not in the database.
	tokens, err := auth.NewTokenProvider(quiet, "", nil, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a token provider: %w", err), a.close())
	}
	a.auth = auth.NewAuthStore(quiet, schema.NewAuthBackend(quiet, a.backend), tokens, 0)
	alarms, err := v3alarm.NewAlarmStore(quiet, schema.NewAlarmBackend(quiet, a.backend))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the alarms: %w", err), a.close())
	}
	a.etcd = apply.NewUberApplier(apply.ApplierOptions{
		Logger: quiet, KV: a.kv, AlarmStore: alarms, AuthStore: a.auth, Lessor: a.lessor, Cluster: cluster, Backend: a.backend,
		RaftStatus: noServer{}, SnapshotServer: noServer{}, ConsistentIndex: cindex.NewFakeConsistentIndex(0),
		TxnModeWriteWithSharedBuffer: true,
		QuotaBackendBytesCfg:         -1, // accepted entries are written regardless of the quota
	})
	return a, nil
}

// apply applies an entry. It skips changes of membership: the new cluster has its own.
func (a *applier) apply(entry *raftpb.Entry) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("applying entry %d of term %d: %w", entry.GetIndex(), entry.GetTerm(), err)
		}
	}()
	defer recovered(&err)
	request, err := requestOf(entry)
	if err != nil || request == nil || request.ClusterMemberAttrSet != nil {
		return err
	}
	// A request that fails has failed for its client, too.
	a.etcd.Apply(&apply.InternalRaftRequestWrapper{InternalRaftRequest: request, SkipRangeExecution: request.Txn != nil}, membership.ApplyBoth)
	return nil
}

// requestOf returns the request of API v3 in an entry; nil if it has none.
func requestOf(entry *raftpb.Entry) (*etcdserverpb.InternalRaftRequest, error) {
	if entry.GetType() != raftpb.EntryNormal || len(entry.Data) == 0 || isV2(entry.Data) {
		return nil, nil
	}
	request := &etcdserverpb.InternalRaftRequest{}
	return request, proto.Unmarshal(entry.Data, request)
}

// fieldV2 is the field of requests of API v2, by which members before 3.6 published themselves. Their changes were never in
// the database.
const fieldV2 = 2

func isV2(data []byte) bool {
	for len(data) > 0 {
		field, _, n := protowire.ConsumeField(data)
		if n < 0 {
			return false
		}
		if field == fieldV2 {
			return true
		}
		data = data[n:]
	}
	return false
}

// close flushes and closes everything.
func (a *applier) close() (err error) {
	defer recovered(&err)
	if a.auth != nil {
		err = errors.Join(err, a.auth.Close())
	}
	if a.kv != nil {
		err = errors.Join(err, a.kv.Close())
	}
	if a.lessor != nil {
		a.lessor.Stop()
	}
	return errors.Join(err, a.backend.Close())
}

// recovered turns a panic of etcd's code over unexpected data into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = errors.Join(*err, fmt.Errorf("etcd panicked: %v", r))
	}
}

// noServer stands in for the server. Its values go into responses that are discarded.
type noServer struct{}

func (noServer) MemberID() types.ID     { return 0 }
func (noServer) Leader() types.ID       { return 0 }
func (noServer) CommittedIndex() uint64 { return 0 }
func (noServer) AppliedIndex() uint64   { return 0 }
func (noServer) Term() uint64           { return 0 }
func (noServer) ForceSnapshot()         {}
