// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// remake has the agent make other data, which takes a while, and decide again; so it does where a fault ends it between two acts.
func (a *preparation) remake(reason string, do func() (why string)) {
	switch why := do(); why {
	case "":
		a.after(a.world.between(100, 5000), a.prepare)
	case ended:
		a.after(a.world.between(5000, 20_000), a.prepare)
	default:
		a.refuse(&cluster.Refusal{Reason: reason, Message: why}, true)
	}
}

// ended is why data was not replaced if a fault has ended the agent.
const ended = "the agent has ended"

// ends reports whether a fault ends the agent after an act. Every fourth time its node has no power for some minutes then, in which users may give up, and
// every fourth time its volume is lost, unless that alone may have the data.
func (a *preparation) ends(after string) bool {
	f, source, at := a.world.faults, a.shared.Recovery.Source, a.node
	if !f.torn || f.random.IntN(2) == 0 {
		return false
	}
	f.injected["agent ends while it replaces data"]++
	a.world.Log("agent of "+a.name, "ends after it has "+after)
	switch f.random.IntN(4) {
	case 0:
		a.world.Log(at.name, "is lost")
		at.lose(true)
		a.world.After(time.Duration(1+f.random.IntN(10))*time.Minute, "chaos", "", at.comeBack)
	case 1:
		if source == member.RecoverFromBackup || source == member.RecoverFromPoint {
			a.lose()
		}
	}
	return true
}

// made returns what was made for the recovery on this volume; nil if nothing was.
func (a *preparation) made() *members.Made {
	if made := a.disk.Made; made != nil && made.Task == a.shared.Recovery.Task {
		return made
	}
	return nil
}

// replaceWith has a recovery make data, unless it has, and give it the place of what there is, which is set aside: an act at a time.
func (a *preparation) replaceWith(data func() (*members.Disk, string)) (why string) {
	if a.made() == nil {
		d, why := data()
		if why != "" {
			return why
		}
		d.Task, d.Copy = a.shared.Recovery.Task, a.world.newCopy()
		a.disk.Made = &members.Made{Task: d.Task, Copy: d.Copy, Data: *d}
		if a.ends("made data") {
			return ended
		}
	}
	if why := a.begins(); why != "" {
		return why
	}
	if a.disk.Cluster != "" {
		a.disk.SetAside(fmt.Sprintf("new.etcd%s%s-%d", member.BeforeSuffix, a.shared.Recovery.Task, time.Now().Unix()))
		if a.ends("set data aside") {
			return ended
		}
	}
	a.disk.Name()
	return ""
}

// begins marks that a cluster which others join begins with what was made of the backup, or returns why it may not.
func (a *preparation) begins() (why string) {
	r, b, token := a.shared.Recovery, a.world.of(a.name).backups, a.shared.Token()
	switch made := a.made(); {
	case a.in.Single || r.Source != member.RecoverFromBackup && r.Source != member.RecoverFromPoint:
		return ""
	case a.world.faults.storeless:
		return "the store does not answer"
	case b.hasBegun(token, made):
		return "the new cluster may have begun with other data"
	case !slices.Contains(b.begun[token], made.Copy):
		b.begun[token] = append(b.begun[token], made.Copy)
		if a.ends("marked that the cluster begins") {
			return ended
		}
	}
	return ""
}

// hasBegun reports whether the store says that a cluster may have begun with another copy than one; without one, whether it may have begun at all.
func (b *backups) hasBegun(token string, made *members.Made) bool {
	return slices.ContainsFunc(b.begun[token], func(id string) bool { return made == nil || id != made.Copy })
}

// rebuild makes a cluster of one member, of the member's data or of an earlier state.
func (a *preparation) rebuild() (why string) {
	r := a.shared.Recovery
	switch {
	case r.Source == member.RecoverFromKept:
		return a.replaceWith(a.fromKept)
	case r.Restore != nil:
		return a.replaceWith(a.fromPoint)
	}
	return a.replaceWith(func() (*members.Disk, string) {
		if a.disk.Damaged {
			return nil, "the data is damaged"
		}
		d := *a.disk
		d.Kept, d.Made = nil, nil
		d.Rebuild(a.in.NewClusterID, a.founder(a.shared.Token()))
		if r.HighestRevision == 0 {
			return &d, ""
		}
		return a.raised(&d, max(r.HighestRevision-d.Revision(), 0)+datadir.Margin)
	})
}

// fromKept makes data of what an earlier restore has set aside.
func (a *preparation) fromKept() (*members.Disk, string) {
	r := a.shared.Recovery
	kept := a.disk.Kept[r.Restore.Kept]
	if kept == nil || kept.Damaged || !r.LeavesBehind(kept.Cluster) {
		return nil, "there is no such data"
	}
	d := *kept
	d.Rebuild(a.in.NewClusterID, a.founder(a.shared.Token()))
	return a.raised(&d, max(r.Restore.Bump-d.Revision(), datadir.Margin))
}

// fromPoint makes data of an earlier state in the backup.
func (a *preparation) fromPoint() (*members.Disk, string) {
	p := a.shared.Recovery.Restore
	found, err := a.world.of(a.name).backups.at(backup.Target{Revision: p.Revision, Base: p.Base})
	switch {
	case a.world.faults.storeless:
		return nil, "the store does not answer"
	case err != nil:
		return nil, err.Error()
	case found.hash() != p.Hash:
		return nil, "the state has another hash than what was previewed"
	}
	d := &members.Disk{}
	d.Restore(a.in.NewClusterID, a.founder(a.shared.Token()), found.writes, found.raised)
	return a.raised(d, p.Bump)
}

// restore has a member restore the newest backup, and returns why it cannot.
func (a *preparation) restore() (why string) {
	if a.shared.Recovery != nil {
		return a.replaceWith(a.fromBackup)
	}
	d, why := a.fromBackup()
	if why == "" {
		a.aside(member.AsideSuffix)
		d.Kept, d.Copy = a.disk.Kept, a.world.newCopy()
		*a.disk = *d
	}
	return why
}

// fromBackup makes data of the newest backup.
func (a *preparation) fromBackup() (*members.Disk, string) {
	s := a.shared
	found, err := a.world.of(a.name).backups.at(backup.Target{Latest: true})
	switch {
	case a.world.faults.storeless:
		return nil, "the store does not answer"
	case err != nil:
		return nil, err.Error()
	case found.revision < s.Revision:
		return nil, "the backup ends before the final snapshot"
	}
	bump := int64(0)
	if s.ClusterID != "" && s.Recovery.MayBeBehind() {
		known := found.revision
		if s.Recovery != nil {
			known = max(known, s.Recovery.HighestRevision)
		}
		bump = known - found.revision + datadir.Margin
	}
	d, id := &members.Disk{}, cmp.Or(a.in.NewClusterID, member.ClusterID(s.RestoreToken(), s.Founders()))
	d.Restore(id, a.founder(s.RestoreToken()), found.writes, found.raised)
	return a.raised(d, bump)
}

// newCopy names another copy of data.
func (w *World) newCopy() string {
	w.copies++
	return strconv.Itoa(w.copies)
}

// raised raises the revision of data by a bump at least, once the Lease of full snapshots has it, or returns why that is not recorded: the API server
// may be out of reach or fail, also after the write. The real agent then keeps the data for a while, and asks again.
func (a *preparation) raised(d *members.Disk, bump int64) (_ *members.Disk, why string) {
	b, f := a.world.of(a.name).backups, a.world.faults
	if b == nil {
		d.Raised += bump
		return d, ""
	}
	name := b.of.name + leaseOf[backup.Full]
	lease := apiserver.Find[*coordinationv1.Lease](a.world.API.Live(), Namespace, name)
	fails := f.random.IntN(1000) < f.rate
	switch {
	case a.node.silent() || fails && f.random.IntN(2) == 0:
		return nil, "the API server does not answer"
	case lease == nil:
		return nil, "there is no Lease of full snapshots"
	}
	token := a.shared.RestoreToken()
	begins := datadir.BeginsAt(d.Revision(), bump, backup.ParseBegan(lease.Annotations[v1alpha1.AnnotationBeganAt]), lease.Annotations[v1alpha1.AnnotationBeganWith] == token)
	edit(a.world, Namespace, name, "", func(l *coordinationv1.Lease) {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, v1alpha1.AnnotationBeganAt, strconv.FormatInt(begins, 10))
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, v1alpha1.AnnotationBeganWith, token)
	})
	if fails {
		f.injected["record of where a cluster begins lost its answer"]++
		return nil, "the answer of the API server was lost"
	}
	d.Raised += begins - d.Revision()
	return d, ""
}
