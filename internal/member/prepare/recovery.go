// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/etcd-foreman/etcd-foreman/internal/member/datadir"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.uber.org/zap"
)

// newClusterID is the ID, in hex, that etcd gives the cluster that a recovery makes; empty without a recovery. It
// follows from the peer URL of the member that begins, and from the token.
func newClusterID(shared member.Shared) (string, error) {
	if shared.Recovery == nil {
		return "", nil
	}
	if _, err := shared.Identify(shared.Recovery.Member); err != nil {
		return "", fmt.Errorf("looking for the member that the cluster is recovered from: %w", err)
	}
	urls, err := types.NewURLsMap(shared.Founders())
	if err != nil {
		return "", fmt.Errorf("reading the peer URL of member %s: %w", shared.Recovery.Member, err)
	}
	cluster, err := membership.NewClusterFromURLsMap(zap.NewNop(), shared.Token(), urls)
	if err != nil {
		return "", fmt.Errorf("computing the ID of the recovered cluster: %w", err)
	}
	return cluster.ID().String(), nil
}

// mayRestore tells whether it matters what the store holds: in a recovery only to the member that restores it.
func (p *preparation) mayRestore() bool {
	r := p.shared.Recovery
	return r == nil || r.Source == member.RecoverFromBackup && r.Member == p.id.Name
}

// suffix is that of data that is put aside. What was there before a recovery is kept until the recovery is over.
func (p *preparation) suffix(usual string) string {
	if r := p.shared.Recovery; r != nil && p.data != nil && p.data.ClusterID != p.newClusterID {
		return member.BeforeSuffix + r.Task + "-"
	}
	return usual
}

// rebuild makes a cluster of one member out of the member's data.
func (p *preparation) rebuild(ctx context.Context) (waits *Refusal, err error) {
	r := p.shared.Recovery
	p.data = nil
	result, err := datadir.Rebuild(ctx, datadir.RebuildConfig{
		DataDir: p.shared.DataDir(), Task: r.Task, PreviousClusterID: r.PreviousClusterID,
		Member: p.id.Name, PeerURL: p.id.PeerURL, Token: p.shared.Token(), Clock: p.Clock, Log: p.log,
	})
	if err != nil {
		p.log.Error(err, "Rebuilding the cluster failed")
		return &Refusal{v1alpha1.ReasonRebuildFailed, fmt.Sprintf("rebuilding the cluster from the data of member %s failed: %v", p.id.Name, err)}, nil
	}
	p.log.Info("Made a cluster of one member from all data of the member", "member", p.id.Name,
		"revision", result.Revision, "replayed", result.Replayed, "uncommitted", result.Uncommitted)
	// The next look finds the data, and starts with it.
	return p.once(ctx)
}
