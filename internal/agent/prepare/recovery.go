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
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
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

// beginsFromBackup reports whether this member begins a new cluster from a state in the backup, which others join: it could do that twice.
func (p *preparation) beginsFromBackup() bool {
	r := p.shared.Recovery
	return p.others != nil && r != nil && r.Member == p.id.Name && (r.Source == member.RecoverFromBackup || r.Source == member.RecoverFromPoint)
}

// lookWhetherBegun looks up whether the new cluster may have begun with other data than what is made of the backup on this volume.
func (p *preparation) lookWhetherBegun(ctx context.Context, in *member.Input) error {
	in.Begun = slices.ContainsFunc(p.others.clusters(ctx, p.id), func(id string) bool { return slices.Contains(p.shared.RecoveredIDs(), id) })
	if in.Begun || p.Backups == nil {
		return nil
	}
	copyID := ""
	if in.Rebuilt {
		var err error
		if copyID, err = datadir.CopyID(in.DataDir, in.Recovery.Task); err != nil {
			return p.unusable(fmt.Errorf("reading which copy of the backup is on the volume: %w", err))
		}
	}
	begun, err := p.Backups.Begun(ctx, p.shared.Token(), copyID)
	if err != nil {
		p.log.Error(err, "Looking whether the new cluster has begun failed")
		in.BegunUnknown, in.StoreSays = true, store.Trouble(err)
	}
	in.Begun = begun
	return nil
}

// suffix returns the suffix of data that is set aside. Data from before a recovery is kept until the recovery is over.
func (p *preparation) suffix(in member.Input, usual string) string {
	if r := in.Recovery; r != nil && in.Data.ClusterID != in.NewClusterID {
		return member.BeforeSuffix + r.Task + "-"
	}
	return usual
}

// rebuild makes a cluster of one member from the member's data, or from an earlier state.
func (p *preparation) rebuild(ctx context.Context) (waits *cluster.Refusal, err error) {
	r := p.shared.Recovery
	p.data = nil
	if r.Restore != nil {
		return p.goBack(ctx)
	}
	result, err := datadir.Rebuild(ctx, p.rebuildConfig())
	if err != nil {
		p.log.Error(err, "Rebuilding the cluster failed")
		return &cluster.Refusal{Reason: v1alpha1.ReasonRebuildFailed, Message: fmt.Sprintf("rebuilding the cluster from the data of member %s failed: %v", p.id.Name, err)}, nil
	}
	p.log.Info("Made a cluster of one member from all data of the member", "member", p.id.Name,
		"revision", result.Revision, "replayed", result.Replayed, "uncommitted", result.Uncommitted)
	// The next decision finds the data, and starts with it.
	return p.once(ctx)
}

func (p *preparation) rebuildConfig() datadir.RebuildConfig {
	r := p.shared.Recovery
	return datadir.RebuildConfig{
		DataDir: p.shared.DataDir(), Task: r.Task, PreviousClusterID: r.PreviousClusterID,
		Member: p.id.Name, PeerURL: p.id.PeerURL, Token: p.shared.Token(), Known: r.HighestRevision, Begins: p.Begins, Clock: p.Clock, Log: p.log,
	}
}

// goBack makes a cluster of one member from an earlier state. The present data is set aside once that is complete.
func (p *preparation) goBack(ctx context.Context) (waits *cluster.Refusal, err error) {
	r := p.shared.Recovery
	if r.Source == member.RecoverFromKept {
		err = p.fromKept(ctx)
	} else {
		err = p.fromSnapshots(ctx)
	}
	if err != nil {
		p.log.Error(err, "Restoring an earlier state failed")
		return &cluster.Refusal{Reason: v1alpha1.ReasonRestoreFailed, Message: fmt.Sprintf("task %s restores an earlier state on member %s, which failed, and its data is unchanged: %v. It is tried again. To give up, create a QuorumLossRecovery: it starts the cluster from that data", r.TaskName, p.id.Name, err)}, nil
	}
	// The next decision finds the data, and starts with it.
	return p.once(ctx)
}

// fromSnapshots restores the given state from the backup, or the newest one, and then sets the present data aside. Before the new cluster
// can start, the store has a marker of it, which is not lost with the volume.
func (p *preparation) fromSnapshots(ctx context.Context) error {
	dataDir, task := p.shared.DataDir(), p.shared.Recovery.Task
	made, err := datadir.Rebuilt(dataDir, task)
	if err != nil {
		return err
	}
	if p.Backups == nil && (!made || p.beginsFromBackup()) {
		return errors.New("the Etcd has no backup store any more")
	}
	if !made {
		if err := p.Backups.Restore(ctx, p.shared, p.id); err != nil {
			return err
		}
	}
	if p.beginsFromBackup() {
		copyID, err := datadir.CopyID(dataDir, task)
		if err != nil {
			return fmt.Errorf("writing which copy of the backup is on the volume: %w", err)
		}
		if err := p.Backups.Begin(ctx, p.shared.Token(), copyID); err != nil {
			return err
		}
	}
	return datadir.Swap(dataDir, task, p.Clock)
}

// fromKept rebuilds the cluster from a copy of the data that an earlier restore has set aside.
func (p *preparation) fromKept(ctx context.Context) error {
	r, config := p.shared.Recovery, p.rebuildConfig()
	if !strings.HasPrefix(r.Restore.Kept, filepath.Base(config.DataDir)+member.BeforeSuffix) {
		return fmt.Errorf("%s is not data that was set aside from %s", r.Restore.Kept, config.DataDir)
	}
	config.From = filepath.Join(filepath.Dir(config.DataDir), r.Restore.Kept)
	// The operator has raised the revision that it has put, 0, by Margin above all that it knew: it did not know how far the data reaches.
	config.Known = max(r.Restore.Revision+r.Restore.Bump-datadir.Margin, 1)
	id, _, err := datadir.Writer(config.From)
	if err != nil {
		return fmt.Errorf("reading the kept data: %w", err)
	}
	if config.PreviousClusterID = strconv.FormatUint(id, 16); !r.LeavesBehind(config.PreviousClusterID) {
		return fmt.Errorf("%s has data of cluster %s, which is none that was before", config.From, config.PreviousClusterID)
	}
	_, err = datadir.Rebuild(ctx, config)
	return err
}

// note makes the agent beside etcd take a full snapshot before any delta.
func (p *preparation) note(r member.RestoreNote) error {
	if err := crashsafe.WriteFile(p.shared.RestoreNoteFile(), []byte(r.String())); err != nil {
		return fmt.Errorf("noting that member %s was restored: %w", p.id.Name, err)
	}
	return nil
}

// noteRecovered notes that the cluster was recovered under an ID. A note that this member was restored in this recovery stays: with that, an
// earlier snapshot of another member does not count.
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
