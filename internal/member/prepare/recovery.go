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

// newClusterID returns the ID, in hex, of the recovered cluster; empty without a recovery. etcd derives it from the peer URL
// of the first member and from the token.
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

// mayRestore reports whether this member may restore a backup: in a recovery, only the first member does.
func (p *preparation) mayRestore() bool {
	r := p.shared.Recovery
	return r == nil || r.Source == member.RecoverFromBackup && r.Member == p.id.Name
}

// suffix returns the suffix of data that is set aside. Data from before a recovery is kept until the recovery is over.
func (p *preparation) suffix(usual string) string {
	if r := p.shared.Recovery; r != nil && p.data != nil && p.data.ClusterID != p.newClusterID {
		return member.BeforeSuffix + r.Task + "-"
	}
	return usual
}

// rebuild makes a cluster of one member from the member's data.
func (p *preparation) rebuild(ctx context.Context) (waits *Refusal, err error) {
	r := p.shared.Recovery
	p.data = nil
	result, err := datadir.Rebuild(ctx, datadir.RebuildConfig{
		DataDir: p.shared.DataDir(), Task: r.Task, PreviousClusterID: r.PreviousClusterID,
		Member: p.id.Name, PeerURL: p.id.PeerURL, Token: p.shared.Token(), Clock: p.Clock, Log: p.log,
	})
	if err != nil {
		p.log.Error(err, "Rebuilding the cluster failed")
		return &Refusal{Reason: v1alpha1.ReasonRebuildFailed, Message: fmt.Sprintf("rebuilding the cluster from the data of member %s failed: %v", p.id.Name, err)}, nil
	}
	p.log.Info("Made a cluster of one member from all data of the member", "member", p.id.Name,
		"revision", result.Revision, "replayed", result.Replayed, "uncommitted", result.Uncommitted)
	// The next decision finds the data, and starts with it.
	return p.once(ctx)
}
