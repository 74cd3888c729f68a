// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/crashsafe"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// checkRecovery checks that the member that the cluster is recovered from is in the initial cluster.
func checkRecovery(shared member.Shared) error {
	if shared.Recovery == nil {
		return nil
	}
	if _, err := shared.Identify(shared.Recovery.Member); err != nil {
		return fmt.Errorf("looking for the member that the cluster is recovered from: %w", err)
	}
	return nil
}

// mayRestore reports whether this member may restore a backup: in a recovery, only the first member does.
func (p *preparation) mayRestore() bool {
	r := p.shared.Recovery
	return r == nil || r.Source == member.RecoverFromBackup && r.Member == p.id.Name
}

// suffix returns the suffix of data that is set aside. Data from before a recovery is kept until the recovery is over.
func (p *preparation) suffix(in member.Input, usual string) string {
	if r := in.Recovery; r != nil && in.Data.ClusterID != in.NewClusterID {
		return member.BeforeSuffix + r.Task + "-"
	}
	return usual
}

// rebuild makes a cluster of one member from the member's data.
func (p *preparation) rebuild(ctx context.Context) (waits *cluster.Refusal, err error) {
	r := p.shared.Recovery
	p.data = nil
	result, err := datadir.Rebuild(ctx, datadir.RebuildConfig{
		DataDir: p.shared.DataDir(), Task: r.Task, PreviousClusterID: r.PreviousClusterID,
		Member: p.id.Name, PeerURL: p.id.PeerURL, Token: p.shared.Token(), Clock: p.Clock, Log: p.log,
	})
	if err != nil {
		p.log.Error(err, "Rebuilding the cluster failed")
		return &cluster.Refusal{Reason: v1alpha1.ReasonRebuildFailed, Message: fmt.Sprintf("rebuilding the cluster from the data of member %s failed: %v", p.id.Name, err)}, nil
	}
	p.log.Info("Made a cluster of one member from all data of the member", "member", p.id.Name,
		"revision", result.Revision, "replayed", result.Replayed, "uncommitted", result.Uncommitted)
	// The next decision finds the data, and starts with it.
	return p.once(ctx)
}

// note makes the agent beside etcd take a full snapshot before any delta.
func (p *preparation) note(r member.RestoreNote) error {
	if err := crashsafe.WriteFile(p.shared.RestoreNoteFile(), []byte(r.String())); err != nil {
		return fmt.Errorf("noting that member %s was restored: %w", p.id.Name, err)
	}
	return nil
}

// noteRecovered notes that the cluster was recovered under an ID, unless it is noted that this member was restored in this recovery: then a
// snapshot that another member has taken before does not count.
func (p *preparation) noteRecovered(clusterID string) error {
	text, err := os.ReadFile(p.shared.RestoreNoteFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading whether member %s was restored: %w", p.id.Name, err)
	}
	if err == nil && member.ParseRestoreNote(string(text)).ClusterID == clusterID {
		return nil
	}
	return p.note(member.RestoreNote{ClusterID: clusterID})
}
