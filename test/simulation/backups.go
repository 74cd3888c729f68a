// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// backups are the snapshots of an Etcd in the store, and the agents that take them.
type backups struct {
	world *World
	of    *judge
	list  []stored
	// noted is when the agent last noted that the store has all that there is.
	noted time.Duration
	// begun are the copies with which clusters of several members have begun, as markers say, by the tokens of these.
	begun map[string][]string
}

// stored is a snapshot, with all writes that the database had at its last revision.
type stored struct {
	backup.Snapshot
	cluster string
	lineage string
	writes  []int
	raised  int64
}

// store is how the Etcds of a simulation name their store: nothing of it is mounted.
func store() *v1alpha1.BackupSpec {
	return &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: "S3", Container: "backups"}}
}

// prefix is where the snapshots of an Etcd are.
func prefix(etcd string) string { return Namespace + "/" + etcd }

// keep has the agent of the leader take snapshots, as long as the store answers.
func (b *backups) keep() {
	b.world.After(b.world.between(3000, 30_000), "backups", "", func() {
		b.keep()
		leader, _ := b.of.leader()
		if leader == nil || b.world.faults.storeless || b.world.podOf(leader).node.silent() {
			return
		}
		kind := backup.Delta
		if b.world.pace.IntN(6) == 0 {
			kind = backup.Full
		}
		if b.take(leader.Disk, kind, false) == nil {
			b.current()
		}
	})
}

// take takes a snapshot of what is committed, and returns it; nil if nothing has changed. The first one of a cluster is full.
func (b *backups) take(d *members.Disk, kind backup.Kind, final bool) *stored {
	s := stored{cluster: d.Cluster, lineage: d.Lineage(), writes: d.Committed(), raised: d.Raised}
	s.Snapshot = backup.Snapshot{Kind: kind, LastRevision: d.Revision(), Created: time.Now().UTC().Truncate(time.Second), Final: final, Prefix: prefix(b.of.name) + "/" + backup.LayoutVersion}
	newest := b.newest()
	switch {
	case newest == nil || newest.cluster != d.Cluster || !b.recorded():
		s.Kind = backup.Full
	case kind == backup.Delta && newest.LastRevision >= s.LastRevision:
		return nil
	case kind == backup.Delta:
		s.StartRevision = newest.LastRevision + 1
	}
	if same := b.named(s.Name()); same != nil {
		return same
	}
	b.list = append(b.list, s)
	b.world.Log("backups", b.of.name+" has "+s.Name())
	b.record(s.Snapshot)
	return &s
}

// leaseOf are the Leases of snapshots, without the name of the Etcd.
var leaseOf = map[backup.Kind]string{backup.Full: "-full-snap", backup.Delta: "-delta-snap"}

// recorded reports whether the Lease of an Etcd, which may have been created again, records a full snapshot. Without one, a recovery finds none.
func (b *backups) recorded() bool {
	if b.newest() == nil {
		return false
	}
	l := apiserver.Find[*coordinationv1.Lease](b.world.API.Live(), Namespace, b.of.name+leaseOf[backup.Full])
	return l != nil && l.Spec.HolderIdentity != nil
}

// current has the agent note that the store has all that there is, once a minute.
func (b *backups) current() {
	if b.world.Now()-b.noted < time.Minute {
		return
	}
	b.noted = b.world.Now()
	edit(b.world, Namespace, b.of.name+leaseOf[backup.Full], "", func(l *coordinationv1.Lease) {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, v1alpha1.AnnotationBackupsCurrent, time.Now().UTC().Format(time.RFC3339))
	})
}

// record has the agent renew the Lease of a snapshot.
func (b *backups) record(s backup.Snapshot) {
	edit(b.world, Namespace, b.of.name+leaseOf[s.Kind], "", func(l *coordinationv1.Lease) {
		l.Spec.HolderIdentity, l.Spec.RenewTime = ptr.To(strconv.FormatInt(s.LastRevision, 10)), &metav1.MicroTime{Time: s.Created}
	})
}

// newest returns the newest snapshot; nil if there is none.
func (b *backups) newest() *stored {
	if b == nil || len(b.list) == 0 {
		return nil
	}
	return &b.list[len(b.list)-1]
}

func (b *backups) named(name string) *stored {
	if i := slices.IndexFunc(b.list, func(s stored) bool { return s.Name() == name }); i >= 0 {
		return &b.list[i]
	}
	return nil
}

func (b *backups) snapshots() (list []backup.Snapshot) {
	for _, s := range b.list {
		list = append(list, s.Snapshot)
	}
	return list
}

// state is what a restore to a target brings.
type state struct {
	backup.Chain
	revision int64
	cluster  string
	writes   []int
	raised   int64
}

// at returns the state at a target.
func (b *backups) at(target backup.Target) (s state, err error) {
	choices, err := target.Choose(b.snapshots())
	if err != nil {
		return s, err
	}
	s.Chain = choices[0].Chain
	last := b.named(s.Last().Name())
	s.revision, s.cluster, s.raised = last.LastRevision, last.cluster, last.raised
	if cut := choices[0].Cut.Revision; cut > 0 {
		s.revision = min(cut, s.revision)
	}
	s.writes = last.writes[:s.revision-1-s.raised]
	return s, nil
}

// hash stands for etcd's HashKV.
func (s state) hash() uint32 {
	sum := crc32.NewIEEE()
	for _, w := range s.writes {
		_ = binary.Write(sum, binary.BigEndian, int64(w)) // a hash never fails to write
	}
	return sum.Sum32()
}

// lacks counts the writes of some that the newest backup does not have.
func (b *backups) lacks(writes []int) int {
	newest := b.newest()
	if newest == nil {
		return len(writes)
	}
	return members.Missing(&members.Disk{Writes: newest.writes}, writes)
}

// preview is what the agent finds in the Job of a Restore.
func (b *backups) preview(args map[string]string) backup.Preview {
	_, latest := args["latest"]
	revision, _ := strconv.ParseInt(args["revision"], 10, 64) // none if there is none
	found, err := b.at(backup.Target{Latest: latest, Revision: revision, Snapshot: args["snapshot"], Base: args["base"]})
	if err != nil {
		return backup.Preview{Refused: &backup.Refusal{Code: backup.TargetOutside, Message: err.Error()}}
	}
	p := backup.Preview{
		Base: found.Full.Name(), Deltas: len(found.Deltas), Revision: found.revision, Time: found.Last().Created, Hash: found.hash(),
		Keys: int64(len(found.writes)), Bytes: databaseBytes, EndBytes: databaseBytes,
		Digest: backup.DigestOf(args["etcd-uid"], args["cluster-id"], found.Chain, found.revision, found.hash()),
	}
	if end := b.newest(); end.cluster == found.cluster {
		p.End, p.Lost = &backup.Point{Revision: end.LastRevision, Time: end.Created}, end.LastRevision-found.revision
	} else {
		p.End = &backup.Point{Revision: end.LastRevision, Time: end.Created}
	}
	return p
}

// databaseBytes is the size of each database, and freeBytes is free on each volume.
const databaseBytes, freeBytes = 1 << 20, 1 << 40

// flags reads the arguments of a Job of the agent.
func flags(args []string) map[string]string {
	all := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		all[name] = value
	}
	return all
}

// backup is what the agent of a pod knows of the backups, which it looks up only if it needs one.
func (a *preparation) backup() member.Backup {
	b, r := a.world.of(a.name).backups, a.shared.Recovery
	starts := a.in.Data.State == member.DataPresent && (r == nil || a.in.Data.ClusterID == a.in.NewClusterID)
	switch {
	case b == nil || a.in.Others != member.AnswerNone || starts || r != nil && (r.Source != member.RecoverFromBackup || r.Member != a.id.Name):
		return member.BackupNotConfigured
	case a.world.faults.storeless:
		return member.BackupUnreachable
	case b.newest() == nil:
		return member.BackupEmpty
	}
	return member.BackupHolds
}

// founder is the member as the only one of a cluster with a token.
func (a *preparation) founder(token string) members.Peer {
	return members.Peer{ID: memberID(a.id.PeerURL, token), Name: a.id.Name, PeerURL: a.id.PeerURL}
}

// aside sets data aside: what was there before a recovery is kept, and the rest is not modeled.
func (a *preparation) aside(suffix string) {
	if r := a.in.Recovery; r != nil && a.in.Data.ClusterID != a.in.NewClusterID {
		suffix = member.BeforeSuffix + r.Task + "-"
	}
	if suffix = "new.etcd" + suffix + strconv.FormatInt(time.Now().Unix(), 10); strings.Contains(suffix, member.BeforeSuffix) {
		a.disk.SetAside(suffix)
		return
	}
	*a.disk = members.Disk{Kept: a.disk.Kept}
}

// fenced reports whether the client Service of an Etcd selects no member.
func (j *judge) fenced() bool {
	s := apiserver.Find[*corev1.Service](j.world.API.Live(), Namespace, j.name+"-client")
	return s != nil && s.Spec.Selector[v1alpha1.LabelFencedBy] != ""
}
