// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package prepare observes the state of a member when its pod starts, and carries out what package member decides: it renders
// the configuration file, replaces the member with a learner, restores a backup, or rebuilds a cluster from the member's
// data. It links etcd's server, so only the agent imports it.
package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/crashsafe"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/go-logr/logr"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/utils/clock"
)

// retry is how long to wait before deciding again.
const retry = time.Second

// Options of Run.
type Options struct {
	// Name of the member.
	Name string
	// SharedDir is where the shared ConfigMap is mounted.
	SharedDir string
	// ClientDir has the client certificate for members that listen for clients with TLS.
	ClientDir string
	// ConfigFile is the file to write.
	ConfigFile string
	// Patience is how long to wait for conditions that may change, before returning why.
	Patience time.Duration
	// Backups of the cluster; nil without a store.
	Backups Backups
	// Begins records at which revision a new cluster begins; nil without a store, as only what a backup brings back could begin there again.
	Begins datadir.Recorder
	Clock  clock.Clock
}

// Backups are what the first member of a cluster is restored from.
type Backups interface {
	// Exist reports whether there is a full snapshot.
	Exist(ctx context.Context) (bool, error)
	// Restore makes a data directory, which must not exist, from the newest full snapshot and its deltas. An interrupted
	// restore leaves none.
	Restore(ctx context.Context, shared member.Shared, id member.Identity) error
	// Begun reports whether the cluster with a token may have begun with another copy of a backup than one; without one, at all.
	Begun(ctx context.Context, token, copyID string) (bool, error)
	// Begin marks that it begins with a copy. It returns an error if it may have begun with another one.
	Begin(ctx context.Context, token, copyID string) error
}

// preparation is one run.
type preparation struct {
	Options
	log    logr.Logger
	shared member.Shared
	id     member.Identity
	others *others
	// data caches the state of the data directory, because reading a log takes time; nil if it must be read.
	data *member.Data
	said said
	// probed: what has no data yet could be written to the volume.
	probed bool
	// says is what this run says of the volume, and since when.
	says  cluster.Volume
	since time.Time
}

// once observes, decides and acts. It returns what the member waits for; nil if it may start.
func (p *preparation) once(ctx context.Context) (waits *cluster.Refusal, err error) {
	in, known, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	decision := member.Decide(in)
	log := p.log.WithValues("member", p.id.Name, "action", decision.Action, "why", decision.Why, "clusterID", in.ClusterID)
	if err := p.probe(decision); err != nil {
		return nil, p.unusable(err)
	}
	switch decision.Action {
	case member.Refuse:
		return nil, refusal(decision)
	case member.Wait:
		return refusal(decision), nil
	case member.SetAside:
		if err := p.clear(in, decision.Suffix); err != nil {
			return nil, err
		}
		// The next decision finds no data.
		return p.once(ctx)
	case member.Restore:
		log.Info("Restoring the member from the newest backup")
		return p.restore(ctx, in)
	case member.Rebuild:
		log.Info("Rebuilding the cluster from the data of the member")
		return p.rebuild(ctx)
	case member.Replace:
		log.Info("Replacing the member with a learner", "oldMemberID", fmt.Sprintf("%x", known.memberID))
		if known.members, err = p.replace(ctx, in, known); err != nil {
			return &cluster.Refusal{Reason: v1alpha1.ReasonNotReplaced, Message: fmt.Sprintf("%s: %v", decision.Why, err)}, nil
		}
	}
	if err := p.configure(in, decision.Action, known); err != nil {
		return nil, err
	}
	log.Info("The member may start")
	return nil, nil
}

func refusal(d member.Decision) *cluster.Refusal {
	return &cluster.Refusal{Reason: d.Reason, Message: d.Why, Volume: d.Volume}
}

// configure prepares everything for etcd to start by an action.
func (p *preparation) configure(in member.Input, action member.Action, known knowledge) error {
	if action != member.Start {
		if err := p.clear(in, p.suffix(in, member.AsideSuffix)); err != nil {
			return err
		}
	}
	if p.shared.Recovery != nil {
		// The leader of the recovered cluster starts with a full snapshot.
		if err := p.noteRecovered(in.NewClusterID); err != nil {
			return p.unusable(err)
		}
	}
	initial := ""
	if action == member.Join || action == member.Replace {
		initial = initialCluster(p.id, known.members)
	}
	file, err := p.shared.Render(p.id, action, initial)
	if err != nil {
		return err
	}
	// What a later run reads is whole.
	err = os.WriteFile(p.ConfigFile+".new", file, 0o644)
	if err == nil {
		err = os.Rename(p.ConfigFile+".new", p.ConfigFile)
	}
	if err != nil {
		return fmt.Errorf("writing the configuration of member %s: %w", p.id.Name, err)
	}
	return nil
}

// look gathers the input, the backup only if needed. A member with intact data asks the others once, whether they still list it.
func (p *preparation) look(ctx context.Context) (member.Input, knowledge, error) {
	in := member.Input{
		Member: p.id.Name, DataDir: p.shared.DataDir(), ClusterID: p.shared.ClusterID, Single: p.others == nil, MayBegin: p.shared.MayBegin(),
		Successors: p.shared.SuccessorIDs(), Recovery: p.shared.Recovery, Planned: p.shared.Members != nil, Leaving: p.shared.Members.Leaves(p.id.Name),
	}
	if p.data == nil || p.data.State == member.DataNone {
		data, err := datadir.Inspect(in.DataDir)
		if err != nil {
			return member.Input{}, knowledge{}, p.unusable(fmt.Errorf("inspecting the data directory %s: %w", in.DataDir, err))
		}
		p.data = &data
	}
	in.Data = *p.data
	in.NewClusterID = p.shared.RecoveredID(in.ClusterID, in.Data.ClusterID)
	starts := in.Data.State == member.DataPresent && (in.Recovery == nil || in.Data.ClusterID == in.NewClusterID)
	var err error
	if in.Recovery != nil && !starts {
		if in.Rebuilt, err = datadir.Rebuilt(in.DataDir, in.Recovery.Task); err == nil {
			in.KeptAside, err = datadir.KeptAside(in.DataDir, in.Recovery.Task)
		}
		if err != nil {
			return member.Input{}, knowledge{}, p.unusable(err)
		}
	}
	known, err := p.others.ask(ctx, p.id)
	if err != nil {
		p.log.V(1).Info("The other members did not answer", "reason", err.Error())
	}
	in.Others, in.OthersClusterID = known.answer, known.clusterID
	in.Listed, in.DataListed = known.listed(), known.lists(in.Data.MemberID)
	in.NewClusterID = p.shared.RecoveredID(in.ClusterID, in.OthersClusterID, in.Data.ClusterID)
	if in.Others == member.AnswerNone && !starts && p.beginsFromBackup() {
		if err := p.lookWhetherBegun(ctx, &in); err != nil {
			return member.Input{}, knowledge{}, err
		}
	}
	if in.Others == member.AnswerNone && !starts && !in.BegunUnknown && p.Backups != nil && p.mayRestore() {
		in.Backup, in.StoreSays = p.lookForBackup(ctx)
	}
	return in, known, nil
}

// lookForBackup also returns what is wrong with a store that gives no list; empty if it does not answer.
func (p *preparation) lookForBackup(ctx context.Context) (is member.Backup, says string) {
	exist, err := p.Backups.Exist(ctx)
	switch {
	case err != nil:
		p.log.Error(err, "Looking for a backup failed")
		return member.BackupUnreachable, store.Trouble(err)
	case exist:
		return member.BackupHolds, ""
	}
	return member.BackupEmpty, ""
}

// replace replaces the member with a learner. It may be interrupted anywhere and is then decided again. It removes the old
// member before its data, so that it never sets data aside that a listed member could start with.
func (p *preparation) replace(ctx context.Context, in member.Input, known knowledge) (members []*etcdserverpb.Member, err error) {
	if known.answer != member.AnswerNotListed {
		if err := p.others.remove(ctx, known.memberID); err != nil {
			return nil, err
		}
	}
	if err := p.clear(in, p.suffix(in, member.ReplacedSuffix)); err != nil {
		return nil, err
	}
	// etcd would refuse it, after a write to the cluster's log each time.
	if learner := otherLearner(known.members, p.id.PeerURL); learner != "" {
		return nil, fmt.Errorf("member %s waits until %s is promoted: etcd allows one learner at a time", p.id.Name, learner)
	}
	return p.others.addLearner(ctx, p.id.PeerURL)
}

// restore restores the backup into the data directory of the first member of a cluster. In a recovery, data from before it is set aside
// once the backup is restored: it may be all that is left, and the backup may be of no use.
func (p *preparation) restore(ctx context.Context, in member.Input) (waits *cluster.Refusal, err error) {
	p.data = nil
	restore, unchanged := func() error { return p.Backups.Restore(ctx, p.shared, p.id) }, ""
	if in.Recovery != nil {
		restore, unchanged = func() error { return p.fromSnapshots(ctx) }, ", and what is on its volume is unchanged"
	}
	if in.Recovery == nil || in.Data.ClusterID == in.NewClusterID {
		unchanged = ""
		if err := p.clear(in, member.AsideSuffix); err != nil {
			return nil, err
		}
	}
	// Before there is data: the next decision after a crash starts with it, and does not come by here.
	if err := p.note(member.RestoreNote{FromBackup: true, ClusterID: in.NewClusterID}); err != nil {
		return nil, p.unusable(err)
	}
	if err := restore(); err != nil {
		p.log.Error(err, "Restoring the backup failed")
		return &cluster.Refusal{Reason: v1alpha1.ReasonRestoreFailed, Message: fmt.Sprintf("restoring the backup of member %s failed%s: %v", p.id.Name, unchanged, err)}, nil
	}
	// The next decision finds the data, and starts with it.
	return p.once(ctx)
}

// clear sets the data directory aside, even without a log: etcd would open a database that it finds.
func (p *preparation) clear(in member.Input, suffix string) error {
	p.data = nil
	entries, err := os.ReadDir(in.DataDir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return p.unusable(fmt.Errorf("reading the data directory to set aside: %w", err))
	}
	aside := fmt.Sprintf("%s%s%d", in.DataDir, suffix, p.Clock.Now().Unix())
	if err := crashsafe.Rename(in.DataDir, aside); err != nil {
		return p.unusable(fmt.Errorf("setting the data directory aside: %w", err))
	}
	p.log.Info("Set the data directory aside", "member", p.id.Name, "to", aside, "damage", in.Data.Damage)
	return nil
}
